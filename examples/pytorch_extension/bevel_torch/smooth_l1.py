"""Smooth L1 as torch.nn has it, on Bevel's kernels."""

import warnings

import torch
from torch.compiler import is_compiling
from torch.nn import _reduction
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import _C

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """``torch.nn.functional.smooth_l1_loss``, with the same arguments, broadcasting, dtypes and errors.

    ``mean`` and ``sum`` of tensors that require a gradient compute it in the pass that computes the loss.
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    if not is_compiling():
        loss = _C.smooth_l1_loss(input, target, reduction, beta)
        if loss is not None:
            return loss
        if has_torch_function_variadic(input, target):
            return handle_torch_function(
                smooth_l1_loss, (input, target), input, target, reduction=reduction, beta=beta
            )
    code = _REDUCTIONS.get(reduction)
    if code is None:
        code = _reduction.get_enum(reduction)
    return torch.ops.bevel.smooth_l1_loss(*_same_size(input, target), code, beta)


def smooth_l1_loss_and_gradient(input, target, reduction="mean", beta=1.0):
    """The loss and its gradient with respect to the input, without autograd: (loss, gradient).

    For training steps that go on by hand, as in ``prediction.backward(gradient)``, and for those that are bound by what
    autograd costs the host. Not for ``none``. The target's gradient is the negative.
    """
    code = _REDUCTIONS.get(reduction)
    if not code:
        raise ValueError(f"{reduction} is not a valid value for reduction; mean and sum are")
    if not is_compiling():
        result = _C.smooth_l1_loss_and_gradient(input, target, reduction, beta)
        if result is not None:
            return result
    if input.shape != target.shape:
        raise ValueError(f"input and target must have the same size; got {input.size()} and {target.size()}")
    with torch.no_grad():
        return torch.ops.bevel._smooth_l1_loss_with_gradient(input, target, code, beta)


def _same_size(input, target):
    if target.shape == input.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
        "This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=3,
    )
    return torch.broadcast_tensors(input, target)


class SmoothL1Loss(torch.nn.modules.loss._Loss):
    """``torch.nn.SmoothL1Loss`` on Bevel's kernels."""

    __constants__ = ["reduction", "beta"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        if not is_compiling():
            loss = _C.smooth_l1_loss(input, target, self.reduction, self.beta)
            if loss is not None:
                return loss
        return smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)

    def extra_repr(self):
        return f"reduction={self.reduction!r}, beta={self.beta}"
