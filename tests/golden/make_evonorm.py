#!/usr/bin/env python3
"""Writes evonorm.json: outputs and gradients of EvoNorm made by others.

    pip install torch timm
    python3 tests/golden/make_evonorm.py          # writes evonorm.json beside this file

B0 and S0 come from timm's layers; B1, B2, S1 and S2, which timm lacks, from PyTorch's autograd over the formulas of the
paper. The formulas are checked against timm's layers where both exist. Everything runs on the CPU in float64 from a
fixed seed; timm's layers take their variances in float32.

Two conventions of timm differ from ours, and are set or undone here: its B0 has eps = 1e-3, and its running variance
takes the unbiased variance of the batch.
"""

import json
import pathlib

import timm
import torch
from timm.layers import EvoNorm2dB0, EvoNorm2dS0

VARIANTS = ["B0", "B1", "B2", "S0", "S1", "S2"]


def variance(x, dims):
    return (x - x.mean(dim=dims, keepdim=True)).square().mean(dim=dims, keepdim=True)


def grouped(x, groups):
    n, c, h, w = x.shape
    return x.reshape(n, groups, c // groups, h, w)


def formula(case, x, gamma, beta, v):
    """The paper's formula; x is NCHW."""
    variant, eps = case["variant"], case["eps"]
    row = (1, -1, 1, 1)
    if variant[0] == "S":
        slices = grouped(x, case["groups"])
        if variant == "S2":
            moment = slices.square().mean(dim=(2, 3, 4), keepdim=True)
        else:
            moment = variance(slices, (2, 3, 4))
        gate = torch.sigmoid(v.reshape(row) * x if variant == "S0" else x)
        z = (grouped(x * gate, case["groups"]) / torch.sqrt(moment + eps)).reshape(x.shape)
    else:
        running = torch.tensor(case["running_var"], dtype=x.dtype).reshape(row)
        batch = torch.sqrt((variance(x, (0, 2, 3)) if case["training"] else running) + eps)
        if variant == "B0":
            instance = v.reshape(row) * x + torch.sqrt(variance(x, (2, 3)) + eps)
        else:
            root = torch.sqrt(x.square().mean(dim=(2, 3), keepdim=True) + eps)
            instance = (x + 1) * root if variant == "B1" else root - x
        assert (instance - batch).abs().min() > 1e-9, "a tie, where the gradient is a convention"
        z = x / torch.maximum(batch, instance)
    return z * gamma.reshape(row) + beta.reshape(row)


def timm_layer(case, gamma, beta, v):
    """timm's layer with these parameters, in float64."""
    channels = len(gamma)
    if case["variant"] == "S0":
        layer = EvoNorm2dS0(channels, groups=case["groups"], eps=case["eps"])
    else:
        layer = EvoNorm2dB0(channels, momentum=case["momentum"], eps=case["eps"])
    layer = layer.double().train(case["training"])
    layer.weight, layer.bias, layer.v = (torch.nn.Parameter(p.detach().clone()) for p in (gamma, beta, v))
    if case["variant"] == "B0":
        layer.running_var.copy_(torch.tensor(case["running_var"], dtype=torch.float64))
    return layer


def rounded(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().reshape(-1).tolist()]


def run(case, generator):
    shape = case["shape"]
    n, c, h, w = shape

    def uniform(size, low, high):
        values = low + (high - low) * torch.rand(size, dtype=torch.float64, generator=generator)
        return torch.tensor(rounded(values), dtype=torch.float64).reshape(size)

    x = uniform(shape, -2, 3).requires_grad_()
    gamma = uniform([c], 0.5, 1.5).requires_grad_()
    beta = uniform([c], -1, 1).requires_grad_()
    v = uniform([c], 0.3, 1.3).requires_grad_()
    upstream = uniform(shape, -1, 1)
    if case["variant"][0] == "B":
        case["running_var"] = rounded(uniform([c], 0.5, 2.5))

    y = formula(case, x, gamma, beta, v)
    inputs = [x, gamma, beta] + ([v] if case["variant"][1] == "0" else [])
    gradients = torch.autograd.grad(y, inputs, upstream)
    case["source"] = "formula"
    running_after = None
    if case["variant"][0] == "B" and case["training"]:
        start = torch.tensor(case["running_var"], dtype=torch.float64)
        momentum = case["momentum"]
        running_after = (1 - momentum) * start + momentum * variance(x, (0, 2, 3)).reshape(-1)

    if case["variant"][1] == "0":
        layer = timm_layer(case, gamma, beta, v)
        y_timm = layer(x)
        gradients_timm = torch.autograd.grad(y_timm, [x, layer.weight, layer.bias, layer.v], upstream)
        for ours, theirs in zip([y, *gradients], [y_timm, *gradients_timm]):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        y, gradients = y_timm, gradients_timm
        case["source"] = "timm"
        if running_after is not None:
            count = n * h * w
            old = (1 - case["momentum"]) * torch.tensor(case["running_var"], dtype=torch.float64)
            from_timm = old + (layer.running_var - old) * ((count - 1) / count)
            torch.testing.assert_close(running_after, from_timm, rtol=1e-5, atol=1e-6)
            running_after = from_timm

    case.update(x=rounded(x), gamma=rounded(gamma), beta=rounded(beta), upstream=rounded(upstream), y=rounded(y))
    case.update(zip(["dx", "dgamma", "dbeta", "dv"], map(rounded, gradients)))
    if case["variant"][1] == "0":
        case["v"] = rounded(v)
    if running_after is not None:
        case["running_var_after"] = rounded(running_after)
    return case


def written(case):
    """All cases are drawn and checked; to keep the file small, not all are written."""
    return case["eps"] == 1e-5 or case["variant"] == "B0" or case["shape"][0] == 1


def main():
    generator = torch.Generator().manual_seed(20260)
    cases = []
    for variant in VARIANTS:
        for shape, groups in [([3, 6, 4, 5], 2), ([1, 8, 3, 3], 8)]:
            for training in [True, False] if variant[0] == "B" else [True]:
                for eps in [1e-5, 1e-3]:
                    case = dict(variant=variant, shape=shape, groups=groups, training=training, eps=eps, momentum=0.1)
                    cases.append(run(case, generator))
    result = dict(made_by="tests/golden/make_evonorm.py", torch=torch.__version__, timm=timm.__version__, layout="nchw",
                  cases=list(filter(written, cases)))
    path = pathlib.Path(__file__).with_name("evonorm.json")
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(f"{path}: {len(result['cases'])} cases, {path.stat().st_size} bytes")
    print(f"torch {torch.__version__}, timm {timm.__version__}")


if __name__ == "__main__":
    main()
