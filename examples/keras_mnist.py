"""Fashion-MNIST in Keras on paramd: python3 keras_mnist.py [DIRECTORY]

With whichever backend KERAS_BACKEND names, torch unless it is set.
"""

import gzip
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import paramd.keras as pk

EPOCHS, BATCH = 5, 64


def load(directory, split):
    """Images as [n, 784] in [0, 1], and classes."""
    def read(kind, header):
        with gzip.open(f"{directory}/{split}-{kind}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)
    images = read("images-idx3", 16).reshape(-1, 784).astype(np.float32) / 255
    return images, read("labels-idx1", 8).astype(np.int64)


def main():
    directory = (sys.argv + ["/usr/share/datasets/fashion-mnist"])[1]
    x, y = load(directory, "train")
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((784,)),
                              keras.layers.Dense(128, activation="relu"),
                              keras.layers.Dense(10)])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    pk.fit(model, x, y, optimizer={"sgd": {}, "learning_rate": 0.1},
           epochs=EPOCHS, batch_size=BATCH)
    _, accuracy = model.evaluate(*load(directory, "t10k"), verbose=0)
    print(f"test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
