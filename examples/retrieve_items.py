"""Finds the items that a two-tower model expects users to click, or to choose.

    paramd checkpoint export runs/two-tower-1 --to towers
    python3 examples/retrieve_items.py towers /tmp/clicks [--users N] [--count N]

Reads what config/examples/two_tower.json learned of a click log: the columns
field_0 to field_3 are a user, field_4 to field_7 an item. All items of test.csv
become vectors, once; a user's vector times these are their scores, which any index
of nearest neighbours by inner product can find as well. A score s is a click's
probability 1 / (1 + exp(-s)).

    paramd checkpoint export runs/retrieval-1 --to towers
    python3 examples/retrieve_items.py towers /tmp/choices --user user --item item
        --recall 10

With --user and --item the columns are those: of config/examples/retrieval.json's log
of choices one each. --recall K prints in place of items the share of the rows of
test.csv whose item is among its user's K best of all items of train.csv and test.csv
(recall@K), and the same of the K items that train.csv has most often.
"""

import argparse
import collections
import csv
import json
import os

import numpy as np

TOWERS = ["user", "item"]
FIELDS = [[f"field_{f}" for f in range(4)], [f"field_{f}" for f in range(4, 8)]]
MASK = 2 ** 64 - 1


def read_export(directory):
    """The variables of an export by their names."""
    with open(os.path.join(directory, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    return {name: np.frombuffer(data[slice(*info["data_offsets"])],
                                "<f4").reshape(info["shape"])
            for name, info in header.items() if name != "__metadata__"}


def stable_hash(text, seed=0):
    """As csv.hash_buckets: FNV-1a of 64 bits, its start moved by a seed."""
    value = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 & MASK)
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


class Towers:
    """The two towers of an export: texts of four columns to vectors."""

    def __init__(self, directory, fields=FIELDS):
        self.weights = read_export(directory)
        self.fields = fields

    def dense(self, name, values):
        return values @ self.weights[f"{name}/kernel"] + \
            self.weights[f"{name}/bias"]

    def vectors(self, tower, rows):
        """[rows, width] of tower 0, users, or 1, items."""
        name = TOWERS[tower]
        table = self.weights[f"{name}s/table"]
        salts = [stable_hash(column) for column in self.fields[tower]]
        numbers = np.array([[stable_hash(text, salt) % len(table)
                             for text, salt in zip(row, salts)]
                            for row in rows])
        values = table[numbers].reshape(len(rows), -1)
        values = np.maximum(self.dense(f"{name}_hidden", values), 0)
        return self.dense(name, values)


def read_log(path, fields=FIELDS):
    """The users and the items of its rows."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [[tuple(row[column] for column in columns) for row in rows]
            for columns in fields]


def recall(towers, directory, count):
    """recall@count of the towers, and of the most popular items."""
    train = read_log(os.path.join(directory, "train.csv"), towers.fields)[1]
    users, chosen = read_log(os.path.join(directory, "test.csv"),
                             towers.fields)
    times = collections.Counter(train)
    items = sorted(set(train) | set(chosen))
    popular = {item for item, _ in times.most_common(count)}
    vectors = towers.vectors(1, items)
    chosen_by = collections.defaultdict(list)
    for user, item in zip(users, chosen):
        chosen_by[user].append(item)
    found = 0
    for user, of_user in chosen_by.items():
        scores = vectors @ towers.vectors(0, [user])[0]
        best = {items[i] for i in np.argsort(-scores, kind="stable")[:count]}
        found += sum(item in best for item in of_user)
    return (found / len(chosen),
            sum(item in popular for item in chosen) / len(chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("directory")
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--user", nargs="+", default=FIELDS[0],
                        metavar="COLUMN")
    parser.add_argument("--item", nargs="+", default=FIELDS[1],
                        metavar="COLUMN")
    parser.add_argument("--recall", type=int, metavar="K")
    args = parser.parse_args()
    fields = [args.user, args.item]
    towers = Towers(args.export, fields)
    if args.recall:
        ours, popular = recall(towers, args.directory, args.recall)
        print(f"recall@{args.recall} {ours:.4f}, of the most popular items "
              f"{popular:.4f}")
        return
    users, items = read_log(os.path.join(args.directory, "test.csv"), fields)
    users = list(dict.fromkeys(users))[:args.users]
    items = list(dict.fromkeys(items))
    scores = towers.vectors(0, users) @ towers.vectors(1, items).T
    for user, row in zip(users, scores):
        best = np.argsort(-row, kind="stable")[:args.count]
        print(f"user {' '.join(user)}: " + ", ".join(
            f"{' '.join(items[i])} {1 / (1 + np.exp(-row[i])):.3f}"
            for i in best))


if __name__ == "__main__":
    main()
