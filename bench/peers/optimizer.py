"""PyTorch's side of `bevel_bench optimizer`: the fused optimisers, and the default ones."""

from timing import Workset, shape_of, uniform

import torch


def peers_of(case):
    return ["fused", "default"] if case["op"] == "optimizer" else []


def make_sets(case, peer, device, count):
    number, shape = case["shape"].rstrip("]").split("x[")
    is_adamw = case["detail"] == "AdamW"

    def make_set():
        leaves = [uniform(shape_of(shape), torch.float32, device).requires_grad_() for _ in range(int(number))]
        for leaf in leaves:
            leaf.grad = uniform(shape_of(shape), torch.float32, device, -0.01, 0.01)
        fused = {"fused": True} if peer == "fused" else {}
        if is_adamw:
            capturable = {"capturable": True} if device.startswith("cuda") else {}
            step = torch.optim.AdamW(leaves, lr=1e-3, weight_decay=0.05, **fused, **capturable).step
        else:
            step = torch.optim.SGD(leaves, lr=1e-2, momentum=0.9, **fused).step
        return Workset(lambda: step() and None)

    return [make_set() for _ in range(count)]
