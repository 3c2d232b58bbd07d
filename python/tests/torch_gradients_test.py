"""Gradients that are clipped, or that the loop has computed itself, and the rate that
it sets. Skipped by name where there is no PyTorch."""

import os
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, np, plain, staged_by, FakeCuda, torch, wide)


class GradientsTest(LoopCase):

    def steps(self, make, step, batch_size=32, **settings):
        """The batches of two epochs, and the model behind them."""
        self.run_dir += "-next"
        batches = []
        model = make()
        worker = self.worker(model, **settings)
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(self.data, batch_size):
                batches.append((x, y))
                step(worker, model, F.cross_entropy(model(x), y))
        return batches, model

    def alone(self, make, batches, change):
        """The same with PyTorch's own."""
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            change(model)
            optimizer.step()
        return model

    def assert_same(self, one, other, moved_from):
        for mine, others, before in zip(one.parameters(), other.parameters(),
                                        moved_from.parameters()):
            np.testing.assert_allclose(mine.detach(), others.detach(), atol=1e-5,
                                       rtol=1e-4)
            self.assertFalse(torch.equal(mine, before))

    def test_clipped_by_the_norm_of_all_it_trains_as_clip_grad_norm_(self):
        def clip(model):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)

        def step(worker, model, loss):
            worker.step(loss)

        for make in (plain, wide):  # That leaves by layers otherwise.
            batches, model = self.steps(make, step, clip_grad_norm=0.25)
            self.assert_same(model, self.alone(make, batches, clip), make())
        with staged_by(FakeCuda()):
            _, staged = self.steps(plain, step, clip_grad_norm=0.25)
        batches, copied = self.steps(plain, step, clip_grad_norm=0.25)
        self.assert_same(staged, copied, plain())
        unclipped = self.alone(plain, batches, lambda model: None)
        self.assertGreater(max(float((a - b).abs().max()) for a, b in zip(
            unclipped.parameters(), copied.parameters())), 0.01)

    def test_what_a_scaler_scales_is_clipped_unscaled(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        _, scaled = self.steps(
            plain, lambda worker, model, loss: worker.step(loss, scaler=scaler),
            clip_grad_norm=0.25)
        _, unscaled = self.steps(plain, lambda worker, model, loss: worker.step(loss),
                                 clip_grad_norm=0.25)
        self.assert_same(scaled, unscaled, plain())

    def test_sparse_gradients_are_clipped_as_dense_ones(self):
        seen = []
        for sparse in (False, True):
            torch.manual_seed(3)
            self.run_dir += "-next"
            model = torch.nn.Embedding(300, 3, sparse=sparse)
            worker = self.worker(model, clip_grad_norm=0.1)
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 32):
                    rows = (x[:, :2].abs() * 50).long().clamp(max=299)
                    worker.step(F.cross_entropy(model(rows).sum(1), y))
            seen.append(model.weight.detach())
        torch.testing.assert_close(seen[0], seen[1])

    def test_gradients_that_the_loop_has_changed_are_pushed_as_they_are(self):
        def halve(model):
            for parameter in model.parameters():
                parameter.grad.mul_(0.5)

        def step(worker, model, loss):
            loss.backward()
            halve(model)
            worker.step(loss.item(), backward=False)
            self.assertTrue(all(p.grad is None for p in model.parameters()))

        for make in (plain, wide):
            batches, model = self.steps(make, step)
            self.assert_same(model, self.alone(make, batches, halve), make())

    def test_they_are_of_the_mean_loss_whatever_a_push_is_of(self):
        import paramd
        saved = []
        for own in (False, True):
            def step(worker, model, loss, own=own):
                if own:
                    loss.backward()
                worker.step(loss, backward=not own)

            self.steps(plain, step, batch_size=40, accumulate=2)
            saved.append(paramd.load(self.run_dir))
        for name, values in saved[0].items():
            np.testing.assert_allclose(values, saved[1][name], atol=1e-6, err_msg=name)

    def test_a_plateau_lowers_the_rate_of_the_servers(self):
        import paramd
        model = plain()
        worker = self.worker(model)
        with self.assertRaisesRegex(paramd.Error, "take a batch first"):
            worker.set(learning_rate_scale=1)
        rate = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(rate, factor=0.0,
                                                             patience=0)
        seen = []
        for epoch in worker.epochs(4):
            for x, y in epoch.batches(self.data, 16):
                seen.append(float(next(model.parameters()).detach().flatten()[0]))
                worker.step(F.cross_entropy(model(x), y))
            plateau.step(1.0)  # No better than before, from the second one on.
            worker.set(learning_rate_scale=rate.param_groups[0]["lr"])
        self.assertEqual(len(set(seen[:32])), 32)
        # The last push before may have been on its way.
        self.assertEqual(len(set(seen[33:])), 1)

    def test_what_step_can_not_push_is_said(self):
        import paramd
        model = plain()
        worker = self.worker(model)
        x, y = self.first_batch(worker)
        with self.assertRaisesRegex(paramd.InvalidArgument, "no parameter .* got a"):
            worker.step(1.0, backward=False)
        F.cross_entropy(model(x), y).backward()
        with self.assertRaisesRegex(paramd.InvalidArgument, "no scaler"):
            worker.step(1.0, backward=False, scaler=torch.amp.GradScaler("cpu"))
        with self.assertRaisesRegex(paramd.InvalidArgument, "one number"):
            worker.step(None, backward=False)
        worker.step(1.0, backward=False)
        worker.close()
        for wrong in (0, -1.0, float("nan"), float("inf")):
            with self.assertRaisesRegex(paramd.InvalidArgument, "above 0"):
                self.worker(model, clip_grad_norm=wrong)


if __name__ == "__main__":
    unittest.main()
