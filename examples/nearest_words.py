"""Prints the words whose vectors lie nearest to those of others.

    paramd checkpoint export runs/word-vectors-1 --to vectors
    python3 examples/nearest_words.py vectors /tmp/words/words.txt WORD ... [--count N]

Reads what config/examples/word_vectors.json learned and the vocabulary that
examples/word_pairs.py wrote. Nearness is the cosine of two vectors: 1 where they
point the same way.
"""

import argparse
import json
import os

import numpy as np

TABLE = "embedding_1/table"


def read_table(directory):
    """The table of an export, [rows, width]."""
    with open(os.path.join(directory, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        first, last = header[TABLE]["data_offsets"]
        file.seek(start + first)
        return np.frombuffer(file.read(last - first), "<f4").reshape(
            header[TABLE]["shape"])


class Words:
    """The vectors of the words of a vocabulary, of length 1."""

    def __init__(self, directory, vocabulary):
        with open(vocabulary, encoding="utf-8") as file:
            self.words = file.read().split()
        self.number = {word: n for n, word in enumerate(self.words)}
        vectors = read_table(directory)[:len(self.words)]
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def nearness(self, word, other):
        return float(self.vectors[self.number[word]] @
                     self.vectors[self.number[other]])

    def nearest(self, word, count):
        """(nearness, word) of so many others, the nearest first."""
        nearness = self.vectors @ self.vectors[self.number[word]]
        nearness[self.number[word]] = -np.inf
        return [(float(nearness[n]), self.words[n])
                for n in np.argsort(-nearness, kind="stable")[:count]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("vocabulary")
    parser.add_argument("word", nargs="+")
    parser.add_argument("--count", type=int, default=8)
    args = parser.parse_args()
    words = Words(args.export, args.vocabulary)
    for word in args.word:
        if word not in words.number:
            parser.error(f"'{word}' is not in the vocabulary {args.vocabulary}")
        print(f"{word}: " + ", ".join(
            f"{other} {nearness:.2f}"
            for nearness, other in words.nearest(word, args.count)))


if __name__ == "__main__":
    main()
