"""Keras models as workers: keras_test.py [BACKEND]. Skipped by name where there is no
Keras or not that backend, torch unless it is named."""

import importlib.util
import json
import os
import sys
import tempfile
import unittest

BACKEND = next((one for one in sys.argv[1:] if one in ("jax", "tensorflow")), "torch")
os.environ.update(KERAS_BACKEND=BACKEND, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")
keras = None
if all(map(importlib.util.find_spec, ("numpy", "keras", BACKEND))):
    import numpy as np
    import keras

os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
os.environ["PYTHONPATH"] = os.path.abspath("python")
sys.path.insert(0, os.path.abspath("python"))

SGD = {"sgd": {}, "learning_rate": 0.1}


def blobs(count=256, features=8, classes=3):
    """Points around three centres."""
    draw = np.random.default_rng(7)
    labels = np.arange(count) % classes
    centres = draw.normal(size=(classes, features)) * 2
    points = centres[labels] + draw.normal(size=(count, features))
    return points.astype(np.float32), labels


# One of several, of the test that is at this path.
WORKER = """
import importlib.util, sys
sys.argv[1:] = [%r]
spec = importlib.util.spec_from_file_location("keras_test", %r)
test = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test)
case = test.KerasTest()
case.run_dir, (case.x, case.y) = %r, test.blobs()
seen = case.note_rows()
case.fit(test.network(), staleness="sync")
print("rows", len(seen))
"""

LOSS = "sparse_categorical_crossentropy"


def plain():
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input((8,)),
                             keras.layers.Dense(16, activation="relu"),
                             keras.layers.Dense(3, activation="softmax",
                                                dtype="float32")])


def network(classes=3):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8,)),
                              keras.layers.Dense(16, name="first"),
                              keras.layers.BatchNormalization(name="norm"),
                              keras.layers.Dropout(0.1),
                              keras.layers.ReLU(),
                              keras.layers.Dense(classes, name="last")])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    return model


@unittest.skipIf(keras is None, f"needs Keras and {BACKEND}")
class KerasTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir = directory.name + "/run"
        self.x, self.y = blobs()

    def fit(self, model, **settings):
        import paramd.keras as pk
        settings = dict({"optimizer": SGD, "epochs": 3, "batch_size": 16, "x": self.x,
                         "y": self.y, "run_dir": self.run_dir, "log_level": "error"},
                        **settings)
        return pk.fit(model, **settings)

    def test_a_model_learns_and_gets_its_checkpoint(self):
        import paramd
        import paramd.keras as pk
        history = self.fit(network())
        self.assertEqual(history.epoch, [0, 1, 2])
        losses = history.history["loss"]
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertGreater(history.history["accuracy"][-1], 0.8)
        # Of a job with one worker: what it saw, as the job has it too.
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            self.assertEqual([epoch["loss"] for epoch in json.load(file)["training"]],
                             losses)
        saved = paramd.load(self.run_dir)
        self.assertEqual(saved["last/kernel"].shape, (16, 3))
        # Running statistics too, and nothing of the random numbers' generators.
        self.assertGreater(abs(saved["norm/moving_mean"]).max(), 0.1)
        self.assertFalse([name for name in saved if "seed" in name])
        model = network()
        pk.load(model, self.run_dir)
        _, accuracy = model.evaluate(self.x, self.y, verbose=0)
        self.assertGreater(accuracy, 0.9)
        with self.assertRaisesRegex(paramd.InvalidArgument, "'last/kernel' is"):
            pk.load(network(classes=4), self.run_dir)
        other = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
        with self.assertRaisesRegex(
                paramd.InvalidArgument,
                "no variable 'dense[_0-9]*/kernel' .*last/kernel.*give them names"):
            pk.load(other, self.run_dir)

    def note_rows(self):
        """The examples that are read, as they are read."""
        import paramd.keras as pk
        seen, given = [], pk._Rows.batch

        def note(self, epoch, numbers):
            seen.extend(numbers)
            return given(self, epoch, numbers)

        self.addCleanup(setattr, pk._Rows, "batch", given)
        pk._Rows.batch = note
        return seen

    def test_replicas_have_the_weights_of_one_that_accumulates(self):
        found = []
        for settings in ({"strategy": "one_device", "accumulate": 2},
                         {"strategy": "mirrored", "replicas": 2},
                         {"strategy": "central_storage", "replicas": 2}):
            model = network()
            self.fit(model, epochs=2, run_dir=f"{self.run_dir}-{len(found)}",
                     **settings)
            found.append([value.tobytes() for value in model.get_weights()])
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_the_steps_are_those_of_keras(self):
        import paramd.keras as pk
        seen = self.note_rows()
        model = keras.Sequential([keras.Input((8,)),
                                  keras.layers.BatchNormalization(),
                                  keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        alone = keras.models.clone_model(model)
        alone.set_weights(model.get_weights())
        model.compile(loss=loss)
        before = model.optimizer
        self.fit(model, epochs=2)
        self.assertIs(model.optimizer, before)
        pk.load(model, self.run_dir)
        alone.compile(loss=loss, optimizer=keras.optimizers.SGD(0.1))
        for begin in range(0, len(seen), 16):
            batch = seen[begin:begin + 16]
            alone.train_on_batch(self.x[batch], self.y[batch])
        for found, wanted in zip(model.get_weights(), alone.get_weights()):
            np.testing.assert_allclose(found, wanted, atol=2e-5)

    def test_the_figures_are_those_of_keras(self):
        # A learning rate of 0: all batches are of the same weights.
        model = network()
        model.layers[2].rate = 0
        model.layers[1].trainable = False
        model.compile(loss=model.loss, metrics=[
            "accuracy", keras.metrics.SparseCategoricalCrossentropy(
                from_logits=True, name="other")])
        history = self.fit(model, epochs=1,
                           optimizer={"sgd": {}, "learning_rate": 1e-12}).history
        wanted = model.evaluate(self.x, self.y, verbose=0, return_dict=True)
        for name in ("loss", "accuracy", "other"):
            self.assertAlmostEqual(history[name][0], wanted[name], places=4)

    def test_what_is_evaluated_is_the_validation_data(self):
        model = network()
        self.fit(model, epochs=1, validation_data=blobs(50))
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            evaluation = json.load(file)["evaluation"]
        self.assertGreater(evaluation["metrics"]["accuracy"], 0.3)
        self.assertGreater(evaluation["loss"], 0)

    def test_a_line_an_epoch_is_shown_where_it_is_asked_for(self):
        import contextlib
        import io
        for verbose, lines in ((0, 0), (2, 3)):
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                self.fit(network(), verbose=verbose,
                         run_dir=f"{self.run_dir}-{verbose}")
            self.assertEqual(shown.getvalue().count("loss: "), lines)

    def test_callbacks_are_called_and_may_stop_the_worker(self):
        said = []

        class Told(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                said.append(batch)

            def on_epoch_end(self, epoch, logs=None):
                said.append(sorted(logs))
                self.model.stop_training = True

        self.fit(network(), callbacks=[Told()])
        self.assertEqual(said, [*range(16), ["accuracy", "loss"]])

    def test_workers_share_the_examples(self):
        import paramd
        import paramd.keras as pk
        script = self.run_dir + "-worker.py"
        with open(script, "w", encoding="utf-8") as file:
            file.write(WORKER % (BACKEND, os.path.abspath(__file__), self.run_dir))
        logs = self.run_dir + "-logs"
        with paramd.local(1, [script] * 2, directory=logs) as cluster:
            cluster.wait(300, progress=False)
        rows = []
        for index in range(2):
            with open(f"{logs}/worker-{index}.log", encoding="utf-8") as file:
                rows += [int(line.split()[1]) for line in file
                         if line.startswith("rows ")]
        self.assertEqual(rows, [3 * 128] * 2)
        pk.load(model := network(), self.run_dir)
        self.assertGreater(model.evaluate(self.x, self.y, verbose=0)[1], 0.8)

    @unittest.skipIf(BACKEND != "torch", "of Keras's torch backend")
    def test_a_loop_of_ones_own_trains_a_model(self):
        import paramd
        import paramd.keras as pk
        model = plain()
        worker = pk.Worker(model, optimizer=SGD, run_dir=self.run_dir,
                           log_level="error")
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(list(zip(self.x, self.y)), 16):
                loss = keras.losses.sparse_categorical_crossentropy(y, model(x))
                worker.step(loss.mean())
        self.assertTrue(worker.close())
        self.assertEqual(len(paramd.load(self.run_dir)), 4)

    def test_shards_of_pairs_are_leased(self):
        import paramd
        history = self.fit(network(), epochs=2, x=paramd.Shards(
            range(0, 256, 64), lambda s: zip(self.x[s:s + 64], self.y[s:s + 64])), y=None)
        self.assertLess(history.history["loss"][1], history.history["loss"][0])

    def compiled(self, settings=SGD, **options):
        import paramd.keras as pk
        model = network()
        model.compile(pk.Optimizer(settings), loss=model.loss, metrics=["accuracy"],
                      **options)
        return model

    def callback(self, **settings):
        import paramd.keras as pk
        return pk.Callback(**dict({"examples": 256, "batch_size": 16, "epochs": 3,
                                   "run_dir": self.run_dir, "log_level": "error"},
                                  **settings))

    def test_a_callback_makes_keras_fit_a_worker(self):
        import paramd
        import paramd.keras as pk
        model = self.compiled({"adam": {}, "learning_rate": 0.02})
        # The last of Keras's epochs is not whole: the job counts its own.
        history = model.fit(self.x, self.y, batch_size=16, epochs=100, verbose=0,
                            callbacks=[self.callback(examples=200)])
        self.assertEqual(len(history.epoch), 3)
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            self.assertEqual(int(json.load(file)["global_step"]), 3 * 13)
        pk.load(model, self.run_dir)
        self.assertGreater(model.evaluate(self.x, self.y, verbose=0)[1], 0.9)
        self.assertGreater(abs(paramd.load(self.run_dir)["norm/moving_mean"]).max(), 0.1)

    def test_fits_steps_are_those_of_keras(self):
        import paramd.keras as pk
        for settings, optimizer in (
                (SGD, keras.optimizers.SGD(0.1)),
                ({"sgd": {"momentum": 0.9}, "learning_rate": 0.02},
                 keras.optimizers.SGD(0.02, momentum=0.9))):
            self.run_dir += "-next"
            model = plain()
            alone = keras.models.clone_model(model)
            alone.set_weights(model.get_weights())
            model.compile(pk.Optimizer(settings), loss=LOSS)
            alone.compile(optimizer, loss=LOSS)
            model.fit(self.x, self.y, batch_size=16, epochs=9, shuffle=False, verbose=0,
                      callbacks=[self.callback(epochs=1)])
            alone.fit(self.x, self.y, batch_size=16, epochs=1, shuffle=False, verbose=0)
            pk.load(model, self.run_dir)
            for found, wanted in zip(model.get_weights(), alone.get_weights()):
                np.testing.assert_allclose(found, wanted, atol=2e-4)

    def test_without_servers_the_servers_optimizer_is_refused(self):
        import paramd
        with self.assertRaisesRegex(paramd.Error, "give fit a paramd.keras.Callback"):
            self.compiled().fit(self.x, self.y, verbose=0)
        model = self.compiled()
        model.fit(self.x, self.y, batch_size=16, epochs=9, verbose=0,
                  callbacks=[self.callback(epochs=1)])
        with self.assertRaisesRegex(paramd.Error, "give fit a paramd.keras.Callback"):
            model.fit(self.x, self.y, verbose=0)  # Also when it was traced before.
        with self.assertRaisesRegex(paramd.InvalidArgument, "learning rate is the ser"):
            model.optimizer.learning_rate = 0.1

    def test_what_fit_would_do_wrong_silently_is_refused(self):
        import paramd
        # Keras itself refuses it with PyTorch.
        with self.assertRaisesRegex(ValueError if BACKEND == "torch" else
                                    paramd.InvalidArgument, "steps_per_execution=4"):
            self.compiled(steps_per_execution=4).fit(
                self.x, self.y, verbose=0, callbacks=[self.callback()])
        with self.assertRaisesRegex(paramd.InvalidArgument, "compile the model with"):
            network().fit(self.x, self.y, verbose=0, callbacks=[self.callback()])
        with self.assertRaisesRegex(paramd.Error, "fit ended before the job"):
            self.compiled().fit(self.x, self.y, batch_size=16, epochs=1, verbose=0,
                                callbacks=[self.callback()])

    def test_what_keras_would_apply_to_weights_is_refused_by_name(self):
        import paramd
        import paramd.keras as pk
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(
            3, name="last", kernel_constraint=keras.constraints.NonNeg())])
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(True))
        said = "'last/kernel' has the constraint NonNeg"
        with self.assertRaisesRegex(paramd.InvalidArgument, said):
            self.fit(model)
        if BACKEND == "torch":
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                pk.Worker(model, optimizer=SGD)

    def test_an_optimizer_is_for_the_variables_that_it_was_made_for(self):
        import paramd
        model = plain()
        optimizer = paramd.keras.Optimizer(SGD)
        for trainable in (False, True):
            model.layers[1].trainable = trainable
            model.compile(optimizer, loss=LOSS)
            if not trainable:
                for _ in range(2):  # For the same ones again and again.
                    self.fit(model, optimizer=None, epochs=1, batch_size=64)
                    self.run_dir += "-next"
        with self.assertRaisesRegex(paramd.InvalidArgument, "with a new one"):
            self.fit(model, optimizer=None)

    @unittest.skipIf(BACKEND != "torch", "others have compiled their step")
    def test_what_is_trained_stays_to_the_end(self):
        import paramd

        class Unfreeze(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.model.layers[0].trainable = epoch > 0

        model = plain()
        model.layers[0].trainable = False
        model.compile(loss=LOSS)
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "has 4 variables to train, and had 2"):
            self.fit(model, callbacks=[Unfreeze()])

    def test_a_callback_sets_the_scale_of_the_servers_rates(self):
        import paramd
        import paramd.keras as pk
        seen = []

        class Plateau(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                seen.append(float(self.model.get_weights()[0].sum()))

            def on_epoch_end(self, epoch, logs=None):
                if epoch == 0:
                    self.model.optimizer.set(learning_rate_scale=0)

        with self.assertRaisesRegex(paramd.Error, "while no worker trains"):
            pk.Optimizer(SGD).set(learning_rate_scale=0)
        model = plain()
        model.compile(loss=LOSS)
        self.fit(model, callbacks=[Plateau()])
        steps = len(seen) // 3
        self.assertEqual(len(set(seen[:steps])), steps)
        # The last push before may have been on its way.
        self.assertEqual(len(set(seen[steps + 1:])), 1)

    def test_a_job_file_says_how_often_and_how_much(self):
        job = {"epochs": 2, "batch_per_replica": 64}
        history = self.fit(network(), job=job, epochs=None, batch_size=None)
        self.assertEqual(history.epoch, [0, 1])
        self.assertEqual(history.params["epochs"], 2)
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            self.assertEqual(int(json.load(file)["global_step"]), 2 * 4)

    def test_a_batchs_loss_is_its_own_and_not_the_epochs_mean(self):
        import paramd.keras as pk
        said, given = [], pk._Training.push

        def note(training, loss):
            said.append(loss)
            given(training, loss)

        self.addCleanup(setattr, pk._Training, "push", given)
        pk._Training.push = note
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(
            1, kernel_initializer="zeros")])
        model.compile(pk.Optimizer({"sgd": {}, "learning_rate": 1e-12}), loss="mse")
        x, y = np.ones((64, 1)), np.repeat([0.0, 0.0, 10.0, 0.0], 16)
        model.fit(x, y, batch_size=16, shuffle=False, epochs=9, verbose=0,
                  callbacks=[self.callback(examples=64, epochs=2)])
        np.testing.assert_allclose(said, [0, 0, 100, 0] * 2, atol=1e-3)

    def test_a_metric_of_several_numbers_stays_an_array(self):
        model = keras.Sequential([keras.Input((8,)),
                                  keras.layers.Dense(3, activation="softmax")])
        model.compile(loss="categorical_crossentropy",
                      metrics=[keras.metrics.F1Score()])
        history = self.fit(model, y=np.eye(3)[self.y], epochs=1).history
        self.assertEqual(np.shape(history["f1_score"][0]), (3,))

    def test_an_interrupted_fit_leaves_when_its_callback_is_closed(self):
        class Interrupt(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                raise KeyboardInterrupt

        callback = self.callback()
        with self.assertRaises(KeyboardInterrupt):
            self.compiled().fit(self.x, self.y, verbose=0, batch_size=16,
                                callbacks=[callback, Interrupt()])
        self.assertFalse(callback.close())
        history = self.compiled().fit(self.x, self.y, verbose=0, batch_size=16,
                                      epochs=9, callbacks=[self.callback()])
        self.assertEqual(len(history.epoch), 3)

    def test_infinite_gradients_of_float16_are_left_out(self):
        import paramd.keras as pk
        keras.config.set_dtype_policy("mixed_float16")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        model = plain()
        model.compile(loss=LOSS)
        scales, given = [], pk._Training.push

        def note(training, loss):
            scaler = model.optimizer
            scales.append((float(scaler.dynamic_scale), training._optimizer._count()))
            given(training, loss)

        self.addCleanup(setattr, pk._Training, "push", given)
        pk._Training.push = note
        self.x = self.x * 30  # The first scale, 2**15, is too much then.
        history = self.fit(model, optimizer={"adam": {}, "learning_rate": 0.01})
        self.assertLess(scales[-1][0], 2**15)
        self.assertLess(scales[-1][1], len(scales))  # Some were left out,
        self.assertGreater(scales[-1][1], 20)        # most were not.
        self.assertLess(history.history["loss"][-1], history.history["loss"][0])

    def test_what_does_not_fit_is_one_sentence(self):
        import paramd
        import paramd.keras as pk
        with self.assertRaisesRegex(paramd.InvalidArgument, "256 examples, and y 3"):
            pk.fit(network(), self.x, self.y[:3], optimizer=SGD)
        with self.assertRaises(paramd.NotFinite):
            self.fit(network(), x=self.x * np.nan)
        with self.assertRaisesRegex(paramd.InvalidArgument, "no 'shuffle', which"):
            self.fit(network(), shuffle=True)
        for model, said in ((keras.Sequential([keras.layers.Dense(3)]), "not compiled"),
                            (keras.Sequential([keras.layers.Dense(3)]), "not built")):
            if said == "not built":
                model.compile(loss="mse")
            with self.assertRaisesRegex(paramd.InvalidArgument, f"is {said}"):
                pk.fit(model, self.x, self.y, optimizer=SGD)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [a for a in sys.argv[1:] if a != BACKEND])
