"""Models in stages. Skipped by name where there is no PyTorch."""

import os
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, torch)

# Name, stages of each device.
SCHEDULES = [("1f1b", 1), ("gpipe", 1), ("naive", 1), ("zero_bubble", 1),
             ("interleaved", 2)]


def deep():
    """Eight layers, of which one has running statistics."""
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Tanh(),
        torch.nn.Linear(16, 16, bias=False), torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(), torch.nn.Linear(16, 16),
        torch.nn.GELU(), torch.nn.Linear(16, 3))


def accumulate(model, x, y, micro_batches):
    """Without stages: the batch's mean loss, and its gradients in `grad`."""
    size = -(-len(x) // micro_batches)
    losses = []
    for some, labels in zip(torch.split(x, size), torch.split(y, size)):
        loss = F.cross_entropy(model(some), labels) * (len(some) / len(x))
        loss.backward()
        losses.append(float(loss.detach()))
    return sum(losses)


class StagesTest(LoopCase):

    def stages(self, cut, micro_batches=4, schedule="1f1b", of_each=1, model=None):
        from paramd import _stages
        _, parts = _stages.in_stages(model, cut)
        return _stages.Stages(parts, micro_batches, schedule, of_each)

    def assert_same_gradients(self, one, other):
        for (name, mine), others in zip(one.named_parameters(), other.parameters()):
            self.assertTrue(torch.equal(mine.grad, others.grad), name)
            self.assertGreater(float(mine.grad.abs().max()), 0, name)
        for mine, others in zip(one.buffers(), other.buffers()):
            self.assertTrue(torch.equal(mine, others))

    def test_every_schedule_and_cut_has_the_bits_of_micro_batches_without_stages(self):
        # 30 examples in 4 are 8, 8, 8 and 6; in 7 they are six times 5.
        for examples, micro_batches in ((32, 4), (30, 4), (30, 1), (30, 7)):
            x, y = self.data[:examples]
            wanted = deep()
            loss = accumulate(wanted, x, y, micro_batches)
            for schedule, of_each in SCHEDULES:
                for cut in (2, 4, 8, [3, 7] if of_each == 1 else [1, 2, 6]):
                    with self.subTest(schedule, cut=cut, micro_batches=micro_batches):
                        model = deep()
                        found = self.stages(cut, micro_batches, schedule, of_each,
                                            model).compute(F.cross_entropy, x, y)
                        self.assertEqual(found, loss)
                        self.assert_same_gradients(model, wanted)

    def test_a_batch_of_fewer_examples_has_fewer_micro_batches(self):
        x, y = self.data[:3]
        wanted = torch.nn.Sequential(*deep()[:2], *deep()[5:])
        model = torch.nn.Sequential(*deep()[:2], *deep()[5:])
        accumulate(wanted, x, y, 4)
        self.stages(3, 4, model=model).compute(F.cross_entropy, x, y)
        self.assert_same_gradients(model, wanted)

    def test_a_job_trains_as_one_that_accumulates_the_same_micro_batches(self):
        seen = []
        for schedule, of_each in [*SCHEDULES, (None, 1)]:
            self.run_dir += "-next"
            model = deep()
            staged = dict(stages=4, micro_batches=3, schedule=schedule,
                          stages_per_device=of_each) if schedule else {}
            worker = self.worker(model, clip_grad_norm=1.0, **staged)
            losses = []
            for epoch in worker.epochs(2):
                for x, y in epoch.batches(self.data, 40):  # The last has 16.
                    if schedule:
                        losses.append(worker.step_stages(F.cross_entropy, x, y))
                    else:
                        losses.append(accumulate(model, x, y, 3))
                        worker.step(losses[-1], backward=False)
            self.assertTrue(worker.close())
            seen.append((losses, {name: value.clone() for name, value
                                  in model.state_dict().items()}))
        losses, wanted = seen[-1]
        self.assertLess(sum(losses[-3:]), sum(losses[:3]))
        for found, values in seen[:-1]:
            self.assertEqual(found, losses)
            for name, value in values.items():
                self.assertTrue(torch.equal(value, wanted[name]), name)

    def test_stages_in_place_of_the_model_are_put_together_and_evaluated(self):
        parts = [deep()[:3], deep()[3:6], deep()[6:]]
        evaluated = []

        def evaluate(model, x, y):
            self.assertFalse(any(part.training for part in parts))
            output = model(x)
            evaluated.append(torch.equal(output, parts[2](parts[1](parts[0](x)))))
            return float(F.cross_entropy(output, y))

        worker = self.worker(None, stages=parts, micro_batches=2, test=self.data,
                             evaluate=evaluate)
        self.assertEqual(next(name for name, _ in worker.model.named_parameters()),
                         "0.0.weight")
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(self.data, 64):
                worker.step_stages(F.cross_entropy, x, y)
        self.assertTrue(all(part.training for part in parts))
        self.assertTrue(evaluated and all(evaluated))

    def test_the_first_stage_takes_several_inputs_and_the_loss_several_targets(self):
        class Sum(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 3)

            def forward(self, x, shift):
                return self.layer(x + shift)

        def loss(output, y, weight):
            return (F.cross_entropy(output, y, reduction="none") * weight).mean()

        x, y = self.data[:16]
        shift, weight = torch.ones(16, 8), torch.linspace(0, 1, 16)
        torch.manual_seed(3)
        parts = [Sum(), torch.nn.Linear(3, 3)]
        found = self.stages(parts, 4).compute(loss, (x, shift), (y, weight))
        wanted = loss(parts[1](parts[0](x, shift)), y, weight)
        self.assertAlmostEqual(found, float(wanted.detach()), places=5)

    def test_a_first_stage_that_is_frozen_is_not_computed_backward(self):
        model = deep()
        model[0].requires_grad_(False)
        x, y = self.data[:16]
        self.stages([2, 4], model=model).compute(F.cross_entropy, x, y)
        self.assertIsNone(model[0].weight.grad)
        self.assertIsNotNone(model[2].weight.grad)

    def test_no_more_micro_batches_are_kept_than_the_schedule_says(self):
        class Counted(torch.autograd.Function):  # pylint: disable=abstract-method
            @staticmethod
            def forward(ctx, x):
                kept[0] += 1
                kept[1] = max(kept)
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                kept[0] -= 1
                return gradient

        class First(torch.nn.Linear):
            def forward(self, x):  # pylint: disable=arguments-renamed
                return Counted.apply(super().forward(x))

        x, y = self.data[:32]
        for schedule, most in (("naive", 1), ("1f1b", 3), ("gpipe", 8)):
            kept = [0, 0]
            parts = [First(8, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 3)]
            self.stages(parts, 8, schedule).compute(F.cross_entropy, x, y)
            self.assertEqual(kept, [0, most], schedule)

    def test_a_stage_that_does_not_take_what_comes_is_named_and_the_batch_stays(self):
        from paramd import InvalidArgument
        parts = [torch.nn.Linear(8, 16), torch.nn.Linear(12, 3)]
        worker = self.worker(None, stages=parts, micro_batches=4)
        x, y = self.first_batch(worker)
        with self.assertRaisesRegex(
                InvalidArgument, r"stage 1 does not take what stage 0 gives for "
                r"micro-batch 0, torch.float32 of \(16, 16\): "):
            worker.step_stages(F.cross_entropy, x, y)
        self.assertIsNone(parts[0].weight.grad)
        self.assertRaisesRegex(
            InvalidArgument, "number of examples, at least 1; found 64 and 63",
            worker.step_stages, F.cross_entropy, x, y[1:])
        self.assertRaisesRegex(
            InvalidArgument, "inputs is a tensor .* found a dict",
            worker.step_stages, F.cross_entropy, {"x": x}, y)
        worker.skip()
        worker.close()

    def test_what_stages_and_losses_give_is_checked(self):
        from paramd import InvalidArgument

        class Pair(torch.nn.Linear):
            def forward(self, x):  # pylint: disable=arguments-renamed
                return super().forward(x), x

        x, y = self.data[:16]
        stages = self.stages([Pair(8, 16), torch.nn.Linear(16, 3)])
        self.assertRaisesRegex(
            InvalidArgument, "stage 0 gives a tuple; a stage hands one tensor on",
            stages.compute, F.cross_entropy, x, y)
        stages = self.stages([torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)])
        self.assertRaisesRegex(
            InvalidArgument, "the loss function gives the mean loss of a micro-batch",
            stages.compute, lambda output, y: output, x, y)

    def test_what_can_not_be_cut_is_refused_with_numbers(self):
        from paramd import InvalidArgument
        import paramd.torch as ps
        linear, tied = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        tied.weight = linear.weight
        for model, settings, sentence in (
                (deep(), {"stages": 9}, "stages is 9; the model has 8 layers"),
                (deep(), {"stages": 0}, "stages is 0; the model has 8 layers"),
                (deep(), {"stages": [4, 4]}, r"\[4, 4\]; it has the numbers .* 0 to 7"),
                (deep(), {"stages": [8]}, r"\[8\]; it has the numbers of the layers"),
                (linear, {"stages": 2}, "cuts an nn.Sequential; the model is a Linear"),
                (None, {"stages": 2}, "stages is 2 and there is no model"),
                (None, {}, "give a model, or its stages"),
                (deep(), {"stages": [linear, linear]}, "in its place"),
                (None, {"stages": [linear, tied]},
                 "'weight' of stage 1 is one of stage 0's too"),
                (deep(), {"schedule": "gpipe"}, "give stages=, too"),
                (deep(), {"stages": 2, "schedule": "2bw"}, "no schedule '2bw'"),
                (deep(), {"stages": 2, "micro_batches": 0}, "micro_batches is a whole"),
                (deep(), {"stages": 3, "schedule": "interleaved",
                          "stages_per_device": 2}, "divides the 3 stages")):
            with self.assertRaisesRegex(InvalidArgument, sentence):
                ps.Worker(model, **settings)
        worker = self.worker(deep())
        x, y = self.first_batch(worker)
        self.assertRaisesRegex(
            InvalidArgument, "step_stages is of a worker with stages",
            worker.step_stages, F.cross_entropy, x, y)
        worker.close()


if __name__ == "__main__":
    unittest.main()
