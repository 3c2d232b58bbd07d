"""Writes a click log whose best possible AUC is known.

    python3 examples/click_log.py DIRECTORY [--train N] [--test N] [--seed S]
        [--keys N] [--vectors N]

Each example has eight fields: keys drawn from a Zipf distribution of exponent 1.1
over 10,000 each, or so many, written as texts. A key has a true weight, drawn from
a normal distribution; an example is clicked with the probability 1 / (1 +
exp(-(bias + the sum of its weights))). With --vectors a key also has a vector of so
many numbers, and the products of each two of an example's vectors are added to the
sum: a linear model can't learn these. So nobody can rank the test set better than
by these probabilities: their AUC is printed, as JSON, and written to best.json.
"""

import argparse
import csv
import json
import os

import numpy as np

FIELDS = 8
EXPONENT = 1.1
BIAS = -1.0
DEVIATION = 0.6


def area(scores, labels):
    """The share of (clicked, not clicked) pairs that are ranked right."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    clicked = labels.sum()
    rest = len(labels) - clicked
    return ((ranks[labels == 1].sum() - clicked * (clicked + 1) / 2)
            / (clicked * rest))


def draw(random, weights, vectors, count):
    """Keys [count, FIELDS], probabilities and clicks."""
    shares = np.cumsum(np.arange(1, weights.shape[1] + 1) ** -EXPONENT)
    keys = np.searchsorted(shares, random.random((count, FIELDS)) * shares[-1])
    score = BIAS + sum(weights[f, keys[:, f]] for f in range(FIELDS))
    if vectors.shape[2]:
        total = sum(vectors[f, keys[:, f]] for f in range(FIELDS))
        own = sum((vectors[f, keys[:, f]] ** 2).sum(1) for f in range(FIELDS))
        score += ((total ** 2).sum(1) - own) / 2
    probability = 1 / (1 + np.exp(-score))
    return keys, probability, (random.random(count) < probability).astype(int)


def write(path, keys, clicks):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["click"] + [f"field_{f}" for f in range(FIELDS)])
        for row, click in zip(keys, clicks):
            out.writerow([click] + [f"{key:x}" for key in row])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--train", type=int, default=400_000)
    parser.add_argument("--test", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--vectors", type=int, default=0)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    weights = random.normal(0, DEVIATION, (FIELDS, args.keys))
    # Products of two weigh as much, all together, as the sum of the weights.
    pairs = FIELDS * (FIELDS - 1) / 2 * max(args.vectors, 1)
    each = (DEVIATION ** 2 * FIELDS / pairs) ** 0.25
    vectors = random.normal(0, each, (FIELDS, args.keys, args.vectors))
    os.makedirs(args.directory, exist_ok=True)
    for name, count in (("train", args.train), ("test", args.test)):
        keys, probability, clicks = draw(random, weights, vectors, count)
        write(os.path.join(args.directory, f"{name}.csv"), keys, clicks)
    best = {"auc": area(probability, clicks), "clicked": float(clicks.mean())}
    with open(os.path.join(args.directory, "best.json"), "w",
              encoding="utf-8") as file:
        json.dump(best, file)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
