"""Smooth L1 against torch.nn.functional, whose behaviour it promises."""

import itertools
import warnings

import pytest
import torch
import torch.nn.functional as F

from bevel_torch import SmoothL1Loss, smooth_l1_loss, smooth_l1_loss_and_gradient

REDUCTIONS = ["none", "mean", "sum"]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def pair(shape, device, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(device=device, dtype=dtype)
    return draw(), draw()


def close(actual, expected, tolerance=None):
    tolerance = TOLERANCE[expected.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(input, target, upstream=None, **options):
    """Value and both gradients, under a random upstream gradient."""
    leaves = [tensor.clone().detach().requires_grad_() for tensor in (input, target)]
    mine = [tensor.clone().detach().requires_grad_() for tensor in (input, target)]
    expected, actual = F.smooth_l1_loss(*leaves, **options), smooth_l1_loss(*mine, **options)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape and actual.device == expected.device
    close(actual, expected)
    if upstream is None:
        upstream = torch.rand(expected.shape, dtype=torch.float64).to(expected) * 3 - 1
    expected.backward(upstream)
    actual.backward(upstream)
    for own, reference in zip(mine, leaves):
        close(own.grad, reference.grad)
    with torch.no_grad():
        close(smooth_l1_loss(input, target, **options), expected)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_agrees_with_torch(device, dtype, reduction):
    for shape, beta in itertools.product([(), (1,), (5, 3), (7, 1000), (2, 3, 4, 5)], [0.0, 0.5, 1.0, 3.0]):
        check(*pair(shape, device, dtype), reduction=reduction, beta=beta)


def test_unit_upstream_gradient_and_retained_graphs(device):
    input, target = pair((64, 33), device)
    check(input, target, upstream=torch.ones((), device=device))
    leaf = input.clone().requires_grad_()
    loss = smooth_l1_loss(leaf, target)
    (first,) = torch.autograd.grad(loss, leaf, torch.tensor(-2.5, device=device), retain_graph=True)
    kept = first.clone()
    (second,) = torch.autograd.grad(loss, leaf, retain_graph=True)
    (third,) = torch.autograd.grad(loss, leaf, torch.tensor(3.0, device=device))
    close(first, kept)
    close(second * -2.5, first)
    close(third, second * 3)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, leaf)


def test_gradients_accumulate(device):
    input, target = pair((100,), device)
    leaf, other = input.clone().requires_grad_(), input.clone().requires_grad_()
    for _ in range(3):
        (smooth_l1_loss(leaf, target) * 0.5).backward()
        (F.smooth_l1_loss(other, target) * 0.5).backward()
    close(leaf.grad, other.grad)


def test_only_one_operand_requires_a_gradient(device):
    input, target = pair((40,), device)
    leaf, reference = target.clone().requires_grad_(), target.clone().requires_grad_()
    smooth_l1_loss(input, leaf).backward()
    F.smooth_l1_loss(input, reference).backward()
    close(leaf.grad, reference.grad)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_empty(device, reduction):
    check(*pair((0, 4), device), reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_special_values(device, reduction):
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0, -1.0, 0.0, 1e30, 1e-30], device=device)
    check(values, torch.zeros_like(values), reduction=reduction)


def test_broadcasting_warns_as_torch(device):
    input, _ = pair((4, 5), device)
    target, _ = pair((5,), device, seed=1)
    with pytest.warns(UserWarning, match="different to the input size"):
        actual = smooth_l1_loss(input, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(actual, F.smooth_l1_loss(input, target))
        check(input, target)
        check(target, input, reduction="none")


def test_errors(device):
    input, target = pair((4,), device)
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        smooth_l1_loss(input, target, reduction="median")
    with pytest.raises(RuntimeError, match="negative"):
        smooth_l1_loss(input, target, beta=-1.0)
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        smooth_l1_loss(input.long(), target.long())
    with pytest.raises(RuntimeError):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            smooth_l1_loss(input, torch.zeros(3, device=device))


def test_dtypes_are_promoted(device):
    input, target = pair((4, 5), device)
    check(input.half(), target, reduction="sum")
    check(input, target.double())
    mixed, reference = smooth_l1_loss(input, target.long()), F.smooth_l1_loss(input, target.long())
    close(mixed, reference)


def test_layouts(device):
    input, target = pair((3, 8, 5, 7), device)
    last = torch.channels_last
    views = [
        (input.to(memory_format=last), target.to(memory_format=last)),
        (input.to(memory_format=last), target),
        (input.transpose(1, 3), target.transpose(1, 3)),
        (input[:, ::2], target[:, 1::2]),
        (input[0, 0, 0, 0].expand(3, 8, 5, 7), target),
    ]
    for a, b in views:
        for reduction in REDUCTIONS:
            check(a, b, reduction=reduction)
    assert smooth_l1_loss(*views[0], reduction="none").is_contiguous(memory_format=last)


def test_unaligned_views(device):
    input, target = pair((4097,), device)
    check(input[1:], target[:-1])
    check(input[3:], target[3:], reduction="none")


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_autocast(device, reduction):
    input, target = pair((16, 4), device)
    for dtype in [torch.bfloat16, torch.float16]:
        leaf, reference = (input.to(dtype).requires_grad_() for _ in range(2))
        with torch.autocast(device, dtype=dtype):
            actual = smooth_l1_loss(leaf, target.to(dtype), reduction=reduction)
            expected = F.smooth_l1_loss(reference, target.to(dtype), reduction=reduction)
        assert actual.dtype == expected.dtype
        close(actual, expected)
        actual.sum().backward()
        expected.sum().backward()
        close(leaf.grad, reference.grad)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradcheck(device, reduction):
    input, target = pair((3, 4), device, torch.float64)
    input, target = input.requires_grad_(), target.requires_grad_()
    loss = lambda a, b: smooth_l1_loss(a, b, reduction=reduction, beta=0.8)
    assert torch.autograd.gradcheck(loss, (input, target))
    assert torch.autograd.gradgradcheck(loss, (input, target))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_forward_mode(device, reduction):
    input, target = pair((3, 4), device, torch.float64)
    loss = lambda a, b: smooth_l1_loss(a, b, reduction=reduction, beta=0.8)
    for needs in ((True, True), (True, False), (False, True)):
        operands = [tensor.clone().requires_grad_(need) for tensor, need in zip((input, target), needs)]
        assert torch.autograd.gradcheck(loss, operands, check_forward_ad=True)
    tangent = torch.randn_like(input)
    value, along = torch.func.jvp(lambda a: loss(a, target), (input,), (tangent,))
    reference = torch.func.jvp(lambda a: F.smooth_l1_loss(a, target, reduction=reduction, beta=0.8), (input,), (tangent,))
    close(value, reference[0])
    close(along, reference[1])


def test_create_graph_matches_torch(device):
    input, target = pair((50,), device)
    grads = []
    for loss in (smooth_l1_loss, F.smooth_l1_loss):
        leaf = input.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(leaf, target, reduction="sum") ** 2, leaf, create_graph=True)
        (second,) = torch.autograd.grad((first ** 2).sum(), leaf)
        grads.append((first.detach(), second))
    for mine, expected in zip(*grads):
        close(mine, expected, 1e-5)


def test_opcheck(device):
    ops = torch.ops.bevel
    for reduction in range(3):
        for dtype in [torch.float32, torch.bfloat16]:
            input, target = pair((4, 5), device, dtype)
            grad = torch.randn((4, 5) if reduction == 0 else (), device=device, dtype=dtype)
            torch.library.opcheck(ops.smooth_l1_loss.default, (input, target, reduction, 0.7))
            leaves = (input.clone().requires_grad_(), target.clone().requires_grad_())
            torch.library.opcheck(ops.smooth_l1_loss.default, (*leaves, reduction, 0.7))
            torch.library.opcheck(ops._smooth_l1_loss_backward.default, (grad, *leaves, reduction, 0.7))
            torch.library.opcheck(
                ops._smooth_l1_loss_double_backward.default, (input, grad, input, target, reduction, 0.7)
            )
            if reduction:
                torch.library.opcheck(ops._smooth_l1_loss_with_gradient.default, (input, target, reduction, 0.7))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_without_graph_breaks(device, backend, dynamic):
    module = SmoothL1Loss(beta=0.5)

    def step(x, target):
        return module(x * 2, target) * 3

    compiled = torch.compile(step, fullgraph=True, backend=backend, dynamic=dynamic)
    for size in [6, 9]:
        input, target = pair((size, 4), device)
        leaf, reference = input.clone().requires_grad_(), input.clone().requires_grad_()
        actual, expected = compiled(leaf, target), F.smooth_l1_loss(reference * 2, target, beta=0.5) * 3
        close(actual, expected)
        actual.backward()
        expected.backward()
        close(leaf.grad, reference.grad)


def test_func_transforms(device):
    input, target = pair((6, 4), device)
    grad = torch.func.grad(lambda x: smooth_l1_loss(x, target))(input)
    close(grad, torch.func.grad(lambda x: F.smooth_l1_loss(x, target))(input))


def test_module_is_drop_in():
    mine, torchs = SmoothL1Loss(reduction="sum", beta=0.3), torch.nn.SmoothL1Loss(reduction="sum", beta=0.3)
    input, target = pair((9,), "cpu")
    close(mine(input, target), torchs(input, target))
    with pytest.warns(UserWarning, match="reduce"):
        assert SmoothL1Loss(reduce=False).reduction == "none"


def test_operands_changed_in_place(device):
    input, target = pair((8,), device)
    leaf = input.clone().requires_grad_()
    loss = smooth_l1_loss(leaf * 1.0, target)
    target.add_(1)
    loss.backward()  # the gradient was computed with the loss
    loss = smooth_l1_loss(leaf * 1.0, target, reduction="none").sum()
    target.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_loss_and_gradient(device):
    for dtype in TOLERANCE:
        input, target = pair((31, 7), device, dtype)
        for reduction in ("mean", "sum"):
            leaf = input.clone().requires_grad_()
            expected = F.smooth_l1_loss(leaf, target, reduction=reduction)
            expected.backward()
            loss, gradient = smooth_l1_loss_and_gradient(leaf, target, reduction)
            assert not loss.requires_grad and not gradient.requires_grad
            close(loss, expected)
            close(gradient, leaf.grad)
    with pytest.raises(ValueError, match="none is not"):
        smooth_l1_loss_and_gradient(input, target, "none")
    with pytest.raises(ValueError, match="same size"):
        smooth_l1_loss_and_gradient(input, target[1:])


def test_subclasses_and_lazy_values(device):
    class Tagged(torch.Tensor):
        pass

    input, target = pair((6,), device)
    assert isinstance(smooth_l1_loss(input.as_subclass(Tagged), target), Tagged)
    lazy = torch.complex(input, target).conj().imag  # -target, negated where it is read
    assert lazy.is_neg()
    close(smooth_l1_loss(input, lazy), F.smooth_l1_loss(input, -target))


def test_meta_and_inference_mode(device):
    input, target = pair((5, 6), device)
    assert smooth_l1_loss(input.to("meta"), target.to("meta")).shape == ()
    with torch.inference_mode():
        close(smooth_l1_loss(input, target), F.smooth_l1_loss(input, target))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_streams_and_graphs():
    input, target = pair((1 << 18,), "cuda")
    expected = F.smooth_l1_loss(input, target)
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    losses = []
    for stream in streams * 25:
        with torch.cuda.stream(stream):
            losses.append(smooth_l1_loss(input, target))
    torch.cuda.synchronize()
    assert all(torch.equal(loss, losses[0]) for loss in losses)
    close(losses[0], expected)

    leaf = input.clone().requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        smooth_l1_loss(leaf, target).backward()
    torch.cuda.current_stream().wait_stream(side)
    leaf.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = smooth_l1_loss(leaf, target)
        loss.backward()
    for _ in range(3):
        graph.replay()
        other = smooth_l1_loss(input, target)
        torch.cuda.synchronize()
        assert torch.equal(loss.detach(), other)
    reference = input.clone().requires_grad_()
    F.smooth_l1_loss(reference, target).backward()
    close(leaf.grad, reference.grad)
