"""What stages compute when, as programs get it: no PyTorch is needed."""

import itertools
import os
import sys
import unittest

os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
sys.path.insert(0, os.path.abspath("python"))

import paramd  # pylint: disable=wrong-import-position
from paramd import _schedule  # pylint: disable=wrong-import-position

# Name, stages of each device.
SCHEDULES = [("1f1b", 1), ("gpipe", 1), ("naive", 1), ("zero_bubble", 1),
             ("interleaved", 2)]


def followed(passes, stages):
    """Does the passes one after the other, and checks that each has what it needs. Of
    each stage, of how many micro-batches something was kept at once at most."""
    done = set()
    kept, most = [0] * stages, [0] * stages
    backward = (_schedule.BACKWARD, _schedule.BACKWARD_INPUT)

    def was_back(stage, micro_batch):
        return any((kind, stage, micro_batch) in done for kind in backward)

    for kind, stage, micro_batch, _ in passes:
        assert (kind, stage, micro_batch) not in done
        if kind == _schedule.FORWARD:
            assert stage == 0 or (kind, stage - 1, micro_batch) in done
            kept[stage] += 1
            most[stage] = max(most[stage], kept[stage])
        elif kind in backward:
            assert (_schedule.FORWARD, stage, micro_batch) in done
            assert stage + 1 == stages or was_back(stage + 1, micro_batch)
        else:
            assert (_schedule.BACKWARD_INPUT, stage, micro_batch) in done
        if kind in (_schedule.BACKWARD, _schedule.BACKWARD_VARIABLES):
            kept[stage] -= 1
        done.add((kind, stage, micro_batch))
    assert kept == [0] * stages
    return tuple(most)


class ScheduleTest(unittest.TestCase):

    def test_each_pass_comes_after_what_it_needs(self):
        for (name, of_each), stages, micro_batches in itertools.product(
                SCHEDULES, (2, 4, 6), (1, 3, 8)):
            with self.subTest(name, stages=stages, micro_batches=micro_batches):
                made = _schedule.make(name, stages, micro_batches, of_each)
                self.assertEqual(followed(made.passes, stages), made.kept)

    def test_a_stage_takes_micro_batches_in_their_order_whatever_the_schedule(self):
        for name, of_each in SCHEDULES:
            made = _schedule.make(name, 4, 5, of_each)
            for stage, kind in itertools.product(range(4), range(1, 5)):
                order = [one.micro_batch for one in made.passes
                         if (one.stage, one.kind) == (stage, kind)]
                self.assertIn(order, ([], [0, 1, 2, 3, 4]), name)
            self.assertEqual({(one.stage, one.device) for one in made.passes},
                             {(stage, stage % (4 // of_each)) for stage in range(4)})

    def test_the_first_stage_of_1f1b_keeps_as_many_as_there_are_stages(self):
        self.assertEqual(_schedule.make("1f1b", 3, 8).kept, (3, 2, 1))
        self.assertEqual(_schedule.make("gpipe", 3, 8).kept, (8, 8, 8))
        self.assertEqual(_schedule.make("naive", 3, 8).kept, (1, 1, 1))
        self.assertEqual(_schedule.make("1f1b", 3, 2).kept, (2, 2, 1))

    def test_what_is_wrong_is_one_sentence_with_names_and_numbers(self):
        for arguments, sentence in (
                (("2bw", 2, 4), r"no schedule '2bw' with a flush"),
                (("interleaved", 4, 4), r"stages_per_device is 1; .* the 4 stages"),
                (("gpipe", 4, 4, 2), r"stages_per_device is 2; only"),
                (("gpipe", 1 << 16, 1 << 16), r"8589934592 passes; .* at most 1048576"),
                (("gpipe", 0, 4), r"stages is a whole number above 0; found 0"),
                (("gpipe", 2, -1), r"micro_batches is a whole number .* found -1"),
                (("gpipe", 2, 2.0), r"micro_batches is a whole number .* found 2.0"),
                (("gpipe", 2, 1 << 40), r"micro_batches is a whole number"),
                ((None, 2, 2), r"schedule is a name; found None")):
            with self.assertRaisesRegex(paramd.InvalidArgument, sentence):
                _schedule.make(*arguments)


if __name__ == "__main__":
    unittest.main()
