"""Writes a log of what users chose, and nothing else, whose best recall is known.

    python3 examples/choice_log.py DIRECTORY [--train N] [--test N] [--users N]
        [--items N] [--seed S]

A row is a user, an item that the user chose, and how often that item was chosen in
train.csv (1 where it never was): columns user, item, count. Items that were not chosen
are not in it. A user and an item have a true vector of a normal distribution each; a user
chooses an item with a probability in proportion to its popularity, of a Zipf distribution
of exponent 1, times exp(the product of both vectors). So nobody can find more of a user's
next choices among ten items than by these probabilities. Their recall@10 on the test set
and that of the ten most popular items are printed, as JSON, and written to best.json.
"""

import argparse
import csv
import json
import os

import numpy as np

WIDTH = 6
DEVIATION = 0.9  # Of numbers of true vectors.


def recall(scores, users, items, count=10):
    """The share of the choices that are among the best `count` of their user.

    `scores` are [users, items], or [items] for all users alike.
    """
    scores = np.atleast_2d(scores)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    found = best[users % len(best)] == items[:, None]
    return float(found.any(axis=1).mean())


def draw(random, probabilities, count):
    """Users, each as likely, and what they choose."""
    users = random.integers(0, len(probabilities), count)
    upto = np.cumsum(probabilities, axis=1)
    items = np.empty(count, np.int64)
    for user in np.unique(users):
        mine = users == user
        items[mine] = np.searchsorted(
            upto[user], random.random(mine.sum()) * upto[user, -1])
    return users, items


def write(path, users, items, counts):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "item", "count"])
        for user, item in zip(users, items):
            out.writerow([f"u{user}", f"i{item}", max(counts[item], 1)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--train", type=int, default=200_000)
    parser.add_argument("--test", type=int, default=20_000)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    popularity = random.permutation(1 / np.arange(1, args.items + 1))
    of_users = random.normal(0, DEVIATION, (args.users, WIDTH))
    of_items = random.normal(0, DEVIATION, (args.items, WIDTH))
    probabilities = popularity * np.exp(of_users @ of_items.T)
    os.makedirs(args.directory, exist_ok=True)
    counts = None
    for name, count in (("train", args.train), ("test", args.test)):
        users, items = draw(random, probabilities, count)
        if counts is None:
            counts = np.bincount(items, minlength=args.items)
        write(os.path.join(args.directory, name + ".csv"), users, items,
              counts)
    best = {"recall": recall(probabilities, users, items),
            "of_popular": recall(counts, users, items)}
    with open(os.path.join(args.directory, "best.json"), "w",
              encoding="utf-8") as file:
        json.dump(best, file)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
