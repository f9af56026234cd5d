"""The EvoNorm family (Liu et al. 2020) as layers of torch.nn."""

import torch

_VARIANTS = {"B0": 0, "B1": 1, "B2": 2, "S0": 3, "S1": 4, "S2": 5}


def evonorm(
    input, weight, bias, v=None, running_var=None, *, variant="S0", groups=32, eps=1e-5, momentum=0.1, training=True,
    apply_act=True,
):
    """EvoNorm of a batch of pictures [N, C, H, W], contiguous or channels-last; the result lies as the input does.

    weight, bias, v (B0 and S0) and running_var (B variants; updated in training) have one element a channel, f32, or f64
    where the input is f64; others are converted. Statistics are computed in that type.
    """
    code = _VARIANTS.get(variant)
    if code is None:
        raise ValueError(f"{variant} is not a variant of EvoNorm; they are {', '.join(_VARIANTS)}")
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    if weight.dtype != wide:
        weight, bias, v = weight.to(wide), bias.to(wide), None if v is None else v.to(wide)
    return torch.ops.bevel.evonorm.default(
        input, weight, bias, v, running_var, code, groups, eps, momentum, training, apply_act
    )


class EvoNorm2d(torch.nn.Module):
    """Normalisation and nonlinearity in one layer.

    variant: B0, B1 and B2 divide by a statistic of the batch, and keep ``running_var`` for evaluation; S0, S1 and S2 work
    on each picture alone, in ``groups`` groups of adjacent channels. Parameters and buffers are named as in timm
    (``weight``, ``bias``, ``v``, ``running_var``). ``apply_act=False`` leaves weight and bias alone.
    """

    __constants__ = ["num_features", "variant", "groups", "eps", "momentum", "apply_act"]

    def __init__(
        self, num_features, variant="S0", groups=32, eps=1e-5, momentum=0.1, apply_act=True, device=None, dtype=None,
    ):
        super().__init__()
        if variant not in _VARIANTS:
            raise ValueError(f"{variant} is not a variant of EvoNorm; they are {', '.join(_VARIANTS)}")
        if variant.startswith("S") and num_features % groups != 0:
            raise ValueError(f"num_features ({num_features}) must be divisible by groups ({groups})")
        self.num_features, self.variant, self.groups = num_features, variant, groups
        self.eps, self.momentum, self.apply_act = eps, momentum, apply_act
        options = {"device": device, "dtype": dtype}
        self.weight = torch.nn.Parameter(torch.empty(num_features, **options))
        self.bias = torch.nn.Parameter(torch.empty(num_features, **options))
        if variant in ("B0", "S0") and apply_act:
            self.v = torch.nn.Parameter(torch.empty(num_features, **options))
        else:
            self.register_parameter("v", None)
        running = torch.empty(num_features, **options) if variant.startswith("B") else None
        self.register_buffer("running_var", running)
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)
        if self.v is not None:
            torch.nn.init.ones_(self.v)
        if self.running_var is not None:
            torch.nn.init.ones_(self.running_var)

    def forward(self, input):
        running = self.running_var
        wide = torch.float64 if input.dtype == torch.float64 else torch.float32
        converted = running is not None and running.dtype != wide
        used = running.to(wide) if converted else running
        result = evonorm(
            input, self.weight, self.bias, self.v, used, variant=self.variant, groups=self.groups, eps=self.eps,
            momentum=self.momentum, training=self.training, apply_act=self.apply_act,
        )
        if converted and self.training:
            running.copy_(used)
        return result

    def extra_repr(self):
        groups = f", groups={self.groups}" if self.variant.startswith("S") else f", momentum={self.momentum}"
        return f"{self.num_features}, variant={self.variant}{groups}, eps={self.eps}, apply_act={self.apply_act}"
