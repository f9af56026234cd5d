"""PyTorch's side of `bevel_bench conv2d`: cuDNN as PyTorch chooses its engines, by timing them (the CPU: oneDNN)."""

from timing import DTYPES, Workset, uniform

import torch


def peers_of(case):
    return ["cudnn"] if case["op"] == "conv2d" else []


def make_sets(case, peer, device, count):
    sizes, out = case["shape"].split("-")
    batch, height, width, channels = (int(size) for size in sizes.split("x"))
    out, dtype = int(out), DTYPES[case["dtype"]]
    # Of the regressor's layers those that change the number of channels have stride 2.
    stride = [1, 1] if channels == out else [2, 2]
    torch.backends.cudnn.allow_tf32 = case["detail"] == "tf32"

    def picture(*shape):
        return uniform(shape, dtype, device).contiguous(memory_format=torch.channels_last)

    def backward(x, w, dy, mask):
        return torch.ops.aten.convolution_backward(dy, x, w, None, stride, [1, 1], [1, 1], False, [0, 0], 1, mask)

    def make_set():
        x = picture(batch, channels, height, width)
        w = picture(out, channels, 3, 3)
        dy = picture(batch, out, height // stride[0], width // stride[1])
        if case["pass"] == "forward":
            return Workset(lambda: torch.nn.functional.conv2d(x, w, None, stride, 1))
        if case["pass"] == "data gradient":
            return Workset(lambda: backward(x, w, dy, [True, False, False])[0])
        return Workset(lambda: backward(x, w, dy, [False, True, False])[1])

    with torch.no_grad():
        return [make_set() for _ in range(count)]


if __name__ == "__main__":
    from compare import main

    main(default_group=["conv2d"])
