"""PyTorch's side of `bevel_bench smooth_l1` and `bevel_bench losses`.

Peers of a case: eager (torch.nn.functional, or the formula in tensor operators where there is none), compile (the
same under torch.compile, with autograd), hand (loss and gradient written by hand without autograd, compiled) and
model (abs, where and mean as separate operators, as one would write smooth L1 without a ready-made one)."""

import math

from timing import DTYPES, Workset, compiled, shape_of, uniform

import torch
import torch.nn.functional as F


def model_smooth_l1(x, t, reduction="mean", beta=1.0):
    distance = torch.abs(x - t)
    loss = torch.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)
    return loss.mean() if reduction == "mean" else loss


def hand_smooth_l1(x, t, beta=1.0):
    d = (x - t).float()
    distance = d.abs()
    near = distance < beta
    loss = torch.where(near, 0.5 * d * d / beta, distance - 0.5 * beta).mean()
    gradient = torch.where(near, d / beta, torch.sign(d)) / d.numel()
    return loss, gradient.to(x.dtype)


def _reduce(loss, reduction):
    return loss.mean() if reduction == "mean" else loss


def log_cosh(x, t, reduction="mean"):
    d = x - t
    return _reduce(d + F.softplus(-2.0 * d) - math.log(2.0), reduction)


def charbonnier(x, t, reduction="mean"):
    d = x - t
    return _reduce(torch.sqrt(d * d + 1e-6), reduction)


def quantile_loss(x, t, reduction="mean"):
    d = t - x
    return _reduce(torch.maximum(0.5 * d, -0.5 * d), reduction)


def poisson_nll(x, t, reduction="mean"):
    return F.poisson_nll_loss(x, t, log_input=True, full=False, reduction=reduction)


def _overlap(x, t):
    """Intersection, union and the enclosing box of boxes in corner form."""
    size, target_size = (x[:, 2:] - x[:, :2]).clamp(min=0), (t[:, 2:] - t[:, :2]).clamp(min=0)
    common = (torch.minimum(x[:, 2:], t[:, 2:]) - torch.maximum(x[:, :2], t[:, :2])).clamp(min=0).prod(dim=1)
    union = size.prod(dim=1) + target_size.prod(dim=1) - common
    hull = torch.maximum(x[:, 2:], t[:, 2:]) - torch.minimum(x[:, :2], t[:, :2])
    return common, union, hull, size, target_size


def iou_loss(x, t, reduction="mean"):
    common, union, *_ = _overlap(x, t)
    return _reduce(1 - common / union, reduction)


def giou_loss(x, t, reduction="mean"):
    common, union, hull, *_ = _overlap(x, t)
    area = hull.prod(dim=1)
    return _reduce(1 - common / union + (area - union) / area, reduction)


def diou_loss(x, t, reduction="mean"):
    common, union, hull, *_ = _overlap(x, t)
    return _reduce(1 - common / union + _distance(x, t, hull), reduction)


def ciou_loss(x, t, reduction="mean"):
    common, union, hull, size, target_size = _overlap(x, t)
    angles = torch.atan(target_size[:, 0] / target_size[:, 1]) - torch.atan(size[:, 0] / size[:, 1])
    v = 4 / math.pi**2 * angles**2
    iou = common / union
    alpha = (v / (1 - iou + v)).detach()
    return _reduce(1 - iou + _distance(x, t, hull) + alpha * v, reduction)


def _distance(x, t, hull):
    offset = (x[:, :2] + x[:, 2:] - t[:, :2] - t[:, 2:]) / 2
    return offset.square().sum(dim=1) / hull.square().sum(dim=1)


def boxes(shape, dtype, device):
    low = uniform((*shape[:-1], 2), torch.float32, device, 0, 1)
    high = uniform((*shape[:-1], 2), torch.float32, device, 1, 2)
    return torch.cat([low, high], dim=-1).to(dtype)


BOX_LOSSES = {"iou_loss": iou_loss, "giou_loss": giou_loss, "diou_loss": diou_loss, "ciou_loss": ciou_loss}
LOSSES = {
    **BOX_LOSSES,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "l1": F.l1_loss,
    "mse": F.mse_loss,
    "log_cosh": log_cosh,
    "charbonnier": charbonnier,
    "quantile_loss": quantile_loss,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "poisson_nll": poisson_nll,
}
RANGES = {"bce_with_logits": ((-4, 4), (0, 1)), "poisson_nll": ((-2, 2), (0, 4))}


def peers_of(case):
    names = ["eager", "compile"]
    if case["op"] == "smooth_l1":
        if case["pass"] == "loss+gradient":
            names.append("hand")
        if case["detail"] == "mean":
            names.append("model")
    return names if case["op"] in LOSSES and case["variant"] != "unfused" else []


def make_sets(case, peer, device, count):
    shape, dtype, reduction = shape_of(case["shape"]), DTYPES[case["dtype"]], case["detail"]
    input_range, target_range = RANGES.get(case["op"], ((-2, 2), (-2, 2)))
    loss = model_smooth_l1 if peer == "model" else LOSSES[case["op"]]
    function = hand_smooth_l1 if peer == "hand" else lambda x, t: loss(x, t, reduction=reduction)
    if peer in ("compile", "hand"):
        function = compiled(function)
    needs_gradient = case["pass"] != "forward" and peer != "hand"

    def make_set():
        if case["op"] in BOX_LOSSES:
            x, t = boxes(shape, dtype, device), boxes(shape, dtype, device)
        else:
            x, t = uniform(shape, dtype, device, *input_range), uniform(shape, dtype, device, *target_range)
        x.requires_grad_(needs_gradient)
        if not needs_gradient:
            return Workset(lambda: function(x, t))
        if case["pass"] == "loss+gradient":

            def loss_and_gradient():
                value = function(x, t)
                value.backward()
                return value

            return Workset(loss_and_gradient, [x])
        upstream = uniform(shape, dtype, device)
        if case["pass"] == "backward":
            y = function(x, t)
            return Workset(lambda: torch.autograd.backward(y, upstream, retain_graph=True), [x])

        def forward_and_backward():
            y = function(x, t)
            y.backward(upstream)
            return y

        return Workset(forward_and_backward, [x])

    return [make_set() for _ in range(count)]


if __name__ == "__main__":
    from compare import main

    main(default_group=["smooth_l1", "losses"])
