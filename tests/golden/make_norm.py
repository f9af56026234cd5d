#!/usr/bin/env python3
"""Writes norm.json: outputs and gradients of PyTorch's batch_norm and group_norm with relu or silu behind them.

    pip install torch
    python3 tests/golden/make_norm.py          # writes norm.json beside this file

Everything runs on the CPU in float64 from a fixed seed; pictures are NCHW. The numbers drawn for a shape serve all of
its cases.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

ACTIVATIONS = {"none": lambda t: t, "relu": F.relu, "silu": F.silu}


def rounded(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().reshape(-1).tolist()]


def draw(shape, generator):
    def uniform(size, low, high):
        values = low + (high - low) * torch.rand(size, dtype=torch.float64, generator=generator)
        return torch.tensor(rounded(values), dtype=torch.float64).reshape(size)

    channels = [shape[1]]
    return dict(x=uniform(shape, -2, 3), weight=uniform(channels, 0.5, 1.5), bias=uniform(channels, -1, 1),
                running_mean=uniform(channels, -0.5, 1), running_var=uniform(channels, 0.5, 2.5),
                upstream=uniform(shape, -1, 1))


def run(drawn, norm, activation, training, groups):
    x, weight, bias = (drawn[key].clone().requires_grad_() for key in ("x", "weight", "bias"))
    mean, var = drawn["running_mean"].clone(), drawn["running_var"].clone()
    if norm == "batch":
        z = F.batch_norm(x, mean, var, weight, bias, training, momentum=0.1, eps=1e-5)
    else:
        z = F.group_norm(x, groups, weight, bias, eps=1e-5)
    y = ACTIVATIONS[activation](z)
    gradients = torch.autograd.grad(y, [x, weight, bias], drawn["upstream"])
    case = dict(norm=norm, activation=activation, training=training, groups=groups, y=rounded(y))
    case.update(zip(["dx", "dweight", "dbias"], map(rounded, gradients)))
    if norm == "batch":
        case.update(running_mean=rounded(mean), running_var=rounded(var))
    return case


def main():
    generator = torch.Generator().manual_seed(20261)
    sets = []
    for shape, group_counts in [([2, 6, 3, 3], [2, 6]), ([3, 4, 1, 2], [1])]:
        drawn = draw(shape, generator)
        cases = []
        for activation in ACTIVATIONS:
            cases += [run(drawn, "batch", activation, training, 1) for training in (True, False)]
            cases += [run(drawn, "group", activation, True, groups) for groups in group_counts]
        sets.append(dict(shape=shape, cases=cases, **{key: rounded(value) for key, value in drawn.items()}))
    result = dict(made_by="tests/golden/make_norm.py", torch=torch.__version__, layout="nchw", eps=1e-5, momentum=0.1,
                  sets=sets)
    path = pathlib.Path(__file__).with_name("norm.json")
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(f"{path}: {sum(len(each['cases']) for each in sets)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
