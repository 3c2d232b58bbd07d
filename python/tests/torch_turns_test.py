"""Two models of one job that are stepped in turn: a generator and a discriminator.
Skipped by name where there is no PyTorch."""

import os
import pathlib
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, np, torch)

# Momenta, moments, decay and counts of steps: all that a step of zeros would move.
OPTIMIZER = {"adamw": {"weight_decay": 0.1}, "learning_rate": 2e-3,
             "groups": [{"variables": "discriminator.*", "beta1": 0.5,
                         "weight_decay": 0.01}],
             "rate_factors": [{"variables": "discriminator.*", "factor": 0.5}]}

# A worker of a cluster: the settings are its arguments.
SCRIPT = """
import json, sys
sys.path.insert(0, %r)
import torch_turns_test as case
case.check(**json.loads(sys.argv[1]))
"""


def gan(width):
    """Points near a circle, from noise; and what tells them from others. With a width
    of 70,000 gradients leave by layers."""
    torch.manual_seed(3)
    return torch.nn.ModuleDict({
        "generator": torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 2)),
        "discriminator": torch.nn.Sequential(
            torch.nn.Linear(2, width), torch.nn.LeakyReLU(0.2),
            torch.nn.Linear(width, 1))})


def circle(count=256):
    generator = torch.Generator().manual_seed(7)
    angle = torch.rand(count, generator=generator) * 6.28
    noise = torch.randn(count, 4, generator=generator)
    return torch.utils.data.TensorDataset(
        torch.stack([angle.cos(), angle.sin()], dim=1), noise)


def loss_of(model, turn, points, noise):
    """Of the part of the model whose turn it is."""
    fake = model["generator"](noise)
    if turn == "generator":
        said = model["discriminator"](fake)
        return F.binary_cross_entropy_with_logits(said, torch.ones_like(said))
    real, fake = model["discriminator"](points), model["discriminator"](fake)
    return (F.binary_cross_entropy_with_logits(real, torch.ones_like(real))
            + F.binary_cross_entropy_with_logits(fake, torch.zeros_like(fake)))


def check(width=16, backward=True, epochs=3, **settings):
    """Trains in turn with a worker, then with PyTorch's optimizers on the same
    batches: both have the same weights."""
    import paramd.torch as ps
    torch.set_num_threads(1)
    model, batches = gan(width), []
    worker = ps.Worker(model, **dict(
        {"optimizer": OPTIMIZER, "log_level": "error"}, **settings))
    for epoch in worker.epochs(epochs):
        for points, noise in epoch.batches(circle(), 16):
            # Two steps of the discriminator for each of the generator.
            turn = "generator" if len(batches) % 3 == 2 else "discriminator"
            batches.append((turn, points, noise))
            loss = loss_of(model, turn, points, noise)
            if not backward:
                loss.backward()
            worker.step(loss, only=model[turn], backward=backward)
    alone = gan(width)
    optimizers = {
        "generator": torch.optim.AdamW(
            alone["generator"].parameters(), lr=2e-3, weight_decay=0.1),
        "discriminator": torch.optim.AdamW(
            alone["discriminator"].parameters(), lr=1e-3, betas=(0.5, 0.999),
            weight_decay=0.01)}
    clip = settings.get("clip_grad_norm")
    for turn, points, noise in batches:
        alone.zero_grad()
        loss_of(alone, turn, points, noise).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(alone[turn].parameters(), clip)
        optimizers[turn].step()
    assert len(batches) == epochs * 16, len(batches)
    for (name, mine), others in zip(model.named_parameters(), alone.parameters()):
        np.testing.assert_allclose(mine.detach().numpy(), others.detach().numpy(),
                                   rtol=1e-3, atol=2e-4, err_msg=name)


class TurnsTest(LoopCase):

    def test_weights_are_those_of_pytorchs_two_optimizers(self):
        for name, settings in {
                "one_device": {"strategy": "one_device"},
                "sync": {"strategy": "parameter_server", "staleness": "sync"},
                "wide": {"width": 70_000, "epochs": 1},
                "wide sync": {"width": 70_000, "epochs": 1, "staleness": "sync",
                              "strategy": "parameter_server"},
                "own backward": {"backward": False},
                "clipped": {"clip_grad_norm": 0.1}}.items():
            with self.subTest(name):
                check(run_dir=f"{self.run_dir}-{name}", **settings)

    def test_in_a_cluster_they_are_too(self):
        import json
        from paramd.cluster import Local
        directory = pathlib.Path(self.run_dir).parent
        script = directory / "train.py"
        script.write_text(SCRIPT % os.path.dirname(os.path.abspath(__file__)))
        settings = {"run_dir": self.run_dir, "staleness": "sync"}
        with Local(2, [[str(script), json.dumps(settings)]],
                   directory=directory / "logs") as cluster:
            cluster.wait(100)

    def test_of_the_other_model_no_bit_changes(self):
        for staleness in ("async", "sync", 1):
            model = gan(16)
            initial = [p.detach().clone() for p in model["generator"].parameters()]
            worker = self.worker(model, optimizer=OPTIMIZER, staleness=staleness,
                                 strategy="parameter_server",
                                 run_dir=f"{self.run_dir}-{staleness}")
            for epoch in worker.epochs(1):
                for points, noise in epoch.batches(circle(), 16):
                    loss = loss_of(model, "discriminator", points, noise)
                    worker.step(loss, only=model["discriminator"].parameters())
                    self.assertTrue(all(p.grad is None for p in model.parameters()))
            for mine, before in zip(model["generator"].parameters(), initial):
                self.assertTrue(torch.equal(mine, before))

    def test_what_can_not_be_a_step_of_its_own_is_refused_and_the_batch_is_held(self):
        import paramd
        model = gan(16)
        worker = self.worker(model, optimizer=OPTIMIZER)
        points, noise = self.first(worker)
        loss = loss_of(model, "discriminator", points, noise)
        for other in ((), torch.nn.Linear(2, 2), [torch.nn.Parameter(torch.ones(1))]):
            with self.assertRaisesRegex(paramd.InvalidArgument, "only= is a module"):
                worker.step(loss, only=other)
        worker.step(loss, only=model["discriminator"])
        worker.close()
        for name, settings in {"accumulate": {"accumulate": 2},
                               "clip_global_norm": {"optimizer": dict(
                                   OPTIMIZER, clip_global_norm=1)}}.items():
            worker = self.worker(model, **{
                "optimizer": OPTIMIZER, "run_dir": f"{self.run_dir}-{name}",
                **settings})
            points, noise = self.first(worker)
            loss = loss_of(model, "discriminator", points, noise)
            with self.assertRaisesRegex(paramd.Error, f"without .*{name}"):
                worker.step(loss, only=model["discriminator"])
            worker.close()

    def first(self, worker):
        self.epochs = worker.epochs(1)  # A worker leaves when they are gone.
        return next(next(self.epochs).batches(circle(), 16))


if __name__ == "__main__":
    unittest.main()
