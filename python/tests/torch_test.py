"""PyTorch loops as workers. Skipped by name where there is no PyTorch."""

import os
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

# Spawned processes look for what they are sent here.
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, SGD, FakeCuda, LoopCase, blobs, network, np, on_the_way_back, plain,
    staged_by, torch, wide)

# One of several, of the test that is at this path.
SYNC_WORKER = """
import importlib.util
spec = importlib.util.spec_from_file_location("torch_test", %r)
test = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test)
case = test.TorchTest()
case.run_dir, case.data = %r, test.blobs()
test.torch.set_num_threads(1)
case.train(test.plain(), **%r)
"""


class TorchTest(LoopCase):

    def test_a_loop_learns_and_its_checkpoint_is_a_state_dict(self):
        import paramd
        losses, worker = self.train(network(), epochs=5)
        self.assertTrue(worker.close())
        self.assertEqual(len(losses), 5 * 16)
        self.assertLess(losses[-1], losses[0] / 2)
        model = network()
        state = {name: torch.from_numpy(value)
                 for name, value in paramd.load(self.run_dir).items()}
        model.load_state_dict(state, strict=False)
        model.eval()
        points, labels = self.data.tensors
        accuracy = (model(points).argmax(1) == labels).float().mean()
        self.assertGreater(float(accuracy), 0.9)

    def test_the_steps_are_pytorchs_own(self):
        # The same batches in the same order with torch.optim, batch norm and all.
        seen = []

        class Recorded(torch.utils.data.Dataset):
            def __init__(self, data):
                self.data = data

            def __len__(self):
                return len(self.data)

            def __getitem__(self, index):
                seen.append(index)
                return self.data[index]

        # What Adam divides by is near zero at first: it magnifies the last bit.
        for optimizer, of_torch, atol in (
                ({"sgd": {"momentum": 0.9}, "learning_rate": 0.05},
                 lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), 2e-5),
                ({"adam": {}, "learning_rate": 0.01},
                 lambda p: torch.optim.Adam(p, 0.01, eps=1e-8), 2e-4)):
            with self.subTest(optimizer=optimizer):
                data, self.data = self.data, Recorded(self.data)
                seen.clear()
                with tempfile.TemporaryDirectory() as run_dir:
                    self.run_dir = run_dir
                    model = network()
                    self.train(model, optimizer=optimizer)
                    import paramd
                    found = paramd.load(run_dir)
                self.data = data
                alone = network()
                stepper = of_torch(alone.parameters())
                for begin in range(0, len(seen), 16):
                    x, y = torch.utils.data.default_collate(
                        [self.data[i] for i in seen[begin:begin + 16]])
                    stepper.zero_grad()
                    F.cross_entropy(alone(x), y).backward()
                    stepper.step()
                for name, value in alone.state_dict().items():
                    if value.is_floating_point():
                        torch.testing.assert_close(
                            torch.from_numpy(found[name]), value, atol=atol,
                            rtol=10 * atol, msg=lambda m, n=name: f"{n}: {m}")

    def test_sync_workers_have_the_weights_of_one_that_accumulates(self):
        import paramd
        settings = {"staleness": "sync", "optimizer": {"adam": {},
                                                       "learning_rate": 0.01}}
        script = pathlib.Path(self.run_dir).with_name("worker.py")
        script.write_text(SYNC_WORKER % (os.path.abspath(__file__), self.run_dir,
                                         settings))
        with paramd.local(2, [str(script)] * 2,
                          directory=self.run_dir + "-logs") as cluster:
            cluster.wait(100, progress=False)
        together = paramd.load(self.run_dir)
        self.run_dir += "-alone"
        self.train(plain(), accumulate=2, **settings)
        alone = paramd.load(self.run_dir)
        for name, values in plain().state_dict().items():
            self.assertGreater(abs(values.numpy() - alone[name]).max(), 0.01)
            np.testing.assert_allclose(together[name], alone[name], rtol=0, atol=1e-6)

    def test_replicas_have_the_weights_of_one_that_accumulates(self):
        # Of 256 examples the last step has one batch of 16, others have three. What
        # is dropped the loop draws, so batches come in the order of the step.
        import paramd
        run_dir, found = self.run_dir, []
        for strategy, settings in (
                ("one_device", {"accumulate": 3}), ("mirrored", {"replicas": 3}),
                ("central_storage", {"replicas": 3}),
                ("parameter_server", {"replicas": 3, "staleness": "sync"})):
            self.run_dir = f"{run_dir}-{strategy}"
            model = torch.nn.Sequential(network(), torch.nn.Dropout(0.5))
            torch.manual_seed(5)
            losses, _ = self.train(model, strategy=strategy, **settings)
            found.append((strategy, losses, {
                name: value.tobytes()
                for name, value in paramd.load(self.run_dir).items()}))
        for strategy, losses, weights in found[1:]:
            with self.subTest(strategy=strategy):
                self.assertEqual(found[0][1], losses)
                self.assertEqual(found[0][2], weights)

    def test_what_is_evaluated_is_the_test_data(self):
        evaluated = []

        def evaluate(model, x, y):
            self.assertFalse(model.training)
            evaluated.append(len(x))
            output = model(x)
            return F.cross_entropy(output, y), (output.argmax(1) == y).sum()

        model = network()
        self.train(model, epochs=1, test=blobs(50), evaluate=evaluate)
        self.assertEqual(sum(evaluated) % 50, 0)
        self.assertGreater(sum(evaluated), 0)
        self.assertTrue(model.training)

    def test_a_loss_that_is_not_finite_is_refused_and_may_be_skipped(self):
        import paramd
        model = network()
        worker = self.worker(model)
        refused = 0
        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 64)):
                loss = F.cross_entropy(model(x), y)
                if number == 1:
                    with self.assertRaises(paramd.NotFinite):
                        worker.step(loss * float("nan"))
                    refused += 1
                    worker.skip()
                    continue
                worker.step(loss)
        self.assertEqual(refused, 1)
        self.assertTrue(worker.close())

    def test_a_gradient_that_is_not_finite_leaves_nothing_of_a_small_model(self):
        import paramd
        model = network()
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                hidden = on_the_way_back(model[:2](x), lambda g: g * float("nan"))
                with self.assertRaisesRegex(paramd.NotFinite, "nothing of this"):
                    worker.step(F.cross_entropy(model[2:](hidden), y))
                worker.step(F.cross_entropy(model(x), y))
        self.assertTrue(worker.close())

    def test_a_wide_model_leaves_by_layers_and_learns(self):
        losses, worker = self.train(wide(), epochs=1, batch_size=32,
                                    optimizer={"adam": {}, "learning_rate": 1e-3})
        self.assertTrue(worker.close())
        self.assertLess(losses[-1], losses[0] / 2)

    def leave_in_the_middle(self, spoil, refused, said):
        """A batch of a wide model whose gradient is spoilt on its way; the rest is
        then trained by another worker. Returns what the first one could do."""
        import paramd
        model = wide()
        worker = self.worker(model, name="wide")
        x, y = self.first_batch(worker)
        output = model[2](on_the_way_back(model[:2](x), spoil))
        with self.assertRaisesRegex(refused, said):
            worker.step(F.cross_entropy(output, y))
        return worker, lambda: self.assertEqual(
            len(self.train(wide(), epochs=1, batch_size=64, name="wide")[0]), 4)

    def test_a_gradient_that_is_not_finite_behind_others_ends_the_worker(self):
        import paramd
        worker, rest = self.leave_in_the_middle(
            lambda g: g * float("nan"), paramd.PartlyPushed,
            "gradient of '0.*' is not finite; a part of this batch was pushed")
        with self.assertRaises(paramd.Cancelled):
            self.first_batch(worker)
        rest()  # The batch too: it was handed out again.

    def test_what_has_begun_to_leave_is_neither_stepped_again_nor_skipped(self):
        import paramd

        def fail(gradient):
            raise KeyError("mine")

        for again in (lambda worker: worker.skip(),
                      lambda worker: worker.step(torch.tensor(1.0))):
            self.run_dir += "-next"
            worker, rest = self.leave_in_the_middle(fail, KeyError, "mine")
            with self.assertRaisesRegex(paramd.PartlyPushed, "computed again"):
                again(worker)
            rest()

    def test_a_small_model_is_stepped_again_after_an_exception(self):
        model = network()
        worker = self.worker(model)

        def fail(gradient):
            raise KeyError("mine")

        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                hidden = on_the_way_back(model[:2](x), fail)
                with self.assertRaisesRegex(KeyError, "mine"):
                    worker.step(F.cross_entropy(model[2:](hidden), y))
                worker.step(F.cross_entropy(model(x), y))
        self.assertTrue(worker.close())

    def test_a_second_thread_is_refused_while_the_first_steps(self):
        import paramd
        model = network()
        worker = self.worker(model)
        refused = []

        def use(worker):
            for call in (lambda: worker.step(torch.tensor(1.0)), worker.skip,
                         lambda: next(epoch.batches(self.data, 64))):
                try:
                    call()
                except paramd.Error as error:
                    refused.append(str(error))

        def while_it_steps(gradient):
            second = threading.Thread(target=use, args=(worker,))
            second.start()
            second.join()

        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 64)):
                hidden = model[:2](x)
                if number == 1:
                    hidden.register_hook(while_it_steps)
                worker.step(F.cross_entropy(model[2:](hidden), y))
        self.assertEqual(len(refused), 3)
        for sentence in refused:
            self.assertIn("two threads use one worker", sentence)
        self.assertTrue(worker.close())

    def test_a_close_that_is_refused_takes_nothing_from_the_step(self):
        import paramd
        seen = {}
        for closes in (False, True):
            self.run_dir += "-next"
            model = wide()  # Its gradients are taken by hooks.
            worker = self.worker(model)
            refused = []

            def close(its):
                try:
                    its.close()
                except paramd.Error as error:
                    refused.append(str(error))

            def while_it_steps(gradient, its=worker):
                if closes:
                    second = threading.Thread(target=close, args=(its,))
                    second.start()
                    second.join()

            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 64):
                    hidden = model[:2](x)
                    hidden.register_hook(while_it_steps)
                    worker.step(F.cross_entropy(model[2](hidden), y))
            self.assertEqual(len(refused), 4 * closes)
            seen[closes] = paramd.load(self.run_dir)
        for name, values in seen[False].items():
            np.testing.assert_array_equal(seen[True][name], values)

    def test_a_batch_that_is_skipped_is_in_no_figure(self):
        model = network()
        worker = self.worker(model)
        said = []
        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 64)):
                if number == 0:
                    session = worker._session
                    finish = session._finish

                    def note(result):
                        said.append((result.examples, result.loss_sum))
                        finish(result)

                    session._finish = note
                if number == 1:
                    worker.skip()
                else:
                    worker.step(model(x).sum() * 0 + 1)
        self.assertTrue(worker.close())
        self.assertEqual(said, [(64, 64), (0, 0), (64, 64), (64, 64)])

    def test_a_sparse_gradient_is_trained_as_a_dense_one(self):
        import paramd
        saved = []
        for sparse in (False, True):
            torch.manual_seed(3)
            model = torch.nn.Embedding(300, 3, sparse=sparse)
            self.run_dir += f"-{sparse}"
            worker = self.worker(model)
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 32):
                    rows = (x[:, :2].abs() * 50).long().clamp(max=299)
                    worker.step(F.cross_entropy(model(rows).sum(1), y))
            saved.append(paramd.load(self.run_dir)["weight"])
        self.assertEqual(saved[0].tolist(), saved[1].tolist())

    def embedding(self, width=4):
        """A model of a table and a layer, and the rows that a batch reads of it."""
        torch.manual_seed(3)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(5000, width, sparse=True)
                self.head = torch.nn.Linear(width, 3)

            def forward(self, x):
                return self.head(self.table(rows_of(x)).mean(1))

        def rows_of(x, y=None):
            return (x.abs() * 500).long().clamp(max=4999)

        return Model(), rows_of

    def trained_by_rows(self, width, by_rows):
        """What a table of that width and its head become, and the last loss."""
        import paramd
        model, rows_of = self.embedding(width)
        self.run_dir += "-rows"
        losses = []
        worker = self.worker(
            model, lookups={"table.weight": rows_of} if by_rows else None,
            test=self.data,
            evaluate=lambda model, x, y: losses.append(
                F.cross_entropy(model(x), y).item()) or losses[-1])
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(self.data, 16):
                worker.step(F.cross_entropy(model(x), y))
        checkpoint = paramd.load(self.run_dir)
        return (checkpoint["table.weight"].tolist(),
                checkpoint["head.weight"].tolist(), losses[-1])

    def test_rows_that_are_looked_up_are_trained_as_the_whole_table(self):
        for width in (4, 10):
            self.assertEqual(self.trained_by_rows(width, True),
                             self.trained_by_rows(width, False), width)

    def test_of_replicas_rows_are_looked_up_too(self):
        import paramd
        run_dir, found = self.run_dir, []
        for strategy, settings in (("one_device", {"accumulate": 2}),
                                   ("central_storage", {"replicas": 2})):
            self.run_dir = f"{run_dir}-{strategy}"
            model, rows_of = self.embedding()
            self.train(model, lookups={"table.weight": rows_of}, strategy=strategy,
                       **settings)
            found.append({name: value.tobytes()
                          for name, value in paramd.load(self.run_dir).items()})
        self.assertEqual(found[0], found[1])

    def test_rows_that_nobody_named_are_refused(self):
        import paramd
        model, rows_of = self.embedding()
        worker = self.worker(model,
                             lookups={"table.weight": lambda x, y: rows_of(x)[:, :2]})
        epochs = worker.epochs(1)
        x, y = next(next(epochs).batches(self.data, 16))
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "of 'table.weight', which lookups did not name"):
            worker.step(F.cross_entropy(model(x), y))
        worker.close()

    def test_what_cannot_be_looked_up_is_refused_by_name(self):
        import paramd
        model, rows_of = self.embedding()
        with self.assertRaisesRegex(paramd.InvalidArgument, "names 'tabel.weight'"):
            self.worker(model, lookups={"tabel.weight": rows_of})
        with self.assertRaisesRegex(paramd.InvalidArgument, "1 dimensions, not 2"):
            self.worker(model, lookups={"head.bias": rows_of})
        model, rows_of = self.embedding()
        model.table.sparse = False
        worker = self.worker(model, lookups={"table.weight": rows_of})
        epochs = worker.epochs(1)
        x, y = next(next(epochs).batches(self.data, 16))
        with self.assertRaisesRegex(paramd.InvalidArgument, "sparse=True"):
            worker.step(F.cross_entropy(model(x), y))
        worker.close()

    def test_what_step_can_not_take_is_said_and_the_batch_is_still_held(self):
        import paramd
        model = network()
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                each = F.cross_entropy(model(x), y, reduction="none")
                for loss in (each, each.mean().detach(), 0.5):
                    with self.assertRaisesRegex(paramd.InvalidArgument, "mean loss"):
                        worker.step(loss)
                worker.step(each.mean())
        self.assertTrue(worker.close())

    def test_parameters_without_real_values_are_refused_by_name(self):
        import paramd
        for model, said in (
                (torch.nn.Linear(8, 3, device="meta"), "'weight' on meta"),
                (torch.nn.Linear(8, 3, dtype=torch.complex64), "'weight' is of")):
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                self.first_batch(self.worker(model))

    def test_a_worker_whose_device_is_gone_leaves_and_says_so(self):
        import paramd
        from paramd._weights import not_copied
        gone = []

        class Parameter(torch.nn.Parameter):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if gone and func is torch.Tensor.copy_:
                    raise RuntimeError("CUDA error: gone\nmore of it")
                return super().__torch_function__(func, types, args, kwargs or {})

        model = network()
        model[0].weight = Parameter(model[0].weight.detach())
        worker = self.worker(model)
        stepped = 0
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "'0.weight' on cpu .*: CUDA error: gone$"):
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 64):
                    worker.step(F.cross_entropy(model(x), y))
                    stepped += 1
                    gone.append(True)
        # The batch of which the weights were not copied is handed out again.
        self.assertEqual((stepped, len(self.train(network(), 1, 64)[0])), (1, 3))
        tensor = unittest.mock.Mock(device=torch.device("cuda:1"))
        self.assertIsInstance(not_copied("w", tensor, RuntimeError("gone")),
                              paramd.Unavailable)

    def test_a_parameter_without_a_gradient_is_zeros_or_refused_by_name(self):
        import paramd

        class Idle(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.used = torch.nn.Linear(8, 3)
                self.idle = torch.nn.Parameter(torch.ones(2))

            def forward(self, x):
                return self.used(x)

        self.train(Idle(), epochs=1)
        self.assertEqual(paramd.load(self.run_dir)["idle"].tolist(), [1, 1])
        self.run_dir += "-strict"
        with self.assertRaisesRegex(paramd.InvalidArgument, "'idle'"):
            self.train(Idle(), epochs=1, missing_gradients="error")

    def test_of_a_wide_model_whose_gradients_must_all_be_there_nothing_leaves(self):
        import paramd
        model = wide()
        model.idle = torch.nn.Parameter(torch.ones(2))
        self.data = blobs(64)
        worker = self.worker(model, missing_gradients="error")
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                output = model[2](model[1](model[0](x)))
                with self.assertRaisesRegex(paramd.InvalidArgument, "'idle'"):
                    worker.step(F.cross_entropy(output, y))
                worker.skip()
        self.assertTrue(worker.close())

    def test_a_batch_that_was_not_stepped_is_said(self):
        import paramd
        worker = self.worker(network())
        with self.assertRaisesRegex(paramd.Error, "not stepped"):
            for epoch in worker.epochs(1):
                for _ in epoch.batches(self.data, 64):
                    pass

    def test_step_without_a_batch_is_said(self):
        import paramd
        model = network()
        worker = self.worker(model)
        with self.assertRaisesRegex(paramd.Error, "without a batch"):
            worker.step(model(torch.zeros(2, 8)).sum())

    def test_frozen_parameters_stay(self):
        import paramd
        model = network()
        before = model[0].weight.detach().clone()
        model[0].weight.requires_grad_(False)
        self.train(model, epochs=1)
        after = torch.from_numpy(paramd.load(self.run_dir)["0.weight"])
        self.assertTrue(torch.equal(before, after))

    def test_parameters_of_bfloat16_are_trained_in_float32(self):
        model = torch.nn.Linear(8, 3).to(torch.bfloat16)
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                worker.step(F.cross_entropy(model(x.bfloat16()).float(), y))
        self.assertTrue(worker.close())

    def test_autocast_trains(self):
        model = network()
        worker = self.worker(model)
        losses = []
        for epoch in worker.epochs(3):
            for x, y in epoch.batches(self.data, 32):
                with torch.autocast("cpu", torch.bfloat16):
                    output = model(x)
                    self.assertEqual(output.dtype, torch.bfloat16)
                    loss = F.cross_entropy(output, y)
                worker.step(loss)
                losses.append(loss.item())
        self.assertTrue(worker.close())
        self.assertLess(losses[-1], losses[0] / 2)

    def train_scaled(self, scaler, spoil=()):
        """What of each batch was pushed, and the weights; gradients of the batches
        `spoil` are infinite."""
        import paramd
        model = plain()
        worker = self.worker(model)
        pushed = []
        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 32)):
                hidden = model[:2](x)
                if number in spoil:
                    hidden.register_hook(lambda g: g * float("inf"))
                pushed.append(worker.step(F.cross_entropy(model[2:](hidden), y),
                                          scaler=scaler))
        self.assertTrue(worker.close())
        return pushed, paramd.load(self.run_dir)

    def test_what_a_grad_scaler_scales_is_pushed_unscaled(self):
        _, alone = self.train_scaled(None)
        for enabled in (True, False):
            self.run_dir += "-scaled"
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, enabled=enabled)
            pushed, scaled = self.train_scaled(scaler)
            self.assertEqual(pushed, [True] * 8)
            for name, values in alone.items():
                np.testing.assert_array_equal(scaled[name], values)

    def test_what_a_grad_scaler_finds_infinite_is_left_out_and_scaled_less(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
        pushed, weights = self.train_scaled(scaler, spoil=(1, 4))
        self.assertEqual(pushed, [True, False, True, True, False, True, True, True])
        self.assertEqual(scaler.get_scale(), 2.0**10)
        for values in weights.values():
            self.assertTrue(np.isfinite(values).all())
        self.run_dir += "-next"
        scaler = torch.amp.GradScaler("cpu")
        # Also where a part would have left by layers.
        with unittest.mock.patch(f"{__name__}.plain", wide):
            pushed, _ = self.train_scaled(scaler, spoil=(0,))
        self.assertEqual(pushed, [False] + [True] * 7)

    def test_what_is_staged_is_trained_as_what_is_not(self):
        # The processor in place of a device: its copies are done when they begin.
        _, alone = self.train_scaled(None)
        for scaler in (None, torch.amp.GradScaler("cpu")):
            self.run_dir += "-staged"
            cuda = FakeCuda()
            with staged_by(cuda):
                _, staged = self.train_scaled(scaler)
            self.assertEqual(cuda.copies, 8 * (4 + 4))
            for name, values in alone.items():
                np.testing.assert_array_equal(staged[name], values)

    def test_staged_gradients_are_handed_out_when_they_are_there(self):
        from paramd._staging import Staging
        cuda = FakeCuda()
        staging = Staging(cuda, "cpu")
        staging.take(1, torch.ones(2))
        staging.take(0, torch.ones(3))
        cuda.done = False
        self.assertEqual(list(staging.taken(wait=False)), [])
        cuda.done = True
        self.assertEqual([(n, g.tolist()) for n, g in staging.taken(wait=False)],
                         [(1, [1, 1]), (0, [1, 1, 1])])
        staging.take(0, torch.zeros(3))
        staging.drop()
        self.assertEqual(list(staging.taken(wait=True)), [])

    def test_a_compiled_model_trains(self):
        model = network()
        compiled = torch.compile(model, backend="eager")
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                worker.step(F.cross_entropy(compiled(x), y))
        self.assertTrue(worker.close())



if __name__ == "__main__":
    unittest.main()
