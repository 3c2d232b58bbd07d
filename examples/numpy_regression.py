"""Linear regression with NumPy alone: python3 numpy_regression.py"""

import numpy as np

import paramd

EXAMPLES, FEATURES = 10_000, 20

random = np.random.default_rng(1)
truth = random.normal(size=FEATURES).astype(np.float32)
x = random.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
y = x @ truth + random.normal(scale=0.1, size=EXAMPLES).astype(np.float32)


def gradient(weights, indices):
    error = x[indices] @ weights["w"] - y[indices]
    return (error ** 2).mean(), {"w": 2 * x[indices].T @ error / len(error)}


worker = paramd.Worker({"w": np.zeros(FEATURES)}, gradient, examples=EXAMPLES,
                       optimizer={"adam": {}, "learning_rate": 0.01},
                       batch_size=50, epochs=5)
weights = worker.train()
print(f"largest error of a weight {abs(weights['w'] - truth).max():.4f}")
