"""Smooth L1 as torch.nn has it, on Bevel's kernels."""

import warnings

import torch
from torch.nn import _reduction
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import _C

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """``torch.nn.functional.smooth_l1_loss``, with the same arguments, broadcasting, dtypes and errors.

    ``mean`` and ``sum`` of tensors that require a gradient compute it in the pass that computes the loss.
    """
    if has_torch_function_variadic(input, target):
        return handle_torch_function(
            smooth_l1_loss, (input, target), input, target,
            size_average=size_average, reduce=reduce, reduction=reduction, beta=beta,
        )
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    code = _REDUCTIONS.get(reduction)
    if code is None:
        code = _reduction.get_enum(reduction)
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=2,
        )
        input, target = torch.broadcast_tensors(input, target)
    if torch.compiler.is_compiling():
        return torch.ops.bevel.smooth_l1_loss(input, target, code, beta)
    return _C.smooth_l1_loss(input, target, code, beta)


class SmoothL1Loss(torch.nn.modules.loss._Loss):
    """``torch.nn.SmoothL1Loss`` on Bevel's kernels."""

    __constants__ = ["reduction", "beta"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)

    def extra_repr(self):
        return f"reduction={self.reduction!r}, beta={self.beta}"
