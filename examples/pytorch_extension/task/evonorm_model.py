"""A block of an EvoNorm architecture: convolution, EvoNorm, and a gate over channels; with PyTorch's operators (timm's
layers) and with Bevel's."""

import torch
import torch.nn as nn

N, C, H, W = 128, 256, 56, 56


class Block(nn.Module):
    """Convolution, the given normalisation with its nonlinearity, and a squeeze-and-excitation gate."""

    def __init__(self, norm, channels=C):
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = norm
        self.gate = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.convolution(x))
        return y * torch.sigmoid(self.gate(y.mean((2, 3))))[:, :, None, None]


def norm_of(variant, channels=C):
    from timm.layers import EvoNorm2dB0, EvoNorm2dS0

    return EvoNorm2dB0(channels, eps=1e-5) if variant == "B0" else EvoNorm2dS0(channels, groups=32, eps=1e-5)


def new_norm_of(variant, channels=C):
    from bevel_torch import EvoNorm2d

    return EvoNorm2d(channels, variant, groups=32)


def get_inputs():
    return [torch.randn(N, C, H, W)]
