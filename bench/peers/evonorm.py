"""PyTorch's side of `bevel_bench evonorm`: timm's EvoNorm layers (eager and compiled), GroupNorm + SiLU, and
BatchNorm + ReLU, which cuDNN runs on a GPU; the latter two also beside Bevel's own. All in training mode."""

from timing import DTYPES, Workset, compiled, shape_of, uniform

import torch
from torch import nn

try:
    from timm.layers import evo_norm as timm_evonorm
except ImportError:
    timm_evonorm = None

GROUPS = 32


def groups_of(channels):
    groups = min(GROUPS, channels)
    while channels % groups:
        groups -= 1
    return groups


def layer(variant, peer, channels):
    if peer.startswith("batchnorm+relu"):
        return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
    if peer.startswith("groupnorm+silu"):
        return nn.Sequential(nn.GroupNorm(groups_of(channels), channels), nn.SiLU(inplace=True))
    layer_type = getattr(timm_evonorm, f"EvoNorm2d{variant}")
    options = {"groups": groups_of(channels)} if variant.startswith("S") else {}
    return layer_type(channels, **options)


def peers_of(case):
    if case["op"] == "norm":
        name = case["detail"].split()[0]
        return [name, f"{name} compile"]
    if case["op"] != "evonorm":
        return []
    rival = "groupnorm+silu" if case["detail"].startswith("S") else "batchnorm+relu"
    names = [rival] + (["batchnorm+relu"] if rival != "batchnorm+relu" else [])
    return (["timm eager", "timm compile"] if timm_evonorm else []) + names


def make_sets(case, peer, device, count):
    variant, layout = case["detail"].split()
    shape, dtype = shape_of(case["shape"]), DTYPES[case["dtype"]]
    memory_format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    backward = case["pass"] != "forward"
    # cuDNN takes half-type pictures with f32 parameters; the others want parameters of the pictures' type.
    parameter_dtype = torch.float32 if peer.startswith("batchnorm") and device.startswith("cuda") else dtype

    module = layer(variant, peer, shape[1]).to(device=device, dtype=parameter_dtype).train()
    module.requires_grad_(backward)
    function = compiled(module) if peer.endswith("compile") else module
    parameters = list(module.parameters()) if backward else []

    def make_set():
        x = uniform(shape, dtype, device).contiguous(memory_format=memory_format).requires_grad_(backward)
        if not backward:
            return Workset(lambda: function(x))
        upstream = uniform(shape, dtype, device).contiguous(memory_format=memory_format)

        def forward_and_backward():
            y = function(x)
            y.backward(upstream)
            return y

        return Workset(forward_and_backward, [x, *parameters])

    return [make_set() for _ in range(count)]


if __name__ == "__main__":
    from compare import main

    main(default_group=["evonorm"])
