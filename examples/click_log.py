"""Writes a click log whose best possible AUC is known.

    python3 examples/click_log.py DIRECTORY [--train N] [--test N] [--seed S]
        [--keys N] [--vectors N] [--fields N] [--numbers N] [--criteo]
        [--buys] [--drift D] [--delay D]

Each example has eight fields, or so many: keys drawn from a Zipf distribution of
exponent 1.1 over 10,000 each, or so many, written as texts. A key has a true weight,
drawn from a normal distribution; an example is clicked with the probability
1 / (1 + exp(-(bias + the sum of its weights))). With --vectors a key also has a vector
of so many numbers, and the products of each two of an example's vectors are added to
the sum: a linear model can't learn these. With --numbers it has so many real numbers,
too, before its fields, of a normal distribution: their squares have weights. So nobody
can rank the test set better than by these probabilities: their AUC is printed, as JSON,
and written to best.json, with their normalised entropy.

With --criteo the files are as Criteo distributes its own, train.txt and test.txt: tabs
and no header; the click, 13 counts and 26 keys of eight hexadecimal digits. A tenth of
the counts is missing, and one key of each field. What has a weight is the square of
log(1 + count) - 2; a count that is missing weighs as 0.

With --buys some clicks lead to a purchase, which a column "buy" beside the click says: a
key has a second weight, half of it the first one's, and who clicks buys with the
probability 1 / (1 + exp(-(bias + the sum of these))). The best AUC of buys, among all
examples, is that of the product of both probabilities.

With --drift the weights of keys move while the log is written, the test set after the
examples to train on: a weight is cos(a) of what it was at first and sin(a) of another one,
and the angle a grows evenly to D right angles. With 1 the last weights have nothing to do
with the first. Those of products, of numbers and of buys stay.

With --delay there is a file train_events.txt, too: what a topic would have been sent, one
message a line, its key before a colon. An example is sent as a row of train.csv whose click
is 0, since nobody knows it yet; its click follows as "click,", with the same key, after an
exponentially distributed number of further examples, D in the mean. So train.csv has the
labels that a join finds which waits for every click. best.json says how many messages
behind its example half of the clicks come, and 90 and 99 of a hundred: a window of so many
messages, of one partition, finds these.
"""

import argparse
import csv
import functools
import json
import os

import numpy as np

EXPONENT = 1.1
BIAS = -1.0
BUY_BIAS = -0.5
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


def normalised_entropy(probability, labels):
    """The cross entropy, over that of who knows how many are clicked."""
    def entropy(p):
        return -np.where(labels == 1, np.log(p), np.log(1 - p)).mean()
    return entropy(probability) / entropy(np.full(len(labels), labels.mean()))


def draw_numbers(random, shape, criteo):
    """As they are written, NaN for none, and what they are squared as."""
    normal = random.normal(0, 1, shape).round(3)
    if not criteo:
        return normal, normal
    counts = np.expm1(np.maximum(2 + normal, 0)).round()
    counts[random.random(shape) < 0.1] = np.nan
    return counts, np.log1p(np.nan_to_num(counts)) - 2


def draw(random, weights, vectors, of_squares, count, criteo):
    """Keys [count, fields], numbers, probabilities and clicks. `weights`: a function of
    keys, which gives the sum of each example's."""
    fields = range(len(vectors))
    shares = np.cumsum(np.arange(1, vectors.shape[1] + 1) ** -EXPONENT)
    keys = np.searchsorted(shares,
                           random.random((count, len(vectors))) * shares[-1])
    score = BIAS + weights(keys)
    if vectors.shape[2]:
        total = sum(vectors[f, keys[:, f]] for f in fields)
        own = sum((vectors[f, keys[:, f]] ** 2).sum(1) for f in fields)
        score += ((total ** 2).sum(1) - own) / 2
    numbers, of_score = draw_numbers(random, (count, len(of_squares)), criteo)
    score += (of_score ** 2 - 1) @ of_squares
    probability = 1 / (1 + np.exp(-score))
    clicks = (random.random(count) < probability).astype(int)
    return keys, numbers, probability, clicks


def sum_of(weights, keys):
    """The sum of each example's weights."""
    return sum(weights[f, keys[:, f]] for f in range(len(weights)))


def moving(first, last, angles):
    """The same of weights that turn from `first` to `last`, by an angle for each."""
    return lambda keys: (np.cos(angles) * sum_of(first, keys)
                         + np.sin(angles) * sum_of(last, keys))


def draw_buys(random, weights, keys, clicks):
    """Of those who click the probability that they buy, and who does."""
    score = BUY_BIAS + sum_of(weights, keys)
    probability = 1 / (1 + np.exp(-score))
    return probability, clicks * (random.random(len(clicks)) < probability)


def write(path, keys, numbers, said):
    """`said`: by the names of the first columns."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(list(said)
                     + [f"number_{n}" for n in range(numbers.shape[1])]
                     + [f"field_{f}" for f in range(keys.shape[1])])
        for row, beside, first in zip(keys, numbers, zip(*said.values())):
            out.writerow(list(first) + [f"{number:g}" for number in beside]
                         + [f"{key:x}" for key in row])


def write_events(random, path, rows, clicks, delay):
    """Examples, `rows` of text, and their clicks that come later. Returns the numbers of
    messages behind which half of the clicks come, and 90 and 99 of a hundred."""
    clicked = np.flatnonzero(clicks)
    times = np.concatenate([np.arange(len(rows)), clicked
                            + random.exponential(delay, len(clicked))])
    order = np.argsort(times, kind="stable")
    with open(path, "w", encoding="utf-8") as file:
        for event in order:
            if event < len(rows):
                file.write(f"{event}:{rows[event]}\n")
            else:
                file.write(f"{clicked[event - len(rows)]}:click,\n")
    places = np.empty(len(order), int)
    places[order] = np.arange(len(order))
    behind = places[len(rows):] - places[clicked]
    return [int(np.ceil(q)) for q in np.quantile(behind, [0.5, 0.9, 0.99])]


def unlabelled(path):
    """The rows of a file that `write` wrote, as long as nobody knows their clicks."""
    with open(path, encoding="utf-8") as file:
        next(file)
        return ["0," + row.strip().split(",", 1)[1] for row in file]


def write_criteo(path, keys, counts, clicks):
    with open(path, "w", encoding="utf-8") as file:
        for row, beside, click in zip(keys, counts, clicks):
            texts = [str(click)]
            texts += ["" if np.isnan(count) else f"{count:.0f}"
                      for count in beside]
            texts += ["" if key == 0 else f"{key:08x}" for key in row]
            file.write("\t".join(texts) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--train", type=int, default=400_000)
    parser.add_argument("--test", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--vectors", type=int, default=0)
    parser.add_argument("--fields", type=int)
    parser.add_argument("--numbers", type=int)
    parser.add_argument("--criteo", action="store_true")
    parser.add_argument("--buys", action="store_true")
    parser.add_argument("--drift", type=float, default=0.0)
    parser.add_argument("--delay", type=float, default=0.0)
    args = parser.parse_args()
    if args.criteo and args.buys:
        parser.error("--buys is not for Criteo's form")
    if args.delay and (args.criteo or args.buys):
        parser.error("--delay is for clicks alone, in the plain form")
    if args.fields is None:
        args.fields = 26 if args.criteo else 8
    if args.numbers is None:
        args.numbers = 13 if args.criteo else 0
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
    if args.buys:
        of_buys = (weights
                   + random.normal(0, deviation * 3 ** 0.5, weights.shape)) / 2
    if args.drift:
        others = random.normal(0, deviation, weights.shape)
        angles = np.linspace(0, args.drift * np.pi / 2, args.train + args.test)
    os.makedirs(args.directory, exist_ok=True)
    for name, count in (("train", args.train), ("test", args.test)):
        of_keys = functools.partial(sum_of, weights)
        if args.drift:
            of_keys = moving(weights, others, angles[:count])
            angles = angles[count:]
        keys, numbers, probability, clicks = draw(random, of_keys, vectors,
                                                  of_squares, count,
                                                  args.criteo)
        path = os.path.join(args.directory, name)
        said = {"click": clicks}
        if args.buys:
            then, said["buy"] = draw_buys(random, of_buys, keys, clicks)
        if args.criteo:
            write_criteo(path + ".txt", keys, numbers, clicks)
        else:
            write(path + ".csv", keys, numbers, said)
        if args.delay and name == "train":
            behind = write_events(np.random.default_rng([args.seed, 1]),
                                  path + "_events.txt",
                                  unlabelled(path + ".csv"), clicks, args.delay)
    best = {"auc": area(probability, clicks), "clicked": float(clicks.mean()),
            "normalised_entropy": normalised_entropy(probability, clicks)}
    if args.buys:
        best["buy_auc"] = area(probability * then, said["buy"])
        best["bought"] = float(said["buy"].mean())
    if args.delay:
        best["messages_to_click"] = behind
    with open(os.path.join(args.directory, "best.json"), "w",
              encoding="utf-8") as file:
        json.dump(best, file)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
