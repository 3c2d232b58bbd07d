"""Writes a click log whose best possible AUC is known.

    python3 examples/click_log.py DIRECTORY [--train N] [--test N] [--seed S]
        [--keys N] [--vectors N] [--fields N] [--numbers N]

Each example has eight fields, or so many: keys drawn from a Zipf distribution of
exponent 1.1 over 10,000 each, or so many, written as texts. A key has a true weight, drawn from
a normal distribution; an example is clicked with the probability 1 / (1 +
exp(-(bias + the sum of its weights))). With --vectors a key also has a vector of so
many numbers, and the products of each two of an example's vectors are added to the
sum: a linear model can't learn these. With --numbers it has so many real numbers, too,
before its fields, of a normal distribution: their squares have weights. So nobody can rank the test set better than
by these probabilities: their AUC is printed, as JSON, and written to best.json.
"""

import argparse
import csv
import json
import os

import numpy as np

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


def draw(random, weights, vectors, of_squares, count):
    """Keys [count, fields], numbers, probabilities and clicks."""
    fields = range(len(weights))
    shares = np.cumsum(np.arange(1, weights.shape[1] + 1) ** -EXPONENT)
    keys = np.searchsorted(shares,
                           random.random((count, len(weights))) * shares[-1])
    score = BIAS + sum(weights[f, keys[:, f]] for f in fields)
    if vectors.shape[2]:
        total = sum(vectors[f, keys[:, f]] for f in fields)
        own = sum((vectors[f, keys[:, f]] ** 2).sum(1) for f in fields)
        score += ((total ** 2).sum(1) - own) / 2
    # As they are written.
    numbers = random.normal(0, 1, (count, len(of_squares))).round(3)
    score += (numbers ** 2 - 1) @ of_squares
    probability = 1 / (1 + np.exp(-score))
    clicks = (random.random(count) < probability).astype(int)
    return keys, numbers, probability, clicks


def write(path, keys, numbers, clicks):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["click"]
                     + [f"number_{n}" for n in range(numbers.shape[1])]
                     + [f"field_{f}" for f in range(keys.shape[1])])
        for row, beside, click in zip(keys, numbers, clicks):
            out.writerow([click] + [f"{number:g}" for number in beside]
                         + [f"{key:x}" for key in row])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--train", type=int, default=400_000)
    parser.add_argument("--test", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--vectors", type=int, default=0)
    parser.add_argument("--fields", type=int, default=8)
    parser.add_argument("--numbers", type=int, default=0)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    # All fields weigh as much as eight do, and so do all numbers.
    deviation = DEVIATION * (8 / args.fields) ** 0.5
    weights = random.normal(0, deviation, (args.fields, args.keys))
    # Products of two weigh as much, all together, as the sum of the weights.
    pairs = args.fields * (args.fields - 1) / 2 * max(args.vectors, 1)
    each = (deviation ** 2 * args.fields / pairs) ** 0.25
    vectors = random.normal(0, each, (args.fields, args.keys, args.vectors))
    of_squares = random.normal(0, DEVIATION * (4 / max(args.numbers, 1)) ** 0.5,
                               args.numbers)
    os.makedirs(args.directory, exist_ok=True)
    for name, count in (("train", args.train), ("test", args.test)):
        keys, numbers, probability, clicks = draw(random, weights, vectors,
                                                  of_squares, count)
        write(os.path.join(args.directory, f"{name}.csv"), keys, numbers,
              clicks)
    best = {"auc": area(probability, clicks), "clicked": float(clicks.mean())}
    with open(os.path.join(args.directory, "best.json"), "w",
              encoding="utf-8") as file:
        json.dump(best, file)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
