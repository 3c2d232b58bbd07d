"""Makes metric_vectors.json, what losses and metrics are compared with.

    python3 -m venv VENV && VENV/bin/pip install scikit-learn
    VENV/bin/python compute/model/metric_vectors.py

Each case has outputs of a model and labels, and the loss and metrics that
scikit-learn, SciPy and NumPy find for them in float64. All outputs and labels
are exact in float32.
"""

import json
import os

import numpy as np
from scipy import special
from sklearn import metrics

RANDOM = np.random.default_rng(18)


def outputs(rows, columns):
    """Those of a row differ: on ties scikit-learn's top-k takes others."""
    return np.stack([RANDOM.choice(np.arange(-256, 256), columns, False) / 64
                     for _ in range(rows)])


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def case(loss, z, labels, expected, **more):
    return {"loss": loss, "outputs": np.asarray(z).ravel().tolist(),
            "labels": np.asarray(labels).ravel().tolist(),
            "expected": {name: float(value)
                         for name, value in expected.items()}, **more}


def of_classes(rows, classes, k):
    z = outputs(rows, classes)
    labels = RANDOM.integers(0, classes, rows)
    labels[::3] = z.argmax(axis=1)[::3]
    every = list(range(classes))
    nats = metrics.log_loss(labels, softmax(z), labels=every)
    return case("SOFTMAX_CROSS_ENTROPY", z, labels, {
        "loss": nats,
        "accuracy": metrics.accuracy_score(labels, z.argmax(axis=1)),
        f"top_{k}": metrics.top_k_accuracy_score(labels, z, k=k, labels=every),
        "perplexity": np.exp(nats),
    }, dims=[classes])


def of_sequences(rows, places, classes, k):
    """Some places are padding: their label is -100."""
    z = outputs(rows * places, classes)
    labels = RANDOM.integers(0, classes, rows * places)
    labels[::4] = z.argmax(axis=1)[::4]
    padding = RANDOM.random(rows * places) < 0.3
    padding[::places] = False  # No example is padding alone.
    labels[padding] = -100
    nats = np.array([0 if label < 0 else -np.log(p[label])
                     for p, label in zip(softmax(z), labels)])
    counted = (~padding).reshape(rows, places).sum(axis=1)
    every = list(range(classes))
    seen = (labels[~padding], z[~padding])
    return case("SOFTMAX_CROSS_ENTROPY", z, labels, {
        "loss": (nats.reshape(rows, places).sum(axis=1) / counted).mean(),
        "accuracy": metrics.accuracy_score(seen[0], seen[1].argmax(axis=1)),
        f"top_{k}": metrics.top_k_accuracy_score(*seen, k=k, labels=every),
        "perplexity": np.exp(nats.sum() / counted.sum()),
    }, dims=[places, classes])


def normalised_entropy(labels, p):
    share = np.full(len(labels), labels.mean())
    return metrics.log_loss(labels, p) / metrics.log_loss(labels, share)


def of_two_classes(rows):
    z = RANDOM.integers(-8, 9, (rows, 2)) / 4  # With ties between rows.
    z[z[:, 0] == z[:, 1], 1] += 0.125
    labels = (z[:, 1] - z[:, 0] + RANDOM.normal(0, 2, rows) > 0).astype(int)
    return case("SOFTMAX_CROSS_ENTROPY", z, labels, {
        "loss": metrics.log_loss(labels, softmax(z)),
        "accuracy": metrics.accuracy_score(labels, z.argmax(axis=1)),
        "auc": metrics.roc_auc_score(labels, z[:, 1] - z[:, 0]),
        "normalised_entropy": normalised_entropy(labels, softmax(z)[:, 1]),
        "calibration": softmax(z)[:, 1].sum() / labels.sum(),
    }, dims=[2])


def of_binary(rows):
    z = RANDOM.integers(-12, 12, rows) / 4 + 0.125
    labels = (z + RANDOM.normal(0, 2, rows) > 0).astype(int)
    p = 1 / (1 + np.exp(-z))
    return case("BINARY_CROSS_ENTROPY", z, labels, {
        "loss": metrics.log_loss(labels, p),
        "accuracy": metrics.accuracy_score(labels, z > 0),
        "auc": metrics.roc_auc_score(labels, z),
        "normalised_entropy": normalised_entropy(labels, p),
        "calibration": p.sum() / labels.sum(),
    }, dims=[1])


def of_numbers(rows, columns):
    z = outputs(rows, columns)
    labels = outputs(rows, columns)
    return case("MEAN_SQUARED_ERROR", z, labels, {
        "loss": metrics.mean_squared_error(labels, z),
        "mse": metrics.mean_squared_error(labels, z),
    }, dims=[columns])


def of_weighted_classes(rows, classes):
    """The loss is over examples, not over the sum of their weights."""
    z = outputs(rows, classes)
    labels = RANDOM.integers(0, classes, rows)
    labels[::3] = z.argmax(axis=1)[::3]
    weights = 1 / (1 + np.arange(classes)) + 0.25
    of_rows = weights[labels]
    return case("SOFTMAX_CROSS_ENTROPY", z, labels, {
        "loss": of_rows.mean() * metrics.log_loss(
            labels, softmax(z), labels=list(range(classes)),
            sample_weight=of_rows),
        "accuracy": metrics.accuracy_score(labels, z.argmax(axis=1)),
        # It measures what the model knows: without weights and smoothing.
        "perplexity": np.exp(metrics.log_loss(
            labels, softmax(z), labels=list(range(classes)))),
    }, dims=[classes], class_weights=weights.tolist())


def of_smoothed_classes(rows, classes, smoothing):
    """Cross entropy against 1 - smoothing at the label and smoothing / classes
    everywhere."""
    z = outputs(rows, classes)
    labels = RANDOM.integers(0, classes, rows)
    wanted = np.full((rows, classes), smoothing / classes)
    wanted[np.arange(rows), labels] += 1 - smoothing
    return case("SOFTMAX_CROSS_ENTROPY", z, labels, {
        "loss": -(wanted * special.log_softmax(z, axis=1)).sum(axis=1).mean(),
        "accuracy": metrics.accuracy_score(labels, z.argmax(axis=1)),
    }, dims=[classes], label_smoothing=smoothing)


def of_probabilities(rows, classes):
    """Many of the given probabilities are 0."""
    z = outputs(rows, classes)
    wanted = RANDOM.multinomial(16, np.full(classes, 1 / classes), rows) / 16
    return case("KL_DIVERGENCE", z, wanted, {
        "loss": special.rel_entr(wanted, softmax(z)).sum(axis=1).mean(),
    }, dims=[classes])


def main():
    cases = [of_classes(40, 10, 3), of_sequences(8, 6, 7, 2),
             of_two_classes(120), of_binary(150), of_numbers(25, 6),
             of_weighted_classes(40, 5), of_smoothed_classes(40, 6, 0.1),
             of_probabilities(30, 8)]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "metric_vectors.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


if __name__ == "__main__":
    main()
