#!/usr/bin/env python3
"""Writes optimizers.json: parameters after some steps of PyTorch's optimisers, with moving averages of the weights.

    pip install torch
    python3 tests/golden/make_optimizers.py          # writes optimizers.json beside this file

Everything runs on the CPU in float64 from a fixed seed. PyTorch has no Lion: its steps are the formulas of the paper
(Chen et al. 2023, algorithm 2) written with tensors.
"""

import json
import pathlib

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 12
SHAPE = (7,)


class Lion:
    def __init__(self, parameters, lr, betas, weight_decay):
        self.parameters, self.lr, self.betas, self.weight_decay = list(parameters), lr, betas, weight_decay
        self.m = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.parameters, self.m):
            direction = torch.sign(self.betas[0] * m + (1 - self.betas[0]) * p.grad)
            p -= self.lr * (direction + self.weight_decay * p)
            m.mul_(self.betas[1]).add_(p.grad, alpha=1 - self.betas[1])


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.randn(SHAPE, dtype=torch.float64))


CASES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.2, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.2),
    "lion": lambda p: Lion(p, lr=0.01, betas=(0.9, 0.99), weight_decay=0.3),
}


def run(name):
    model = Holder()
    optimizer = CASES[name](model.parameters())
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    start = model.p.tolist()
    gradients = torch.randn((STEPS, *SHAPE), dtype=torch.float64)
    for step, gradient in enumerate(gradients):
        model.p.grad = gradient.clone()
        if step >= STEPS // 2:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.5)
        optimizer.step()
        average.update_parameters(model)
    return {
        "name": name,
        "start": start,
        "gradients": gradients.tolist(),
        "end": model.p.tolist(),
        "average": average.module.p.tolist(),
    }


if __name__ == "__main__":
    torch.manual_seed(5)
    cases = [run(name) for name in CASES]
    target = pathlib.Path(__file__).with_name("optimizers.json")
    target.write_text(json.dumps({"torch": torch.__version__, "decay": 0.8, "clipped_from": STEPS // 2,
                                  "max_norm": 1.5, "cases": cases}) + "\n")
