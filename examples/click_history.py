"""Writes a click log of users with a history, whose best possible AUC is known.

    python3 examples/click_history.py DIRECTORY [--train N] [--test N] [--users N]
        [--seed S]

There are 20 kinds of 10 items each, and each user likes three kinds. An example is an
item that somebody is shown: half of the time one of a kind that the user likes. The
history are up to 16 items that the user chose before, the newest first, most of them of
the kinds that the user likes. The item is clicked with the probability 1 / (1 +
exp(-s)), where s is the sum of a bias, of true weights of the item, the hour and the
place, and of 1.2 for each item of the same kind in the history, up to four. So nobody can
rank the test set better than by these probabilities: their AUC and the mean of the users'
AUCs, by the number of their examples, are printed, as JSON, and written to best.json.

Columns: user, click, hour, place, item, history, whose items are separated by |.
"""

import argparse
import csv
import json
import os

import numpy as np

from click_log import area

KINDS, ITEMS, LIKED = 20, 10, 3
LONGEST = 16
HOURS, PLACES = 24, 10
BIAS, PULL, MOST = -2.5, 1.2, 4
DEVIATION = 0.5


def area_of_users(scores, labels, users):
    """The mean of users' areas, by their examples; without those of one kind."""
    total = counted = 0
    for user in np.unique(users):
        mine = users == user
        if 0 < labels[mine].sum() < mine.sum():
            total += mine.sum() * area(scores[mine], labels[mine])
            counted += mine.sum()
    return total / counted


def draw(random, liked, weights, count):
    """Users, hours, places, items, histories [count, LONGEST] with -1 behind the
    last, probabilities and clicks."""
    users = random.integers(0, len(liked), count)

    def kinds(shape, share):
        """Kinds that the users like, in this share of the places, or any."""
        of_users = liked[users.reshape(-1, *[1] * (len(shape) - 1)),
                         random.integers(0, LIKED, shape)]
        return np.where(random.random(shape) < share, of_users,
                        random.integers(0, KINDS, shape))

    kind = kinds((count,), 0.5)
    item = kind * ITEMS + random.integers(0, ITEMS, count)
    chosen = kinds((count, LONGEST), 0.8)
    length = random.integers(0, LONGEST + 1, (count, 1))
    there = np.arange(LONGEST) < length
    history = np.where(
        there, chosen * ITEMS + random.integers(0, ITEMS, chosen.shape), -1)
    matches = ((chosen == kind[:, None]) & there).sum(1)
    hour, place = (random.integers(0, n, count) for n in (HOURS, PLACES))
    score = (BIAS + weights["item"][item] + weights["hour"][hour] +
             weights["place"][place] + PULL * np.minimum(matches, MOST))
    probability = 1 / (1 + np.exp(-score))
    return (users, hour, place, item, history, probability,
            (random.random(count) < probability).astype(int))


def write(path, users, hour, place, item, history, clicks):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "click", "hour", "place", "item", "history"])
        for row in zip(users, clicks, hour, place, item, history):
            before = "|".join(str(one) for one in row[-1] if one >= 0)
            out.writerow([*row[:-1], before])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--train", type=int, default=400_000)
    parser.add_argument("--test", type=int, default=50_000)
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    liked = np.array([random.choice(KINDS, LIKED, replace=False)
                      for _ in range(args.users)])
    weights = {name: random.normal(0, DEVIATION, n) for name, n in (
        ("item", KINDS * ITEMS), ("hour", HOURS), ("place", PLACES))}
    os.makedirs(args.directory, exist_ok=True)
    for name, count in (("train", args.train), ("test", args.test)):
        *columns, probability, clicks = draw(random, liked, weights, count)
        write(os.path.join(args.directory, f"{name}.csv"), *columns, clicks)
    best = {"auc": area(probability, clicks),
            "group_auc": area_of_users(probability, clicks, columns[0]),
            "clicked": float(clicks.mean())}
    with open(os.path.join(args.directory, "best.json"), "w",
              encoding="utf-8") as file:
        json.dump(best, file)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
