"""What a PyTorch loop reads. Skipped by name where there is no PyTorch."""

import contextlib
import itertools
import multiprocessing
import os
import random
import subprocess
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, network, np, plain, torch)


class Numbers(torch.utils.data.IterableDataset if torch else object):
    """0 to 11, shared by the processes that read them."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return iter(range(12) if info is None
                    else range(info.id, 12, info.num_workers))


class Endless(torch.utils.data.IterableDataset if torch else object):
    """0, again and again."""

    def __iter__(self):
        return itertools.repeat(0)


class Drawn(torch.utils.data.Dataset if torch else object):
    """Of each example: what the process that read it drew."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.rand(()).item(), random.random(), np.random.rand()


UNGUARDED = """
import torch, paramd.torch as ps
class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(64))
model = torch.nn.Linear(2, 2)
worker = ps.Worker(model, optimizer={"sgd": {}, "learning_rate": 0.1},
                   run_dir=__file__ + ".run")
for epoch in worker.epochs(1):
    data = %s
    for _ in epoch.batches(data, 16, num_workers=1,
                           examples=None if isinstance(data, list) else 64):
        print("a batch")
"""


class DataTest(LoopCase):

    def test_a_data_loaders_processes_read_ahead(self):
        model = network()
        worker = self.worker(model)
        loader = torch.utils.data.DataLoader(self.data, 32, num_workers=2)
        examples = 0
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(loader):
                examples += len(x)
                worker.step(F.cross_entropy(model(x), y))
        self.assertEqual(examples, 2 * len(self.data))
        self.assertTrue(worker.close())

    def test_what_says_no_length_is_refused_in_a_sentence(self):
        import paramd
        loader = torch.utils.data.DataLoader(Numbers(), 8)
        for dataset in (Numbers(), loader, iter([])):
            epoch = next(self.worker(network()).epochs(1))
            with self.assertRaisesRegex(paramd.InvalidArgument, "examples="):
                next(epoch.batches(dataset, 8))
        for dataset, options, said in (
                (iter([1]), {"examples": 8}, "can't begin again"),
                (iter([1]), {"examples": 8, "num_workers": 1}, "can't begin again"),
                (self.data, {"examples": 8}, "this one has them"),
                (paramd.Stream([1], examples=8), {"examples": 8}, "leave examples"),
                (paramd.Shards([2], range), {"num_workers": 1}, "leave examples"),
                (lambda i, n: [1], {"examples": 8, "num_workers": 1}, "leave num_work"),
                (7, {"examples": 8}, "int can't be iterated")):
            epoch = next(self.worker(network()).epochs(1))
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                next(epoch.batches(dataset, 8, **options))

    def read(self, dataset, epochs=2, collate=list, **options):
        """The batches of a loop that trains on nothing of them."""
        worker = self.worker(model := torch.nn.Linear(1, 1))
        found = []
        for epoch in worker.epochs(epochs):
            for batch in epoch.batches(dataset, collate_fn=collate, **options):
                found.append((epoch.number, batch))
                worker.step(model(torch.ones(1, 1)).sum())
        self.assertTrue(worker.close())
        return found

    def test_shards_are_leased_and_each_example_comes_once_an_epoch(self):
        import paramd
        shards = paramd.Shards([0, 10, 20], lambda s: range(s, s + 5 + s // 10))
        found = self.read(shards, batch_size=4)
        self.assertEqual([len(batch) for _, batch in found], [4, 4, 4, 4, 2] * 2)
        for number in (1, 2):
            of_it = [e for epoch, batch in found if epoch == number for e in batch]
            self.assertEqual(sorted(of_it), [*range(5), *range(10, 16),
                                             *range(20, 27)])

    def test_an_iterable_dataset_is_read_on_and_begins_again(self):
        wanted = [(1, [0, 1, 2, 3]), (1, [4, 5, 6, 7]), (1, [8, 9]),
                  (2, [10, 11, 0, 1]), (2, [2, 3, 4, 5]), (2, [6, 7])]
        self.assertEqual(self.read(Numbers(), batch_size=4, examples=10), wanted)
        self.run_dir += "-function"
        self.assertEqual(self.read(lambda worker, workers: range(12), batch_size=4,
                                   examples=10), wanted)

    def test_processes_read_an_iterable_dataset_ahead(self):
        loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=2,
                                             collate_fn=list)
        found = self.read(loader, epochs=1, examples=24)
        # Each of the two reads every second one, and sends its six at once.
        self.assertEqual([e for _, batch in found for e in batch],
                         [*range(0, 12, 2), *range(1, 12, 2)] * 2)

    def test_the_batch_size_stays(self):
        import paramd
        worker = self.worker(model := network())
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "batch_size: 32; the job began with 64"):
            for epoch, size in zip(worker.epochs(2), (64, 32)):
                for x, y in epoch.batches(self.data, size):
                    worker.step(F.cross_entropy(model(x), y))

    def test_a_tensor_data_set_is_read_as_its_examples(self):
        class Batched(torch.utils.data.Dataset):
            """As the first one, and says how it was asked."""
            asked = []

            def __init__(self, data):
                self.data = data

            def __len__(self):
                return len(self.data)

            def __getitem__(self, index):
                return self.data[index]

        class AtOnce(Batched):
            def __getitems__(self, indices):
                self.asked.append(len(indices))
                return [self.data[i] for i in indices]

        found = []
        for dataset in (self.data, Batched(self.data), AtOnce(self.data)):
            self.run_dir += "-next"
            worker = self.worker(model := plain())
            for epoch in worker.epochs(1):
                for batch in epoch.batches(dataset, 48):
                    self.assertIsInstance(batch, list)
                    found.append([part.tolist() for part in batch])
                    worker.step(F.cross_entropy(model(batch[0]), batch[1]))
        self.assertEqual(found[:6], found[6:12])
        self.assertEqual(found[:6], found[12:])
        self.assertEqual(sum(AtOnce.asked), len(self.data))

    def test_another_epoch_may_read_other_data(self):
        data = torch.utils.data
        labels = self.data.tensors[1]

        def filled(number):
            return data.TensorDataset(torch.full((256, 8), float(number)), labels)

        def negated(examples):
            x, y = data.default_collate(examples)
            return -x, y

        def alone(number):
            return filled(number), {}

        def in_loaders(number):
            return data.DataLoader(filled(number), 64, shuffle=True), {}

        def by_processes(number):
            return filled(number), {"num_workers": 1}

        def collated(number, one=filled(1)):
            return one, {"collate_fn": negated} if number == 2 else {}

        for read, wanted in ((alone, [1, 2]), (in_loaders, [1, 2]),
                             (by_processes, [1, 2]), (collated, [1, -1])):
            with self.subTest(read=read.__name__):
                self.run_dir += "-next"
                worker = self.worker(model := plain())
                seen = []
                for epoch in worker.epochs(2):
                    dataset, options = read(epoch.number)
                    for x, y in epoch.batches(dataset, 64, **options):
                        seen.append(x.mean().item())
                        worker.step(F.cross_entropy(model(x), y))
                self.assertEqual(seen, [*wanted[:1] * 4, *wanted[1:] * 4])

    def test_what_is_read_on_is_not_another_one_in_a_later_epoch(self):
        import paramd
        shards = [paramd.Shards([8], range) for _ in range(2)]
        numbers = Numbers()
        for first, then, said in (
                (shards[0], shards[1], "data that are read in order"),
                (Numbers(), Numbers(), "data that are read in order"),
                (range(8), numbers, "data that are read in order"),
                (numbers, numbers, None),
                (paramd.Stream(numbers, examples=8), paramd.Stream(numbers, examples=8),
                 None)):
            self.run_dir += "-next"
            worker = self.worker(model := torch.nn.Linear(1, 1))
            found = []
            with self.assertRaisesRegex(paramd.InvalidArgument, said) if said else (
                    contextlib.nullcontext()):
                for epoch, dataset in zip(worker.epochs(2), (first, then)):
                    examples = 8 if isinstance(dataset, Numbers) else None
                    for batch in epoch.batches(dataset, 8, examples=examples,
                                               collate_fn=lambda some: [*some]):
                        found += batch
                        worker.step(model(torch.ones(1, 1)).sum())
            if not said:
                self.assertEqual(found, [*range(12), *range(4)])

    def test_what_a_data_loader_would_do_otherwise_is_refused_by_name(self):
        import paramd
        data = torch.utils.data
        numbers = range(256)
        for options, said in (
                ({"sampler": data.SubsetRandomSampler(range(32))},
                 "sampler=SubsetRandomSampler"),
                ({"sampler": data.WeightedRandomSampler([1.0] * 256, 256)},
                 "sampler=WeightedRandomSampler"),
                ({"sampler": data.RandomSampler(numbers, replacement=True)},
                 "sampler=RandomSampler"),
                ({"sampler": data.RandomSampler(numbers, num_samples=8)},
                 "sampler=RandomSampler"),
                ({"sampler": [3, 1]}, "sampler=list"),
                ({"batch_sampler": data.BatchSampler(range(8), 4, False)},
                 "batch_sampler=BatchSampler"),
                ({"batch_size": None}, "batch_size=None"),
                ({"drop_last": True}, "drop_last=True"),
                ({"worker_init_fn": print}, "worker_init_fn")):
            with self.subTest(options=options):
                loader = data.DataLoader(self.data, **options)
                epoch = next(self.worker(network()).epochs(1))
                with self.assertRaisesRegex(paramd.InvalidArgument, said):
                    next(epoch.batches(loader))
        for sampler in (data.SequentialSampler(numbers), data.RandomSampler(numbers),
                        data.DistributedSampler(numbers, 2, 0)):
            self.run_dir += "-next"
            loader = data.DataLoader(self.data, 64, sampler=sampler)
            self.assertEqual(len(self.read(loader, 1)), 4)

    def test_test_examples_are_collated_by_a_function_of_their_own(self):
        data = torch.utils.data
        points, labels = self.data.tensors
        rows = [{"x": x, "y": y} for x, y in zip(points, labels)]

        def noise(examples):
            return torch.rand(len(examples), 8), torch.zeros(len(examples)).long()

        def of_parts(model, x, y):
            seen.append(bool((x[:, None] == points).all(-1).any(1).all()))
            return F.cross_entropy(model(x), y)

        def of_a_dictionary(model, batch):
            return of_parts(model, batch["x"], batch["y"])

        def doubled(examples):
            x, y = data.default_collate(examples)
            return x / 2, y

        twice = data.TensorDataset(points * 2, labels)
        for test, evaluate, options in (
                (self.data, of_parts, {}), (rows, of_a_dictionary, {}),
                (twice, of_parts, {"test_collate_fn": doubled})):
            with self.subTest(evaluate=evaluate.__name__, options=options):
                self.run_dir += "-next"
                seen = []
                worker = self.worker(model := plain(), test=test, evaluate=evaluate,
                                     **options)
                for epoch in worker.epochs(1):
                    for x, y in epoch.batches(self.data, 32, collate_fn=noise):
                        worker.step(F.cross_entropy(model(x), y))
                self.assertTrue(worker.close())
                self.assertTrue(seen)
                self.assertTrue(all(seen))

    def test_behind_an_epoch_there_is_no_batch_to_step_or_to_skip(self):
        import paramd
        model = network()
        worker = self.worker(model)
        points, labels = self.data.tensors
        steps = 0
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(self.data, 64):
                worker.step(F.cross_entropy(model(x), y))
                steps += 1
            with self.assertRaisesRegex(paramd.Error, "skip without a batch"):
                worker.skip()
            with self.assertRaisesRegex(paramd.Error, "step without a batch"):
                worker.step(F.cross_entropy(model(points), labels))
        self.assertEqual(steps, 8)
        self.assertTrue(worker.close())

    def test_a_loop_that_leaves_an_epoch_too_soon_does_not_go_on(self):
        import paramd
        for taken in (0, 2, 4):
            self.run_dir += "-next"
            model = network()
            worker = self.worker(model)
            numbers = []

            def loop():
                for epoch in worker.epochs(2):
                    if taken == 0:
                        continue
                    for number, (x, y) in enumerate(epoch.batches(self.data, 64), 1):
                        worker.step(F.cross_entropy(model(x), y))
                        numbers.append(epoch.number)
                        if number == taken:
                            break

            if taken == 4:  # It was the last one all the same.
                loop()
            else:
                with self.assertRaisesRegex(
                        paramd.Error, "left epoch 1 before its last" if taken else
                        "took no batch of epoch 1"):
                    loop()
            self.assertEqual(numbers, [1, 1, 1, 1, 2, 2, 2, 2] if taken == 4 else
                             [1] * taken)

    def test_each_process_that_reads_draws_other_numbers(self):
        from paramd import _ahead

        def draw():
            return torch.rand(()).item(), random.random(), np.random.rand()

        torch.manual_seed(7)  # As the script does at its top.
        seed = int(torch.randint(2**62, ()))
        begun, drawn = multiprocessing.Value("q"), []
        for _ in range(2):
            _ahead._begin(None, list, seed, begun)
            drawn.append(draw())
        for one, other in zip(*drawn):
            self.assertNotEqual(one, other)
        torch.manual_seed(7)
        reader = _ahead.Reader(Drawn(), list, 1)
        self.addCleanup(reader.close)
        self.assertEqual(reader.read(1, np.arange(1)), [drawn[0]])

    def test_processes_of_an_iterable_dataset_end_with_the_worker(self):
        worker = self.worker(model := torch.nn.Linear(1, 1))
        for epoch in worker.epochs(1):
            for _ in epoch.batches(Endless(), 16, num_workers=2, examples=64):
                worker.step(model(torch.ones(1, 1)).sum())
                self.assertEqual(len(multiprocessing.active_children()), 2)
        self.assertEqual(multiprocessing.active_children(), [])

    def test_a_script_without_a_guard_is_told_of_it(self):
        for data, said in (("[(torch.zeros(2), 0)] * 64", "that reads batches ahead"),
                           ("Numbers()", "DataLoader worker")):
            script = self.run_dir + "-script.py"
            with open(script, "w", encoding="utf-8") as file:
                file.write(UNGUARDED % data)
            run = subprocess.run([sys.executable, script], capture_output=True,
                                 text=True, check=False, cwd=os.getcwd(),
                                 env=dict(os.environ, PYTHONPATH=os.pathsep.join(
                                     sys.path)))
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(said, run.stderr)
            self.assertIn("which here trains again: put what the script does under "
                          "`if __name__ ==", run.stderr)
            self.assertEqual(run.stdout, "")


if __name__ == "__main__":
    unittest.main()
