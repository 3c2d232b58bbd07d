"""Writes pairs of words to learn word vectors from.

    python3 examples/word_pairs.py DIRECTORY [--text PATH ...] [--words N]
        [--vocabulary N] [--window N] [--negatives N] [--subsample T] [--seed S]

Skip-gram with negative sampling (Mikolov et al., NIPS 2013). Reads texts, by
default what Debian has installed: licences, the documentation of Perl and Python
in their modules, then texts of packages and manual pages, until there are --words
of them; of equal paragraphs one. Each word is paired with words before and behind
it in its paragraph, up to a distance that is drawn from 1 to --window: a true
pair. For each true pair there are --negatives others, whose second word is drawn
from all, by the power 3/4 of their counts. A word of share f of the text is left
out with the probability
1 - sqrt(t / f), t from --subsample.

Written are, of a 50th of the paragraphs for the test and the others to train:

    train-words.npy, test-words.npy    [pairs, 2] int32
    train-labels.npy, test-labels.npy  [pairs] float32: 1 of a true pair, else 0
    words.txt                          the vocabulary, the most frequent word first

Word n of the vocabulary, from 0, is n where it is the first of a pair, and
--vocabulary + n where it is the second: it has a vector of its own in each place.
The job's "classes" are twice the vocabulary.
"""

import argparse
import collections
import glob
import gzip
import hashlib
import json
import os
import re

import numpy as np

TEXTS = ["/usr/share/common-licenses", "/usr/share/perl",
         *sorted(glob.glob("/usr/lib/python3.*")), "/usr/lib/python3",
         "/usr/share/doc", "/usr/share/man"]
TEST_SHARE = 50
LEAST_COUNT = 5  # Of a word that gets a vector.
LONGEST = 100  # Words of a paragraph; a longer one is divided.

_POD = re.compile(r"^=(?!cut)[a-z].*?(?=^=cut|\Z)", re.M | re.S)
_GROFF_ESCAPE = re.compile(r"\\(f(\(..|\[[^]]*\]|.)|\*?\(..|[-&|^/,:%])")
_GROFF_REQUEST = re.compile(r"^[.'](?:[BIRS]+ )?.*$", re.M)
_POD_CODE = re.compile(r"[A-Z]<+ ?|^=\w+", re.M)
_PYTHON_TEXT = re.compile(r'"""(.*?)"""|((?:^ *#.*\n)+)', re.M | re.S)
_WORD = re.compile(r"[a-z]+")


def manual_page(text):
    """The sentences of one; what it asks groff to do separates paragraphs."""
    return _GROFF_REQUEST.sub("\n", _GROFF_ESCAPE.sub("", text))


def documentation(text):
    """The POD of a Perl module."""
    return _POD_CODE.sub("", "\n\n".join(
        match.group() for match in _POD.finditer(text)))


def comments(text):
    """Comments and documentation of a Python module."""
    return "\n\n".join(match.group()
                       for match in _PYTHON_TEXT.finditer(text))


def reader_of(path):
    """What makes plain text of this file, or None: it is not read."""
    name = os.path.basename(path)
    if "/Unicode/" in path:  # Tables of characters.
        return None
    if re.search(r"\.[1-9]\w*\.gz$", name):
        return manual_page
    if name.endswith((".pm", ".pod")):
        return documentation
    if name.endswith(".py"):
        return comments
    if name == "copyright" or name.endswith((".txt", ".txt.gz")) or \
            re.match(r"(README|NEWS|FAQ)[^/]*$", name) or \
            "common-licenses" in path:
        return str
    return None


def files_of(paths):
    """Files, in an order that depends on their names alone."""
    for path in paths:
        if os.path.isfile(path):
            yield path, reader_of(path) or str
        for directory, below, names in os.walk(path):
            # Translations of manual pages.
            below[:] = sorted(d for d in below if "/man/" not in
                              f"{directory}/{d}" or re.match(r"man\d", d))
            for name in sorted(names):
                file = os.path.join(directory, name)
                if reader_of(file) and os.path.isfile(file):
                    yield file, reader_of(file)


def paragraphs_of(paths, most):
    """Lists of words, of equal ones the first, together `most` words or so."""
    seen = set()
    count = 0
    for path, plain in files_of(paths):
        opened = gzip.open if path.endswith(".gz") else open
        with opened(path, "rb") as file:
            text = plain(file.read().decode("utf-8", "replace"))
        for paragraph in re.split(r"\n\s*\n", text):
            words = _WORD.findall(paragraph.lower())
            key = hashlib.blake2b(" ".join(words).encode(), digest_size=8)
            if len(words) < 2 or key.digest() in seen:
                continue
            seen.add(key.digest())
            for start in range(0, len(words), LONGEST):
                yield words[start:start + LONGEST]
            count += len(words)
            if count >= most:
                return


def pairs_of(words, paragraph, random, window):
    """True pairs, [pairs, 2], of words and the numbers of their paragraphs."""
    reach = random.integers(1, window + 1, len(words))
    found = []
    for distance in range(1, window + 1):
        near = paragraph[:-distance] == paragraph[distance:]
        for centre, context, reached in (
                (words[:-distance], words[distance:], reach[:-distance]),
                (words[distance:], words[:-distance], reach[distance:])):
            taken = near & (reached >= distance)
            found.append(np.stack([centre[taken], context[taken]], 1))
    return np.concatenate(found)


def write(prefix, true, drawn, random, args):
    """The true pairs and others, which are drawn by sums of weights, `drawn`."""
    pairs = np.tile(true, (1 + args.negatives, 1))
    negatives = pairs[len(true):, 1]
    negatives[:] = np.searchsorted(
        drawn, random.random(len(negatives)) * drawn[-1], side="right")
    pairs[:, 1] += args.vocabulary
    labels = np.zeros(len(pairs), np.float32)
    labels[:len(true)] = 1
    np.save(f"{prefix}-words.npy", pairs)
    np.save(f"{prefix}-labels.npy", labels)
    return len(pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--text", nargs="+", default=TEXTS)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--subsample", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)

    texts = list(paragraphs_of(args.text, args.words))
    counts = collections.Counter(word for text in texts for word in text)
    kept = sorted((word for word in counts if counts[word] >= LEAST_COUNT),
                  key=lambda word: (-counts[word], word))[:args.vocabulary]
    if not kept:
        parser.error(f"no word stands {LEAST_COUNT} times in what can be read "
                     f"of {' '.join(args.text)}")
    number = {word: n for n, word in enumerate(kept)}
    words, paragraph = np.array(
        [(number[word], p) for p, text in enumerate(texts) for word in text
         if word in number], np.int32).T
    frequency = np.bincount(words, minlength=len(kept))
    share = frequency / len(words)
    stays = random.random(len(words)) < np.sqrt(args.subsample / share)[words]
    words, paragraph = words[stays], paragraph[stays]
    drawn = np.cumsum(frequency ** 0.75)
    of_test = random.integers(0, TEST_SHARE, len(texts))[paragraph] == 0

    os.makedirs(args.directory, exist_ok=True)
    sizes = {"words": sum(counts.values()), "vocabulary": len(kept)}
    for name, taken in (("train", ~of_test), ("test", of_test)):
        true = pairs_of(words[taken], paragraph[taken], random, args.window)
        sizes[name] = write(os.path.join(args.directory, name), true, drawn,
                            random, args)
    with open(os.path.join(args.directory, "words.txt"), "w",
              encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word in kept)
    print(json.dumps(sizes))


if __name__ == "__main__":
    main()
