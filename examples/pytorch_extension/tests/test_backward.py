"""bevel_torch.backward against loss.backward()."""

import pytest
import torch
import torch.nn.functional as F

from bevel_torch import SmoothL1Loss, backward, smooth_l1_loss


def operands(device, dtype=torch.float32, shape=(33, 5)):
    generator = torch.Generator().manual_seed(7)
    draw = lambda: torch.randn(shape, generator=generator).to(device=device, dtype=dtype)
    return draw(), draw()


def gradients(run, make_loss, input, target):
    leaves = [tensor.clone().requires_grad_() for tensor in (input, target)]
    run(make_loss(*leaves))
    return [leaf.grad for leaf in leaves]


LOSSES = [
    smooth_l1_loss,
    SmoothL1Loss("sum", beta=0.3),
    F.smooth_l1_loss,
    lambda a, b: smooth_l1_loss(a * b, b) * 3 + (a * a).mean(),
    lambda a, b: smooth_l1_loss(a, b, reduction="none").mean(),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("make_loss", LOSSES)
def test_gives_the_same_bits(device, dtype, make_loss):
    input, target = operands(device, dtype)
    expected = gradients(lambda loss: loss.backward(), make_loss, input, target)
    for _ in range(2):
        for mine, reference in zip(gradients(backward, make_loss, input, target), expected):
            assert torch.equal(mine, reference)


def test_accumulates(device):
    input, target = operands(device)
    leaf, other = input.clone().requires_grad_(), input.clone().requires_grad_()
    for _ in range(3):
        backward(smooth_l1_loss(leaf, target))
        smooth_l1_loss(other, target).backward()
    assert torch.equal(leaf.grad, other.grad)


def test_leaves_settings_alone(device):
    enabled = torch._C._is_multithreading_enabled
    input, target = operands(device)
    for before in (True, False):
        with torch.autograd.set_multithreading_enabled(before):
            backward(smooth_l1_loss(input.clone().requires_grad_(), target))
            assert enabled() == before
    with pytest.raises(RuntimeError):
        backward(smooth_l1_loss(input, target))  # nothing requires a gradient
    assert enabled()


def test_second_time_is_an_error(device):
    input, target = operands(device)
    loss = smooth_l1_loss(input.requires_grad_(), target)
    backward(loss)
    with pytest.raises(RuntimeError, match="second time"):
        backward(loss)


def test_more_than_a_number(device):
    input, target = operands(device, shape=(1,))
    expected = gradients(lambda loss: loss.backward(), lambda a, b: (a - b) ** 2, input, target)
    assert all(map(torch.equal, gradients(backward, lambda a, b: (a - b) ** 2, input, target), expected))
    input, target = operands(device)
    with pytest.raises(RuntimeError, match="scalar"):
        backward(smooth_l1_loss(input.requires_grad_(), target, reduction="none"))


def test_hooks_and_retained_gradients(device):
    input, target = operands(device)
    expected = gradients(lambda loss: (loss * 2).backward(), smooth_l1_loss, input, target)

    def run(hook):
        def of(loss):
            loss.register_hook(hook)
            backward(loss)

        return of

    doubled = [lambda g: g * 2, lambda g: g.mul_(2)]  # the second breaks PyTorch's rules
    for hook in doubled:
        for mine, reference in zip(gradients(run(hook), smooth_l1_loss, input, target), expected):
            assert torch.equal(mine, reference)
    once = gradients(lambda loss: loss.backward(), smooth_l1_loss, input, target)
    assert all(map(torch.equal, gradients(backward, smooth_l1_loss, input, target), once))
    loss = smooth_l1_loss(input.clone().requires_grad_(), target)
    loss.retain_grad()
    backward(loss)
    loss.grad.zero_()
    assert all(map(torch.equal, gradients(backward, smooth_l1_loss, input, target), once))


def test_errors_in_hooks_come_through(device):
    def fail(gradient):
        raise KeyError("mine")

    leaf = operands(device)[0].requires_grad_()
    leaf.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        backward(smooth_l1_loss(leaf, torch.zeros_like(leaf)))


def test_under_modes(device):
    input, target = operands(device)
    expected = gradients(lambda loss: loss.backward(), smooth_l1_loss, input, target)
    with torch.profiler.profile() as profile:
        actual = gradients(backward, smooth_l1_loss, input, target)
    assert all(map(torch.equal, actual, expected))
    assert any("bevel::smooth_l1_loss" in event.key for event in profile.key_averages())
    with torch.autocast(device, dtype=torch.bfloat16), torch.device(device):
        assert all(map(torch.equal, gradients(backward, smooth_l1_loss, input, target), expected))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_streams_and_graphs():
    input, target = operands("cuda", shape=(1 << 16,))
    expected = gradients(lambda loss: loss.backward(), smooth_l1_loss, input, target)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for dtype in (torch.float32, torch.float16):  # of the second there may be no 1 yet when the recording begins
            leaf, fixed = input.clone().to(dtype).requires_grad_(), target.to(dtype)
            if dtype == torch.float32:
                backward(smooth_l1_loss(leaf, fixed))
                leaf.grad = None
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=side):
                loss = smooth_l1_loss(leaf, fixed)
                backward(loss)
            leaf.grad.zero_()
            graph.replay()
            torch.cuda.synchronize()
            reference = expected[0] if dtype == torch.float32 else gradients(
                lambda loss: loss.backward(), smooth_l1_loss, leaf.detach(), fixed)[0]
            assert torch.equal(leaf.grad, reference)
