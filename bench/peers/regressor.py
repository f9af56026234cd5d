"""PyTorch's side of `bevel_bench regressor`: the same network with timm's EvoNorm layers, channels last, AdamW with its
fused kernel, TF32 allowed on a GPU, mixed precision by autocast."""

import contextlib

from timing import DTYPES, Workset, compiled, uniform

import torch
from torch import nn

try:
    from timm.layers import evo_norm as timm_evonorm
except ImportError:
    timm_evonorm = None


def network(norm, width):
    layers, channels = [], 3
    for layer in range(8):
        out = width << layer // 2
        options = {"groups": 8} if norm.startswith("S") else {}
        layers += [nn.Conv2d(channels, out, 3, 2 if layer % 2 == 0 else 1, 1, bias=False),
                   getattr(timm_evonorm, f"EvoNorm2d{norm}")(out, **options)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4))


def peers_of(case):
    return ["eager", "compile"] if case["op"] == "regressor" and timm_evonorm else []


def make_sets(case, peer, device, count):
    batch, side, _ = (int(size) for size in case["shape"].split("x"))
    dtype, is_cuda = DTYPES[case["dtype"]], device.startswith("cuda")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_cuda

    def make_set():
        net = network(case["detail"], 32 if is_cuda else 16).to(device).to(memory_format=torch.channels_last)
        options = {"fused": True, "capturable": True} if is_cuda else {}
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05, **options)
        pictures = uniform((batch, 3, side, side), torch.float32, device, 0, 1).contiguous(
            memory_format=torch.channels_last)
        boxes = uniform((batch, 4), torch.float32, device, 0, 1)

        def loss_of(x, y):
            scope = contextlib.nullcontext()
            if dtype != torch.float32:
                scope = torch.autocast(torch.device(device).type, dtype, cache_enabled=False)
            with scope:
                return nn.functional.smooth_l1_loss(net(x).float(), y, beta=1 / 9)

        function = compiled(loss_of) if peer == "compile" else loss_of

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = function(pictures, boxes)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Workset(step)

    return [make_set() for _ in range(count)]


if __name__ == "__main__":
    from compare import main

    main(default_group=["regressor"])
