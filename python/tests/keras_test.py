"""Keras models as workers. Skipped by name where there is no Keras or PyTorch."""

import json
import os
import sys
import tempfile
import unittest

os.environ["KERAS_BACKEND"] = "torch"
try:
    import numpy as np
    import torch
    import keras
except ImportError:
    keras = None

os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
sys.path.insert(0, os.path.abspath("python"))

SGD = {"sgd": {}, "learning_rate": 0.1}


def blobs(count=256, features=8, classes=3):
    """Points around three centres."""
    draw = np.random.default_rng(7)
    labels = np.arange(count) % classes
    centres = draw.normal(size=(classes, features)) * 2
    points = centres[labels] + draw.normal(size=(count, features))
    return points.astype(np.float32), labels


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


@unittest.skipIf(keras is None, "needs Keras and PyTorch")
class KerasTest(unittest.TestCase):

    def setUp(self):
        torch.set_num_threads(1)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir = directory.name + "/run"
        self.x, self.y = blobs()

    def fit(self, model, **settings):
        import paramd.keras as pk
        settings = dict({"optimizer": SGD, "epochs": 3, "batch_size": 16,
                         "run_dir": self.run_dir, "log_level": "error"}, **settings)
        return pk.fit(model, self.x, self.y, **settings)

    def test_a_model_learns_and_gets_its_checkpoint(self):
        import paramd
        import paramd.keras as pk
        history = self.fit(network())
        self.assertEqual(history.epoch, [0, 1, 2])
        losses = history.history["loss"]
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertGreater(history.history["accuracy"][-1], 0.8)
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

    def test_the_steps_are_those_of_keras(self):
        seen = []
        import paramd.keras as pk
        given = pk._Rows.__getitem__

        def note(self, index):
            seen.append(index)
            return given(self, index)

        self.addCleanup(setattr, pk._Rows, "__getitem__", given)
        pk._Rows.__getitem__ = note
        model = keras.Sequential([keras.Input((8,)),
                                  keras.layers.BatchNormalization(),
                                  keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        alone = keras.models.clone_model(model)
        alone.set_weights(model.get_weights())
        model.compile(loss=loss)
        self.fit(model, epochs=2)
        pk.load(model, self.run_dir)
        alone.compile(loss=loss, optimizer=keras.optimizers.SGD(0.1))
        for begin in range(0, len(seen), 16):
            batch = seen[begin:begin + 16]
            alone.train_on_batch(self.x[batch], self.y[batch])
        for found, wanted in zip(model.get_weights(), alone.get_weights()):
            np.testing.assert_allclose(found, wanted, atol=2e-5)

    def test_what_is_evaluated_is_the_validation_data(self):
        model = network()
        self.fit(model, epochs=1, validation_data=blobs(50))
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            evaluation = json.load(file)["evaluation"]
        self.assertGreater(evaluation["metrics"]["accuracy"], 0.3)
        self.assertGreater(evaluation["loss"], 0)

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

    def test_what_does_not_fit_is_one_sentence(self):
        import paramd
        import paramd.keras as pk
        with self.assertRaisesRegex(paramd.InvalidArgument, "256 examples, and y 3"):
            pk.fit(network(), self.x, self.y[:3], optimizer=SGD)
        with self.assertRaisesRegex(paramd.InvalidArgument, "is not built"):
            pk.fit(keras.Sequential([keras.layers.Dense(3)]), self.x, self.y,
                   optimizer=SGD)


if __name__ == "__main__":
    unittest.main()
