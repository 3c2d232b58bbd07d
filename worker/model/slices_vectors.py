"""Makes slices_vectors.json, what metrics by slice are compared with.

    python3 -m venv VENV && VENV/bin/pip install scikit-learn
    VENV/bin/python worker/model/slices_vectors.py

It has scores, labels, weights and devices of examples, and for each device what
scikit-learn and NumPy find for its examples in float64, once of all alike and
once weighted; null where a metric is not defined. All scores and weights are
exact in float32. No example has device 3; device 4 has one kind of label alone.
"""

import json
import os

import numpy as np
from sklearn import metrics

RANDOM = np.random.default_rng(39)
EXAMPLES, VALUES = 160, 6


def measured(z, labels, weights):
    """By name, of some examples."""
    p = 1 / (1 + np.exp(-z))
    nats = np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0) - z * labels
    share = np.average(labels, weights=weights)
    found = {
        "examples": len(z),
        # Over the number of examples, not over the sum of their weights.
        "loss": (nats * weights).sum() / len(z),
        "accuracy": metrics.accuracy_score(labels, z > 0,
                                           sample_weight=weights),
        "calibration": None, "auc": None, "normalised_entropy": None,
    }
    if share > 0:
        found["calibration"] = (p * weights).sum() / (labels * weights).sum()
    if 0 < share < 1:
        found["auc"] = metrics.roc_auc_score(labels, z, sample_weight=weights)
        found["normalised_entropy"] = metrics.log_loss(
            labels, p, sample_weight=weights) / metrics.log_loss(
                labels, np.full(len(z), share), sample_weight=weights)
    return {name: None if value is None else float(value)
            for name, value in found.items()}


def main():
    z = RANDOM.integers(-12, 12, EXAMPLES) / 4 + 0.125
    labels = (z + RANDOM.normal(0, 2, EXAMPLES) > 0).astype(int)
    devices = RANDOM.choice([0, 1, 2, 4, 5], EXAMPLES)
    labels[devices == 4] = 0
    weights = RANDOM.integers(1, 9, EXAMPLES) / 4

    def by_device(weights):
        return {str(device): measured(*(of[devices == device]
                                        for of in (z, labels, weights)))
                for device in np.unique(devices)}

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "slices_vectors.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"values": VALUES, "scores": z.tolist(),
                   "labels": labels.tolist(), "devices": devices.tolist(),
                   "weights": weights.tolist(),
                   "plain": by_device(np.ones(EXAMPLES)),
                   "weighted": by_device(weights)}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
