"""What of a PyTorch loop travels without a copy, and what its parameters and gradients
are meanwhile. Skipped by name where there is no PyTorch."""

import contextlib
import os
import sys
import unittest
import unittest.mock

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, FakeCuda, LoopCase, blobs, network, np, on_the_way_back, plain, staged_by,
    torch, wide)


class InParts(torch.nn.Module if torch else object):
    """A layer is used twice, and goes backward by itself each time."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(3)
        self.inner = torch.nn.Linear(8, 8)
        self.outer = torch.nn.Linear(8, width)
        self.reentrant = True

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint
        x = x.clone().requires_grad_()
        for _ in range(2):
            x = (checkpoint(self.inner, x, use_reentrant=True)
                 if self.reentrant else self.inner(x)).relu()
        return self.outer(x)[:, :3]


class SharingTest(LoopCase):

    def test_parameters_lie_where_weights_are_pulled_to(self):
        model, places, lent = network(), set(), []
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                weight = model[0].weight
                places.add(weight.data_ptr())
                work = worker._session.held
                self.assertEqual(weight.data_ptr(), work.weights[0].ctypes.data)
                for gradient in work.gradients[:4]:
                    gradient.fill(7)  # Of it nothing is read, or written.
                worker.step(F.cross_entropy(model(x), y))
                for gradient in work.gradients[:4]:
                    self.assertTrue((gradient == 7).all())
                lent.append(len(worker._session._lent))
        self.assertEqual(len(places), 2)
        self.assertLess(max(lent), 4)  # They come back.
        self.assertTrue(worker.close())
        self.assertEqual(worker._session._lent, {})

    def test_what_is_not_copied_is_trained_as_what_is(self):
        for make in (network, wide):
            with self.subTest(make=make.__name__):
                self.run_dir += "-next"
                seen, worker = self.recorded(make())
                self.assertEqual(len(worker._weights.shared),
                                 len(list(make().parameters())))
                self.assert_same_steps(seen, self.copied(make))

    def test_what_a_loop_writes_to_parameters_is_in_no_later_step(self):
        def spoil(number, model):
            if number % 2 == 0:
                with torch.no_grad():
                    model[0].weight.zero_()
            for parameter in model.parameters():
                parameter.data.mul_(0.5)

        # Also where several batches are one push, on the same weights.
        for settings in ({}, {"staleness": "sync"}, {"push_every": 2}):
            with self.subTest(settings=settings):
                self.run_dir += "-next"
                self.assert_same_steps(
                    self.recorded(plain(), spoil, **settings)[0],
                    self.copied(plain, change=spoil, **settings))

    def test_parameters_that_a_program_puts_elsewhere_are_copied_there(self):
        mine = torch.zeros(16, 8)

        def move(number, model):
            if number == 2:
                mine.copy_(model[0].weight.data)
                model[0].weight.data = mine
            if number == 3:
                self.assertEqual(model[0].weight.data_ptr(), mine.data_ptr())
                model.to(torch.float64).to(torch.float32)

        seen, worker = self.recorded(plain(), move)
        self.assertEqual(len(worker._weights.shared), 0)
        self.assert_same_steps(seen, self.copied(plain))

    def test_memory_that_processes_come_to_share_is_not_the_workers(self):
        kept = []

        def share(number, model):
            if number == 1:
                kept.extend(model.state_dict().values())
            if number == 2:  # Also what is sent through a queue of processes.
                for tensor in kept:
                    tensor.share_memory_()
            if number == 5:
                model.share_memory()
            self.assertEqual(model[0].weight.is_shared(), number >= 5)

        seen, worker = self.recorded(plain(), share)
        self.assertEqual(len(worker._weights.shared), 0)
        self.assert_same_steps(seen, self.copied(plain))

    def test_what_may_not_lie_elsewhere_is_known(self):
        from paramd._sharing import shareable
        tied = torch.nn.Parameter(torch.zeros(4))
        flat = torch.zeros(8)

        class Own(torch.nn.Parameter):
            pass

        shared = torch.nn.Parameter(torch.zeros(3).share_memory_())
        buffer = torch.zeros(2)
        parameters = [torch.nn.Parameter(torch.zeros(2, 3)), tied,
                      torch.nn.Parameter(tied.data.view(2, 2)),
                      torch.nn.Parameter(flat[:4]),
                      torch.nn.Parameter(torch.zeros(3, 2).t()), Own(torch.zeros(2)),
                      torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16)),
                      torch.nn.Parameter(torch.zeros(2, device="meta")), shared,
                      torch.nn.Parameter(buffer)]
        self.assertEqual(shareable(parameters, [buffer]), [True] + [False] * 9)
        # What somebody else has of them would never change any more.
        held = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
        others = held[0].data, held[1].detach().numpy()
        self.assertEqual(shareable(held, []), [False, False, True])
        del others
        self.assertEqual(shareable(held, []), [True] * 3)

    def test_a_tensor_that_has_no_address_is_no_obstacle(self):
        from paramd._sharing import shareable

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls):
                return torch.Tensor._make_wrapper_subclass(cls, (2,))

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                raise NotImplementedError(func)

        class Refuses(torch.Tensor):
            def untyped_storage(self):
                raise NotImplementedError("no storage")

        self.assertEqual(
            shareable([torch.nn.Parameter(torch.zeros(2))],
                      [Wrapper(), torch.zeros(2).as_subclass(Refuses)]), [True])

    def test_an_alias_of_a_parameter_stays_one(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(3)
                self.embed = torch.nn.Linear(8, 3)
                self.tied = self.embed.weight.data

            def forward(self, x):
                return F.linear(self.embed(x), self.tied.t())[:, :3]

        def check(number, model):
            self.assertTrue(torch.equal(model.tied, model.embed.weight))

        seen, worker = self.recorded(Tied(), check)
        self.assertEqual(len(worker._weights.shared), 1)
        self.assert_same_steps(seen, self.copied(Tied))

    def test_another_worker_has_the_parameters_as_the_first_one(self):
        model = plain()
        for _ in range(2):
            self.run_dir += "-next"
            _, worker = self.recorded(model)
            self.assertEqual(len(worker._weights.shared), 4)

    def test_tied_and_overlapping_parameters_stay_so(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(3)
                self.one = torch.nn.Linear(8, 8)
                self.same = torch.nn.Linear(8, 8)
                self.same.weight = self.one.weight
                self.flat = torch.nn.Parameter(torch.randn(3, 8))
                # A parameter of its own in the same memory.
                self.head = torch.nn.Parameter(self.flat.data[1:])

            def forward(self, x):
                return F.linear(self.same(self.one(x).relu()), self.flat)

        def check(number, model):
            self.assertIs(model.same.weight, model.one.weight)
            self.assertTrue(torch.equal(model.head, model.flat[1:]))

        seen, worker = self.recorded(Tied(), check)
        self.assertEqual(len(worker._weights.shared), 3)
        self.assert_same_steps(seen, self.copied(Tied))

    def test_a_gradient_that_comes_in_parts_is_their_sum(self):
        def plainly(number, model):
            model.reentrant = False

        for width in (3, 40_000):
            with self.subTest(width=width):
                self.run_dir += "-next"
                seen, _ = self.recorded(InParts(width))
                self.run_dir += "-plainly"
                for one, other in zip(seen, self.recorded(InParts(width), plainly)[0]):
                    for value, wanted in zip(one, other):
                        torch.testing.assert_close(value, wanted)

    def test_a_part_is_added_where_the_one_before_it_is(self):
        # Lent, written, on its way from the device, and come from there.
        from paramd import _gradients

        def staged(done):
            cuda = FakeCuda()
            cuda.done = done
            return staged_by(cuda)

        seen = []
        for patch in (contextlib.nullcontext(),
                      unittest.mock.patch.object(_gradients, "may_be_lent",
                                                 lambda *_: False),
                      staged(False), staged(True)):
            self.run_dir += "-next"
            with patch:
                seen.append(self.recorded(InParts(40_000), batch_size=128)[0])
        for others in seen[1:]:
            self.assert_same_steps(seen[0], others)

    def test_rows_that_come_in_parts_are_added(self):
        from paramd._gradients import Gradients
        parameter = torch.nn.Parameter(torch.zeros(5, 2))
        gradients = Gradients(None, [("rows", parameter)], None, False)
        work = unittest.mock.Mock(gradients=[np.full((2, 2), 7, np.float32)],
                                  rows={0: np.array([1, 4])})
        for number, rows in enumerate(([4, 4], [1, 4])):
            gradient = torch.sparse_coo_tensor([rows], torch.ones(2, 2), (5, 2))
            gradients.take(0, gradient, work, adds=number == 1)
        self.assertEqual(work.gradients[0].tolist(), [[1, 1], [3, 3]])

    def test_a_gradient_whose_memory_is_not_its_own_is_copied(self):
        flat = torch.zeros(8 * 16)
        kept = []

        def into_a_buffer(gradient):
            flat.copy_(gradient.reshape(-1))
            return flat.view_as(gradient)

        def keep(gradient):
            kept.append(gradient.detach())

        def make(spoils=True):
            model = plain()
            if spoils:
                model[0].weight.register_hook(into_a_buffer)
                model[2].weight.register_hook(keep)
            return model

        def spoil(number, model):
            flat.fill_(float("nan"))
            for gradient in kept:
                gradient.fill_(float("nan"))

        from paramd import _gradients
        lent, given = [], _gradients.may_be_lent
        with unittest.mock.patch.object(
                _gradients, "may_be_lent",
                lambda *of: lent.append(given(*of)) or lent[-1]):
            seen, _ = self.recorded(make(), spoil)
        self.assertEqual(lent, [False, True, False, True] * len(seen))
        self.assert_same_steps(seen, self.copied(lambda: make(spoils=False)))

    def test_what_is_copied_is_not_kept_until_backward_ends(self):
        import weakref
        model, alive = wide().to(torch.bfloat16), []
        first = []
        model[2].bias.register_post_accumulate_grad_hook(
            lambda p: first.append(weakref.ref(p.grad)))
        worker = self.worker(model)  # Whose hooks are behind that one.
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                hidden = model[0](x.bfloat16())
                hidden.register_hook(
                    lambda _: alive.extend(ref() is not None for ref in first))
                worker.step(F.cross_entropy(model[1:](hidden), y))
        self.assertTrue(alive)
        self.assertFalse(any(alive))

    def test_gradients_of_a_scaled_exception_are_in_no_other_step(self):
        def fail(gradient):
            raise KeyError("mine")

        model, scaler = plain(), torch.amp.GradScaler("cpu", init_scale=8.0)
        worker = self.worker(model)
        seen = []
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                seen.append([p.detach().clone() for p in model.parameters()])
                hidden = on_the_way_back(model[:2](x).detach().requires_grad_(), fail)
                with self.assertRaisesRegex(KeyError, "mine"):
                    worker.step(F.cross_entropy(model[2:](hidden), y), scaler=scaler)
                self.assertEqual([p.grad for p in model.parameters()], [None] * 4)
                with unittest.mock.patch.object(worker._gradients, "_may_lend",
                                                lambda *_: fail(None)), \
                        self.assertRaisesRegex(KeyError, "mine"):
                    worker.step(F.cross_entropy(model(x), y), scaler=scaler)
                self.assertEqual([p.grad for p in model.parameters()], [None] * 4)
                worker.step(F.cross_entropy(model(x), y), scaler=scaler)
        self.assert_same_steps(seen, self.copied(plain))

    def test_gradients_of_an_exception_are_in_no_other_step(self):
        def fail(gradient):
            raise KeyError("mine")

        for make in (network, plain):
            self.run_dir += "-next"
            model = make()
            worker = self.worker(model)
            seen = []
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 32):
                    seen.append([p.detach().clone() for p in model.parameters()])
                    hidden = on_the_way_back(model[:2](x).detach().requires_grad_(),
                                             fail)
                    with self.assertRaisesRegex(KeyError, "mine"):
                        worker.step(F.cross_entropy(model[2:](hidden), y))
                    self.assertEqual([p.grad for p in model.parameters()],
                                     [None] * len(list(model.parameters())))
                    worker.step(F.cross_entropy(model(x), y))
            if make is plain:  # Of the other one the statistics were moved twice.
                self.assert_same_steps(seen, self.copied(make))

    def test_what_a_program_has_put_into_grad_is_added_and_stays_its_own(self):
        model = plain()
        worker = self.worker(model)
        mine = [torch.zeros_like(p) for p in model.parameters()]
        seen = []
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                seen.append([p.detach().clone() for p in model.parameters()])
                for parameter, gradient in zip(model.parameters(), mine):
                    parameter.grad = gradient.zero_()
                worker.step(F.cross_entropy(model(x), y))
                for gradient in mine:  # Sent it may be still, from elsewhere.
                    gradient.fill_(float("nan"))
        self.assertTrue(worker.close())
        self.assert_same_steps(seen, self.copied(plain))

    def test_tensors_of_a_model_outlive_its_worker(self):
        import gc
        import paramd
        model = plain()
        kept = []
        seen, worker = self.recorded(
            model, lambda number, model: kept.append(model.state_dict()))
        del worker
        gc.collect()
        # As with PyTorch's optimizers these are the model's memory, not copies.
        places = {state["0.weight"].data_ptr() for state in kept}
        self.assertEqual(len(places), 2)
        for state in kept:
            self.assertTrue(torch.isfinite(state["0.weight"]).all())
        trained = torch.from_numpy(paramd.load(self.run_dir)["0.weight"])
        self.assertFalse(torch.equal(trained, seen[-1][0]))  # Of before the last step.
        self.assertTrue(torch.equal(model[0].weight, trained))
        state = {name: value + 1 for name, value in model.state_dict().items()}
        model.load_state_dict(state)
        self.assertTrue(torch.equal(model[0].weight, trained + 1))
        self.run_dir += "-again"
        again, _ = self.recorded(model)  # By another worker, from there on.
        self.assertTrue(torch.equal(again[0][0], trained + 1))

    def test_what_is_evaluated_is_not_written_over_what_is_trained_on(self):
        evaluated = []

        def evaluate(model, x, y):
            evaluated.append(model[0].weight.detach().clone())
            return F.cross_entropy(model(x), y)

        settings = {"test": blobs(50), "evaluate": evaluate}
        seen, _ = self.recorded(plain(), epochs=3, **settings)
        self.assertGreater(len(evaluated), 1)
        self.assert_same_steps(seen, self.copied(plain, epochs=3, **settings))

    def test_a_graph_of_other_weights_does_not_go_backward(self):
        model = plain()
        worker = self.worker(model)
        before = None
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                loss = F.cross_entropy(model(x), y)
                if before is not None:
                    with self.assertRaisesRegex(RuntimeError, "inplace operation"):
                        worker.step(before)
                worker.step(loss)
                before = F.cross_entropy(model(x), y)
        self.assertTrue(worker.close())

    def test_a_forked_process_leaves_the_model_alone(self):
        model = plain()

        def fork(number, model):
            if number != 2:
                return
            child = os.fork()
            if child == 0:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.zero_()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

        seen, _ = self.recorded(model, fork)
        self.assert_same_steps(seen, self.copied(plain))


if __name__ == "__main__":
    unittest.main()
