"""Optimizers under PyTorch's names. Skipped by name where there is no PyTorch."""

import inspect
import os
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, np, plain, torch)

# Of each optimizer of PyTorch's that a job has, by the job's name; how its
# arguments are called there, those of the optimizer and those beside it.
PYTORCHS = {
    "sgd": ("SGD", {"momentum": "momentum", "nesterov": "nesterov"}),
    "adam": ("Adam", {"eps": "epsilon"}),
    "adamw": ("AdamW", {"eps": "epsilon", "weight_decay": "weight_decay"}),
    "adagrad": ("Adagrad", {"eps": "epsilon",
                            "initial_accumulator_value": "initial_accumulator"}),
    "adadelta": ("Adadelta", {"rho": "rho", "eps": "epsilon"}),
    "rmsprop": ("RMSprop", {"eps": "epsilon", "alpha": "decay", "momentum": "momentum",
                            "centered": "centered"}),
}


class OptimizersTest(LoopCase):

    def pytorchs(self, name):
        return getattr(torch.optim, PYTORCHS[name][0])

    def test_the_table_has_all_that_both_have(self):
        from paramd import _optimizers
        self.assertEqual(sorted(_optimizers.DEFAULTS), sorted(PYTORCHS))

    def test_defaults_are_pytorchs(self):
        from paramd import _optimizers
        for name, (_, words) in PYTORCHS.items():
            arguments = {a.name: a.default for a in inspect.signature(
                self.pytorchs(name)).parameters.values()}
            found = _optimizers.with_defaults({name: {}})
            with self.subTest(optimizer=name):
                self.assertEqual(found["learning_rate"], arguments["lr"])
                wanted = {word: arguments[argument]
                          for argument, word in words.items()}
                if "betas" in arguments:
                    wanted["beta1"], wanted["beta2"] = arguments["betas"]
                self.assertEqual(found[name], wanted)

    def test_what_is_said_stays(self):
        from paramd import _optimizers
        said = {"adagrad": {"initial_accumulator": 0.1}, "learning_rate": 0.5,
                "decay": "decoupled", "schedule": "cosine"}
        found = _optimizers.with_defaults(said)
        self.assertEqual(found["adagrad"], {"initial_accumulator": 0.1,
                                            "epsilon": 1e-10})
        self.assertEqual({key: found[key] for key in said if key != "adagrad"},
                         {key: said[key] for key in said if key != "adagrad"})
        for other in (None, "adam", {"ftrl": {}}, {"adam": 3}, {"adam": {}, "sgd": {}}):
            self.assertIs(_optimizers.with_defaults(other), other)

    def compared(self, name, settings, make=None, **of_pytorch):
        """The same batches with the servers' optimizer and with PyTorch's, of all
        parameters if none is made of the model."""
        self.run_dir += "-next"
        batches = []
        model = plain()
        worker = self.worker(model, optimizer=dict({name: {}}, **settings))
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(self.data, 16):
                batches.append((x, y))
                worker.step(F.cross_entropy(model(x), y))
        alone = plain()
        optimizer = (make(alone) if make else
                     self.pytorchs(name)(alone.parameters(), **of_pytorch))
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(alone(x), y).backward()
            optimizer.step()
        # A gradient near zero decides by its last bit which way a step goes whose
        # size does not follow from it: the first one of Adam and its like.
        for mine, others in zip(model.parameters(), alone.parameters()):
            np.testing.assert_allclose(mine.detach().numpy(), others.detach().numpy(),
                                       rtol=1e-3, atol=2e-4)

    def test_a_name_alone_trains_as_pytorchs_without_arguments(self):
        for name in PYTORCHS:
            with self.subTest(optimizer=name):
                self.compared(name, {})

    def test_groups_are_pytorchs(self):
        def grouped(kind, of_biases):
            def make(model):
                named = list(model.named_parameters())
                return getattr(torch.optim, kind)([
                    {"params": [p for n, p in named if not n.endswith("bias")]},
                    {"params": [p for n, p in named if n.endswith("bias")],
                     **of_biases}])
            return make

        self.compared(
            "adamw", {"groups": [{"variables": "*bias", "beta1": 0.5, "epsilon": 1e-3,
                                  "weight_decay": 0}],
                      "rate_factors": [{"variables": "*bias", "factor": 0.5}]},
            grouped("AdamW", {"betas": (0.5, 0.999), "eps": 1e-3, "weight_decay": 0.0,
                              "lr": 5e-4}))
        self.compared(
            "adadelta", {"groups": [{"variables": "*bias", "rho": 0.5,
                                     "weight_decay": 0.1}]},
            grouped("Adadelta", {"rho": 0.5, "weight_decay": 0.1}))

    def test_a_group_has_the_defaults_of_the_optimizer_that_it_names(self):
        from paramd import _optimizers
        found = _optimizers.with_defaults({
            "adamw": {}, "groups": [{"variables": "a", "adagrad": {"epsilon": 1e-3}},
                                    {"variables": "b", "beta1": 0.5},
                                    {"variables": "c", "ftrl": {}}]})
        self.assertEqual(found["groups"], [
            {"variables": "a", "learning_rate": 1e-2, "weight_decay": 0,
             "adagrad": {"initial_accumulator": 0, "epsilon": 1e-3}},
            {"variables": "b", "beta1": 0.5}, {"variables": "c", "ftrl": {}}])
        self.assertEqual(found["decay"], "l2")
        self.assertEqual(found["learning_rate"], 1e-3)

    def test_a_group_that_names_one_takes_nothing_of_the_jobs(self):
        from paramd import _optimizers
        found = _optimizers.with_defaults({
            "adam": {}, "learning_rate": 0.5, "weight_decay": 0.1,
            "groups": [{"variables": "a", "sgd": {}},
                       {"variables": "b", "sgd": {}, "weight_decay": 0.2},
                       {"variables": "c", "adamw": {}}]})
        self.assertEqual(
            [(group["learning_rate"], group.get("weight_decay"))
             for group in found["groups"]], [(1e-3, 0), (1e-3, 0.2), (1e-3, None)])
        self.assertEqual(found["groups"][2]["adamw"]["weight_decay"], 0.01)

    def test_a_constant_beside_the_optimizer_that_a_group_names_is_given_once(self):
        from paramd import _optimizers
        found = _optimizers.with_defaults({"sgd": {}, "groups": [
            {"variables": "a", "rmsprop": {}, "momentum": 0.5}]})
        self.assertEqual(found["groups"], [
            {"variables": "a", "learning_rate": 1e-2, "weight_decay": 0, "momentum": 0.5,
             "rmsprop": {"decay": 0.99, "epsilon": 1e-8, "centered": False}}])
        # Also where the job's is none of PyTorch's, which stays as it is.
        found = _optimizers.with_defaults({
            "lamb": {}, "learning_rate": 0.5,
            "groups": [{"variables": "a", "adam": {}}]})
        self.assertEqual(found, {
            "lamb": {}, "learning_rate": 0.5, "decay": "l2",
            "groups": [{"variables": "a", "learning_rate": 1e-3, "weight_decay": 0,
                        "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}}]})

    def test_a_group_of_another_kind_is_pytorchs_second_optimizer(self):
        class Both:
            def __init__(self, model):
                named = list(model.named_parameters())
                self.all = [
                    torch.optim.AdamW([p for n, p in named
                                       if not n.endswith("bias")]),
                    torch.optim.Adagrad([p for n, p in named if n.endswith("bias")],
                                        lr=0.05, weight_decay=0.1)]

            def zero_grad(self):
                for one in self.all:
                    one.zero_grad()

            def step(self):
                for one in self.all:
                    one.step()

        self.compared("adamw", {"groups": [{"variables": "*bias", "adagrad": {},
                                            "learning_rate": 0.05,
                                            "weight_decay": 0.1}]}, Both)

    def test_what_a_group_can_not_have_is_said_by_its_key(self):
        import paramd
        for group, said in (
                ({"momentum": 0.5}, r"groups\[0\].momentum: adam has no momentum"),
                ({"amsgrad": True}, r"groups\[0\].amsgrad: unknown key"),
                ({"lr": 0.5}, r"groups\[0\].lr: unknown key")):
            worker = self.worker(plain(), optimizer={
                "adam": {}, "groups": [{"variables": "*", **group}]})
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                self.first_batch(worker)

    def test_weight_decay_is_what_it_is_there(self):
        for name in PYTORCHS:
            if name != "adamw":  # Where it stands under the name.
                with self.subTest(optimizer=name):
                    self.compared(name, {"weight_decay": 0.1}, weight_decay=0.1)


if __name__ == "__main__":
    unittest.main()
