"""Makes outputs_vectors.json, what a network with two outputs behind a mixture
of experts (MMoE) is compared with.

    python3 -m venv VENV && VENV/bin/pip install torch numpy
    VENV/bin/python compute/model/outputs_vectors.py

It has values of variables, a batch whose examples have weights, and what
PyTorch finds for them in float64: the loss, its parts, the predictions and the
gradients. All inputs are exact in float32.
"""

import json
import os

import numpy as np
import torch

RANDOM = np.random.default_rng(39)
EXAMPLES, WIDTH, HIDDEN, EXPERTS, VALUES, STARS = 8, 5, 6, 3, 4, 3
STARS_WEIGHT = 0.5


def drawn(*shape):
    return torch.tensor(RANDOM.integers(-32, 33, shape) / 32,
                        dtype=torch.float64, requires_grad=True)


def dense(inputs, outputs):
    return drawn(inputs, outputs), drawn(outputs)


# As paramd names them: the experts are dense_2 to dense_4.
LAYERS = {
    "dense_1": dense(WIDTH, HIDDEN),
    "mixture_1": dense(HIDDEN, 2 * EXPERTS),
    "dense_2": dense(HIDDEN, VALUES),
    "dense_3": dense(HIDDEN, VALUES),
    "dense_4": dense(HIDDEN, VALUES),
    "dense_5": dense(VALUES, 3),
    "dense_6": dense(3, 1),
    "dense_7": dense(VALUES, STARS),
}


def apply(name, x):
    kernel, bias = LAYERS[name]
    return x @ kernel + bias


def main():
    x = drawn(EXAMPLES, WIDTH).detach()
    click = torch.tensor(RANDOM.integers(0, 2, EXAMPLES), dtype=torch.float64)
    stars = torch.tensor(RANDOM.integers(0, STARS, EXAMPLES))
    weight = torch.tensor(RANDOM.integers(0, 9, EXAMPLES) / 4,
                          dtype=torch.float64)

    shared = torch.tanh(apply("dense_1", x))
    experts = torch.stack(
        [torch.tanh(apply(f"dense_{2 + e}", shared)) for e in range(EXPERTS)],
        dim=1)
    gates = torch.softmax(
        apply("mixture_1", shared).reshape(EXAMPLES, 2, EXPERTS), dim=2)
    mixed = gates @ experts
    of_click = apply("dense_6", torch.tanh(apply("dense_5", mixed[:, 0])))
    of_stars = apply("dense_7", mixed[:, 1])

    click_loss = (weight * torch.nn.functional.binary_cross_entropy_with_logits(
        of_click[:, 0], click, reduction="none")).sum() / EXAMPLES
    stars_loss = torch.nn.functional.cross_entropy(of_stars, stars)
    loss = click_loss + STARS_WEIGHT * stars_loss
    loss.backward()

    def numbers(tensor):
        return tensor.detach().numpy().ravel().tolist()

    named = {f"{layer}/{part}": tensor
             for layer, parts in LAYERS.items()
             for part, tensor in zip(("kernel", "bias"), parts)}
    path = os.path.join(os.path.dirname(__file__), "outputs_vectors.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({
            "x": numbers(x), "click": numbers(click), "stars": numbers(stars),
            "weight": numbers(weight),
            "variables": {name: numbers(t) for name, t in named.items()},
            "loss": float(loss.detach()),
            "click_loss": float(click_loss.detach()),
            "stars_loss": float(stars_loss.detach()),
            "click_prediction": numbers(torch.sigmoid(of_click)),
            "stars_prediction": numbers(torch.softmax(of_stars, dim=1)),
            "gradients": {name: numbers(t.grad) for name, t in named.items()},
        }, file)
        file.write("\n")


if __name__ == "__main__":
    main()
