"""Finds the items that a two-tower model expects users to click.

    paramd checkpoint export runs/two-tower-1 --to towers
    python3 examples/retrieve_items.py towers /tmp/clicks [--users N] [--count N]

Reads what config/examples/two_tower.json learned of a click log: the columns
field_0 to field_3 are a user, field_4 to field_7 an item. All items of test.csv
become vectors, once; a user's vector times these are their scores, which any index
of nearest neighbours by inner product can find as well. A score s is a click's
probability 1 / (1 + exp(-s)).
"""

import argparse
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

    def __init__(self, directory):
        self.weights = read_export(directory)

    def dense(self, name, values):
        return values @ self.weights[f"{name}/kernel"] + \
            self.weights[f"{name}/bias"]

    def vectors(self, tower, rows):
        """[rows, width] of tower 0, users, or 1, items."""
        name = TOWERS[tower]
        table = self.weights[f"{name}s/table"]
        salts = [stable_hash(column) for column in FIELDS[tower]]
        numbers = np.array([[stable_hash(text, salt) % len(table)
                             for text, salt in zip(row, salts)]
                            for row in rows])
        values = table[numbers].reshape(len(rows), -1)
        values = np.maximum(self.dense(f"{name}_hidden", values), 0)
        return self.dense(name, values)


def read_log(path):
    """The users and the items of its rows."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [[tuple(row[column] for column in columns) for row in rows]
            for columns in FIELDS]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("directory")
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--count", type=int, default=5)
    args = parser.parse_args()
    towers = Towers(args.export)
    users, items = read_log(os.path.join(args.directory, "test.csv"))
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
