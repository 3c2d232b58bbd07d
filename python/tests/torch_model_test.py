"""A model that changes under a PyTorch loop. Skipped by name where there is no
PyTorch."""

import os
import sys
import unittest
import warnings

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, network, np, plain, torch)


class ModelTest(LoopCase):

    def train_on(self, worker, epochs=1, each=lambda epoch: None):
        """A loop over worker.model; `each` is called before each epoch."""
        for epoch in worker.epochs(epochs):
            each(epoch)
            for x, y in epoch.batches(self.data, 32):
                worker.step(F.cross_entropy(worker.model(x), y))
        self.assertTrue(worker.close())

    def saved(self):
        import paramd
        return paramd.load(self.run_dir)

    def test_what_is_trained_is_what_the_model_has_at_the_first_batch(self):
        def assign(model):
            model.load_state_dict({name: values.clone() for name, values
                                   in model.state_dict().items()}, assign=True)

        def replace(model):
            model[3] = torch.nn.Linear(16, 3)

        def unfreeze(model):
            model.requires_grad_(True)

        def reparametrize(model):
            torch.nn.utils.parametrizations.weight_norm(model[3])

        for change in (assign, replace, unfreeze, reparametrize):
            with self.subTest(change=change.__name__):
                self.run_dir += "-next"
                model = network()
                if change is unfreeze:
                    model[0].requires_grad_(False)
                worker = self.worker(model)
                change(model)
                before = {name: p.detach().clone()
                          for name, p in model.named_parameters()}
                self.train_on(worker)
                saved = self.saved()
                for name, values in before.items():
                    self.assertGreater(abs(saved[name] - values.numpy()).max(), 1e-4,
                                       name)

    def test_what_is_trained_stays_to_the_end(self):
        import paramd

        def assign(model):
            model.load_state_dict({name: values.clone() for name, values
                                   in model.state_dict().items()}, assign=True)

        def replace(model):
            model[3] = torch.nn.Linear(16, 3)

        def freeze(model):
            model[3].requires_grad_(False)

        def grow(model):
            model[3].more = torch.nn.Parameter(torch.zeros(2))

        def normalize(model):
            model[1].running_var = None
            model[2] = torch.nn.BatchNorm1d(16, affine=False)

        for change, said in ((assign, "'0.weight' is another tensor than"),
                             (replace, "'3.weight' is another tensor than"),
                             (freeze, "'3.weight' is not trained, but was"),
                             (grow, "'3.more' is trained, but was not"),
                             (normalize, "'2.running_mean' is of another module")):
            with self.subTest(change=change.__name__):
                self.run_dir += "-next"
                worker = self.worker(network())
                with self.assertRaisesRegex(paramd.InvalidArgument, said):
                    self.train_on(worker, 2, lambda epoch: (
                        epoch.number == 2 and change(worker.model)))

    def test_a_model_leaves_the_worker_that_had_it(self):
        import paramd
        model = network()
        first = self.worker(model)
        x, y = self.first_batch(first)
        self.run_dir += "-next"
        before = model[3].weight.detach().clone()
        worker = self.worker(model)
        with self.assertWarnsRegex(UserWarning, "leaves its job now"):
            self.train_on(worker)
        self.assertGreater(abs(self.saved()["3.weight"] - before.numpy()).max(), 1e-4)
        with self.assertRaises(paramd.Error):
            first.step(F.cross_entropy(model(x), y))
        # One that has ended is no matter, and another model's goes on.
        self.run_dir += "-again"
        self.first_batch(self.worker(network()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run_dir += "-too"
            self.train_on(self.worker(model))

    def test_a_loss_that_no_parameter_is_in_is_refused_and_may_be_skipped(self):
        import paramd
        other = plain()
        worker = self.worker(network())
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                for scaler in (None, torch.amp.GradScaler("cpu")):
                    with self.assertRaisesRegex(paramd.InvalidArgument,
                                                "no parameter .* got a gradient"):
                        worker.step(F.cross_entropy(other(x), y), scaler=scaler)
                worker.skip()
        self.assertTrue(worker.close())

    def test_a_buffer_travels_wherever_it_is(self):
        class Centred(torch.nn.Module):
            """Its statistic is a new tensor in each step."""

            def __init__(self):
                super().__init__()
                torch.manual_seed(3)
                self.norm = torch.nn.BatchNorm1d(8)
                self.last = torch.nn.Linear(8, 3)
                self.register_buffer("mean", torch.zeros(8))

            def forward(self, x):
                if self.training:
                    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
                return self.last(self.norm(x - self.mean))

        seen = []
        for moved in (False, True):
            self.run_dir += "-next"
            worker = self.worker(model := Centred())
            self.train_on(worker, 2, lambda epoch, to_move=moved, its=model: (
                to_move and its.double().float()))
            saved = self.saved()
            for name in ("mean", "norm.running_mean"):
                self.assertGreater(abs(saved[name]).max(), 0.01)
                np.testing.assert_allclose(
                    saved[name], model.state_dict()[name].numpy(), atol=1e-6)
            seen.append(saved)
        for name, values in seen[0].items():
            np.testing.assert_allclose(seen[1][name], values, atol=1e-5)

    def test_a_buffer_of_another_shape_is_refused_by_name(self):
        import paramd
        worker = self.worker(model := network())
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    r"'1.running_mean' is \(\) now"):
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 32):
                    loss = F.cross_entropy(model(x), y)
                    model[1].running_mean = torch.zeros(())
                    worker.step(loss)

    def test_a_buffer_that_is_not_finite_is_refused_by_name(self):
        import paramd
        for persistent in (True, False):
            model = network()
            mask = torch.triu(torch.full((8, 8), -torch.inf), 1)
            model.register_buffer("mask", mask, persistent=persistent)
            worker = self.worker(model)
            if persistent:
                with self.assertRaisesRegex(paramd.InvalidArgument,
                                            "'mask' is not finite.*persistent=False"):
                    self.train_on(worker)
            else:
                self.train_on(worker)

    def tied(self):
        """A model whose last layer is its table, with statistics and a counter."""
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(16, 4)
                self.norm = torch.nn.BatchNorm1d(4)
                self.last = torch.nn.Linear(4, 16, bias=False)
                self.last.weight = self.table.weight
                self.register_buffer("mine", torch.ones(2), persistent=False)

            def forward(self, x):
                rows = (x.abs() * 3).long().clamp(max=15)
                return self.last(self.norm(self.table(rows).mean(1)))

        return Tied()

    def test_a_checkpoint_is_loaded_with_tied_weights_and_statistics(self):
        import paramd.torch as ps
        worker = self.worker(model := self.tied())
        self.train_on(worker, 2)
        other = self.tied()
        other.mine.fill_(7)
        ps.load(other, self.run_dir)
        self.assertIs(other.last.weight, other.table.weight)
        self.assertEqual(other.mine.tolist(), [7, 7])
        state = model.state_dict()
        for name, values in other.state_dict().items():
            if values.is_floating_point():
                self.assertTrue(torch.equal(values, state[name]), name)
        self.assertGreater(float(other.norm.running_mean.abs().max()), 0)

    def test_a_checkpoint_of_another_model_is_refused_and_changes_nothing(self):
        import paramd
        import paramd.torch as ps
        self.train_on(self.worker(network()))

        def with_more(model):
            model.append(torch.nn.Linear(3, 3))

        def with_less(model):
            del model[3]

        def wider(model):
            model[3] = torch.nn.Linear(16, 4)

        for change, said in ((with_more, "has no variable '4.weight'"),
                             (with_less, "has 3.bias, 3.weight, which the model does"),
                             (wider, r"'3.weight' is \(4, 16\); in the checkpoint it is "
                                     r"\(3, 16\)")):
            model = network()
            change(model)
            before = [p.detach().clone() for p in model.parameters()]
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                ps.load(model, self.run_dir)
            for parameter, values in zip(model.parameters(), before):
                self.assertTrue(torch.equal(parameter, values))

    def test_each_module_is_in_its_own_mode_behind_an_evaluation(self):
        evaluated = []

        def evaluate(model, x, y):
            evaluated.append([module.training for module in model.modules()])
            return F.cross_entropy(model(x), y)

        model = network()
        model[1].eval()  # Its statistics are to stay.
        worker = self.worker(model, test=self.data, evaluate=evaluate)
        modes = set()
        for epoch in worker.epochs(3):
            for x, y in epoch.batches(self.data, 32):
                modes.add((model.training, model[0].training, model[1].training))
                worker.step(F.cross_entropy(model(x), y))
        self.assertGreater(len(evaluated), 1)
        self.assertFalse(any(map(any, evaluated)))
        self.assertEqual(modes, {(True, True, False)})
        self.assertEqual((model.training, model[1].training), (True, False))


if __name__ == "__main__":
    unittest.main()
