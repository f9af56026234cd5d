"""The task's model on Bevel's kernels, by way of the package."""

import torch
import torch.nn as nn

from bevel_torch import smooth_l1_loss
from model import get_init_inputs, get_inputs  # noqa: F401


class ModelNew(nn.Module):
    def __init__(self, reduction="mean", beta=1.0):
        super().__init__()
        self.reduction = reduction
        self.beta = beta

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if not (input.is_cuda and target.is_cuda) and torch.cuda.is_available():
            input, target = input.cuda(), target.cuda()
        return smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)
