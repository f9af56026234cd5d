"""The task's model on Bevel's kernels, by way of the package."""

import torch
import torch.nn as nn

from bevel_torch import SmoothL1Loss
from model import get_init_inputs, get_inputs  # noqa: F401


class ModelNew(nn.Module):
    def __init__(self, reduction="mean", beta=1.0):
        super().__init__()
        self.op = SmoothL1Loss(reduction=reduction, beta=beta)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if input.device.type != self.device.type:
            input = input.to(self.device)
        if target.device != input.device:
            target = target.to(input.device)
        return self.op(input, target)
