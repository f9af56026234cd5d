"""What the operators return, without computing it: for torch.compile, export and the meta device."""

import torch
from torch._prims_common import suggest_memory_format


def _operands(input, target):
    torch._check(input.shape == target.shape, lambda: "bevel::smooth_l1_loss: the sizes must be equal")
    common = torch.result_type(input, target)
    return torch.empty_like(input, dtype=common, memory_format=suggest_memory_format(input))


def _loss(input, target, reduction):
    like = _operands(input, target)
    return like if reduction == 0 else like.new_empty(())


@torch.library.register_fake("bevel::smooth_l1_loss")
def _(input, target, reduction=1, beta=1.0):
    return _loss(input, target, reduction)


@torch.library.register_fake("bevel::_smooth_l1_loss_with_gradient")
def _(input, target, reduction, beta):
    return _loss(input, target, reduction), _operands(input, target)


@torch.library.register_fake("bevel::_smooth_l1_loss_backward")
def _(grad, input, target, reduction, beta):
    return _operands(input, target)


@torch.library.register_fake("bevel::_smooth_l1_loss_double_backward")
def _(direction, grad, input, target, reduction, beta):
    return _loss(input, target, reduction), _operands(input, target)


def _dense(input):
    return torch.empty_like(input, memory_format=suggest_memory_format(input))


@torch.library.register_fake("bevel::evonorm")
def _(input, gamma, beta, v, running_var, variant, groups, eps, momentum, training, nonlinearity=True):
    return _dense(input)


@torch.library.register_fake("bevel::_evonorm_forward")
def _(input, gamma, beta, v, running_var, variant, groups, eps, momentum, training, nonlinearity):
    slices = groups if variant >= 3 and nonlinearity else input.shape[1]
    wide = input.dtype == torch.float64 or input.device.type == "cpu"
    statistics = input.new_empty((input.shape[0] + 1, slices, 16), dtype=torch.float64 if wide else torch.float32)
    return _dense(input), statistics


@torch.library.register_fake("bevel::_evonorm_backward")
def _(grad, input, gamma, v, statistics, variant, groups, eps, training, nonlinearity):
    dv = gamma.new_empty(gamma.shape) if variant in (0, 3) and nonlinearity else gamma.new_empty((0,))
    return _dense(input), gamma.new_empty(gamma.shape), gamma.new_empty(gamma.shape), dv
