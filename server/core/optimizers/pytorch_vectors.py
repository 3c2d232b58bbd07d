"""Makes pytorch_vectors.txt, what the optimizers and schedules are compared with.

    python3 -m venv VENV && VENV/bin/pip install torch
    VENV/bin/python server/core/optimizers/pytorch_vectors.py

Runs PyTorch's optimizers in float32 for 100 steps and its schedules for 120, and
writes a line for each: what it is, the job file's `optimizer` as a protocol
buffer in JSON, and numbers. FTRL and LAMB are not in PyTorch: their lines follow
algorithm 1 of McMahan et al., 2013, and algorithm 2 of You et al., 2020, in tensors
of float32.
"""

import json
import os
import warnings

import torch

STEPS = 100
ELEMENTS = 4
RATE_STEPS = 120
START = [1.0, -0.5, 0.25, 2.0]


def gradient(step):
    """That of step 0, 1, ...: exact in float32."""
    return torch.tensor(
        [((step * 7 + i * 13 + step * step * (i + 1)) % 23 - 11) / 8
         for i in range(ELEMENTS)], dtype=torch.float32)


def train(make, before_step=lambda w: None):
    w = torch.nn.Parameter(torch.tensor(START, dtype=torch.float32))
    optimizer = make([w])
    seen = []
    for step in range(STEPS):
        w.grad = gradient(step)
        before_step(w)
        optimizer.step()
        if (step + 1) % 10 == 0:
            seen.extend(w.detach().tolist())
    return seen


class Ftrl:
    def __init__(self, weights, lr, initial, l1, l2, beta):
        self.w = weights[0]
        self.n = torch.full_like(self.w.data, initial)
        self.z = torch.zeros_like(self.w.data)
        self.lr, self.l1, self.l2, self.beta = lr, l1, l2, beta

    def step(self):
        g = self.w.grad
        n = self.n + g * g
        self.z += g - (n.sqrt() - self.n.sqrt()) / self.lr * self.w.data
        self.n = n
        next_w = -(self.z - self.z.sign() * self.l1) / (
            (self.beta + n.sqrt()) / self.lr + self.l2)
        self.w.data = torch.where(self.z.abs() > self.l1, next_w,
                                  torch.zeros_like(next_w))


class Lamb:
    def __init__(self, weights, lr, betas, eps, decay):
        self.w = weights[0]
        self.m = torch.zeros_like(self.w.data)
        self.v = torch.zeros_like(self.w.data)
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, decay
        self.t = 0

    def step(self):
        g, (b1, b2) = self.w.grad, self.betas
        self.t += 1
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        u = (self.m / (1 - b1 ** self.t)) / (
            (self.v / (1 - b2 ** self.t)).sqrt() + self.eps)
        u = u + self.decay * self.w.data
        self.w.data = self.w.data - self.lr * self.w.data.norm() / u.norm() * u


def rates(make, rate=0.4):
    """Of a schedule over PyTorch's SGD."""
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=rate)
    schedule = make(optimizer)
    seen = []
    for step in range(RATE_STEPS):
        seen.append(optimizer.param_groups[0]["lr"])
        if step + 1 < RATE_STEPS:
            optimizer.step()
            schedule.step()
    return seen


def warmed(make, warmup):
    """PyTorch's schedule after a linear rise."""
    lrs = torch.optim.lr_scheduler
    return lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, start_factor=1 / warmup, end_factor=1.0,
                         total_iters=warmup - 1), make(o)],
        milestones=[warmup])


def optimizers():
    o = torch.optim
    clip = torch.nn.utils
    yield {"sgd": {}}, 0.05, lambda w: o.SGD(w, lr=0.05)
    yield ({"sgd": {"momentum": 0.9}}, 0.01,
           lambda w: o.SGD(w, lr=0.01, momentum=0.9))
    yield ({"sgd": {"momentum": 0.9, "nesterov": True}}, 0.01,
           lambda w: o.SGD(w, lr=0.01, momentum=0.9, nesterov=True))
    yield ({"sgd": {"momentum": 0.9}, "weight_decay": 0.1, "decay": "DECAY_L2"},
           0.01, lambda w: o.SGD(w, lr=0.01, momentum=0.9, weight_decay=0.1))
    yield ({"adam": {"epsilon": 1e-8}}, 0.01,
           lambda w: o.Adam(w, lr=0.01, eps=1e-8))
    yield ({"adam": {"epsilon": 1e-8}, "weight_decay": 0.1,
            "decay": "DECAY_L2"}, 0.01,
           lambda w: o.Adam(w, lr=0.01, eps=1e-8, weight_decay=0.1))
    yield {"adamw": {}}, 0.01, lambda w: o.AdamW(w, lr=0.01)
    yield ({"adamw": {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.2}}, 0.01,
           lambda w: o.AdamW(w, lr=0.01, betas=(0.8, 0.95), weight_decay=0.2))
    yield ({"adam": {"epsilon": 1e-8}, "weight_decay": 0.2}, 0.01,
           lambda w: o.AdamW(w, lr=0.01, weight_decay=0.2))
    yield ({"adagrad": {"initial_accumulator": 0.1, "epsilon": 1e-10}}, 0.1,
           lambda w: o.Adagrad(w, lr=0.1, initial_accumulator_value=0.1,
                               eps=1e-10))
    yield {"rmsprop": {}}, 0.01, lambda w: o.RMSprop(w, lr=0.01)
    yield ({"rmsprop": {"decay": 0.9, "momentum": 0.5}}, 0.01,
           lambda w: o.RMSprop(w, lr=0.01, alpha=0.9, momentum=0.5))
    yield ({"rmsprop": {"centered": True}}, 0.01,
           lambda w: o.RMSprop(w, lr=0.01, centered=True))
    yield ({"rmsprop": {"decay": 0.9, "momentum": 0.5, "centered": True},
            "weight_decay": 0.1, "decay": "DECAY_L2"}, 0.01,
           lambda w: o.RMSprop(w, lr=0.01, alpha=0.9, momentum=0.5,
                               centered=True, weight_decay=0.1))
    yield ({"ftrl": {"l1": 0.01, "l2": 0.02}}, 0.1,
           lambda w: Ftrl(w, 0.1, 0.1, 0.01, 0.02, 0.0))
    yield ({"ftrl": {"initial_accumulator": 1, "beta": 1, "l1": 2}}, 0.1,
           lambda w: Ftrl(w, 0.1, 1.0, 2.0, 0.0, 1.0))
    yield ({"adadelta": {"rho": 0.9, "epsilon": 1e-6}}, 1.0, o.Adadelta)
    yield ({"adadelta": {"rho": 0.8, "epsilon": 1e-3}, "weight_decay": 0.1,
            "decay": "DECAY_L2"}, 0.5,
           lambda w: o.Adadelta(w, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1))
    yield ({"lamb": {}}, 0.01,
           lambda w: Lamb(w, 0.01, (0.9, 0.999), 1e-7, 0))
    yield ({"lamb": {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6,
                     "weight_decay": 0.1}}, 0.01,
           lambda w: Lamb(w, 0.01, (0.8, 0.95), 1e-6, 0.1))
    yield ({"sgd": {}, "clip_value": 0.7}, 0.05, lambda w: o.SGD(w, lr=0.05),
           lambda w: clip.clip_grad_value_([w], 0.7))
    yield ({"sgd": {"momentum": 0.9}, "clip_norm": 1.0}, 0.05,
           lambda w: o.SGD(w, lr=0.05, momentum=0.9),
           # clip_grad_norm_ adds 1e-6 to the norm.
           lambda w: w.grad.mul_(min(1.0, 1.0 / w.grad.norm().item())))


def schedules():
    s = torch.optim.lr_scheduler
    yield {}, lambda o: s.ConstantLR(o, factor=1.0)
    yield ({"schedule": "STEP", "decay_steps": 30, "decay_factor": 0.5},
           lambda o: s.StepLR(o, step_size=30, gamma=0.5))
    yield ({"schedule": "EXPONENTIAL", "decay_steps": 1, "decay_factor": 0.95},
           lambda o: s.ExponentialLR(o, gamma=0.95))
    yield ({"schedule": "EXPONENTIAL", "decay_steps": 50, "decay_factor": 0.1},
           lambda o: s.ExponentialLR(o, gamma=0.1 ** (1 / 50)))
    yield ({"schedule": "POLYNOMIAL", "decay_steps": 100},
           lambda o: s.PolynomialLR(o, total_iters=100, power=1.0))
    yield ({"schedule": "POLYNOMIAL", "decay_steps": 100, "power": 2.5},
           lambda o: s.PolynomialLR(o, total_iters=100, power=2.5))
    yield ({"schedule": "COSINE", "decay_steps": 120},
           lambda o: s.CosineAnnealingLR(o, T_max=120))
    yield ({"schedule": "COSINE", "decay_steps": 120, "final_factor": 0.1},
           lambda o: s.CosineAnnealingLR(o, T_max=120, eta_min=0.04))
    yield ({"schedule": "ONE_CYCLE", "decay_steps": 120},
           lambda o: s.OneCycleLR(o, max_lr=0.4, total_steps=120,
                                  cycle_momentum=False))
    yield ({"schedule": "ONE_CYCLE", "decay_steps": 120, "warmup_steps": 24},
           lambda o: s.OneCycleLR(o, max_lr=0.4, total_steps=120, pct_start=0.2,
                                  cycle_momentum=False))
    yield {"warmup_steps": 10}, warmed(lambda o: s.ConstantLR(o, factor=1.0),
                                       10)
    yield ({"schedule": "STEP", "decay_steps": 30, "decay_factor": 0.5,
            "warmup_steps": 10},
           warmed(lambda o: s.StepLR(o, step_size=30, gamma=0.5), 10))
    yield ({"schedule": "EXPONENTIAL", "decay_steps": 1, "decay_factor": 0.95,
            "warmup_steps": 10},
           warmed(lambda o: s.ExponentialLR(o, gamma=0.95), 10))
    yield ({"schedule": "POLYNOMIAL", "decay_steps": 110, "power": 2,
            "warmup_steps": 10},
           warmed(lambda o: s.PolynomialLR(o, total_iters=100, power=2.0), 10))
    yield ({"schedule": "COSINE", "decay_steps": 130, "warmup_steps": 10},
           warmed(lambda o: s.CosineAnnealingLR(o, T_max=120), 10))


def line(what, config, rate, numbers):
    config = dict(config, learning_rate=rate)
    return "%s\t%s\t%s\n" % (what, json.dumps(config),
                             " ".join("%.9g" % n for n in numbers))


def main():
    warnings.simplefilter("ignore")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "pytorch_vectors.txt")
    with open(path, "w", encoding="utf-8") as out:
        for config, rate, make, *before in optimizers():
            out.write(line("weights", config, rate, train(make, *before)))
        for config, make in schedules():
            out.write(line("rates", config, 0.4, rates(make)))


if __name__ == "__main__":
    main()
