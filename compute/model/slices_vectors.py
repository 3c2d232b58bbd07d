"""Makes slices_vectors.json, what metrics by slice are compared with.

    python3 compute/model/slices_vectors.py

It has scores, labels, weights and devices of examples, and for each device what
the definitions say of its examples in float64, pair by pair, once of all alike
and once weighted; null where a metric is not defined. (metric_vectors.py has the
same metrics of scikit-learn, of all examples.) All scores and weights are exact
in float32. No example has device 3; device 4 has one kind of label alone.
"""

import json
import math
import os
import random

EXAMPLES, VALUES = 160, 6


def area(examples):
    """Of the weighted pairs of a positive and a negative, those in order."""
    right = pairs = 0
    for score, label, weight in examples:
        for other, its_label, its_weight in examples:
            if label == 1 and its_label == 0:
                pairs += weight * its_weight
                right += weight * its_weight * (
                    1 if other < score else 0.5 if other == score else 0)
    return right / pairs if pairs else None


def entropy(share):
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def measured(examples):
    """By name, of (score, label, weight) of some examples."""
    def mean(value):
        return (sum(w * value(z, y) for z, y, w in examples)
                / sum(w for _, _, w in examples))

    def probability(z):
        return 1 / (1 + math.exp(-z))

    def nats(z, y):
        return -math.log(probability(z) if y else 1 - probability(z))

    share = mean(lambda z, y: y)
    return {
        "examples": len(examples),
        # Over the number of examples, not over the sum of their weights.
        "loss": sum(w * nats(z, y) for z, y, w in examples) / len(examples),
        "accuracy": mean(lambda z, y: (z > 0) == (y == 1)),
        "auc": area(examples),
        "normalised_entropy":
            mean(nats) / entropy(share) if 0 < share < 1 else None,
        "calibration":
            mean(lambda z, y: probability(z)) / share if share else None,
    }


def main():
    drawn = random.Random(39)
    examples = []
    for _ in range(EXAMPLES):
        score = drawn.randrange(-12, 12) / 4 + 0.125
        device = drawn.choice([0, 1, 2, 4, 5])
        label = int(device != 4 and score + drawn.gauss(0, 2) > 0)
        examples.append((score, label, drawn.randint(1, 8) / 4, device))

    def by_device(weighted):
        return {str(device): measured(
            [(z, y, w if weighted else 1) for z, y, w, d in examples
             if d == device]) for device in (0, 1, 2, 4, 5)}

    scores, labels, weights, devices = zip(*examples)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "slices_vectors.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"values": VALUES, "scores": scores, "labels": labels,
                   "devices": devices, "weights": weights,
                   "plain": by_device(weighted=False),
                   "weighted": by_device(weighted=True)}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
