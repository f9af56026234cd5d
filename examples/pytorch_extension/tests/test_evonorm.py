"""EvoNorm against the formulas written plainly, and against timm's layers where timm is installed."""

import pytest
import torch

from bevel_torch import EvoNorm2d, evonorm

VARIANTS = ["B0", "B1", "B2", "S0", "S1", "S2"]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def plain(x, weight, bias, v=None, running_var=None, *, variant="S0", groups=4, eps=1e-5, training=True):
    """The formulas of the paper."""
    shape = (1, -1, 1, 1)
    n, c, h, w = x.shape
    if variant.startswith("S"):
        grouped = x.reshape(n, groups, -1)
        square = grouped.square().mean(2) if variant == "S2" else grouped.var(2, unbiased=False)
        deviation = (square + eps).sqrt().repeat_interleave(c // groups, 1)[:, :, None, None]
        gate = torch.sigmoid(v.view(shape) * x if variant == "S0" else x)
        z = x * gate / deviation
    else:
        variance = x.var((0, 2, 3), unbiased=False) if training else running_var
        batch = (variance + eps).sqrt().view(shape)
        mean_square = x.square().mean((2, 3), keepdim=True)
        if variant == "B0":
            other = v.view(shape) * x + (x.var((2, 3), unbiased=False, keepdim=True) + eps).sqrt()
        elif variant == "B1":
            other = (x + 1) * (mean_square + eps).sqrt()
        else:
            other = (mean_square + eps).sqrt() - x
        z = x / torch.maximum(batch, other)
    return z * weight.view(shape) + bias.view(shape)


def inputs(variant, device, dtype=torch.float32, shape=(3, 8, 6, 5), seed=0):
    generator = torch.Generator().manual_seed(seed)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    draw = lambda size, at: (torch.randn(size, generator=generator, dtype=torch.float64) * 0.5 + at).to(device)
    c = shape[1]
    x = (draw(shape, 0.3) * 2).to(dtype)
    parameters = [draw((c,), at).to(wide) for at in (1.0, 0.0, 1.0)]
    if variant not in ("B0", "S0"):
        parameters[2] = None
    running = (draw((c,), 2.0).abs() + 0.1).to(wide) if variant.startswith("B") else None
    return x, *parameters, running


def close(actual, expected, tolerance):
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_agrees_with_the_formulas(device, variant, training, layout, dtype):
    x, weight, bias, v, running = inputs(variant, device, dtype)
    own = [None if t is None else t.clone().requires_grad_() for t in (x, weight, bias, v)]
    own[0] = x.clone(memory_format=layout).requires_grad_()
    reference = [None if t is None else t.double().requires_grad_() for t in (x, weight, bias, v)]
    used = None if running is None else running.clone()
    y = evonorm(*own, used, variant=variant, groups=4, training=training)
    expected = plain(*reference, None if running is None else running.double(), variant=variant, training=training)
    assert y.dtype == dtype and y.is_contiguous(memory_format=layout)
    close(y, expected, TOLERANCE[dtype])
    upstream = torch.randn(y.shape, dtype=torch.float64).to(device=device, dtype=dtype)
    y.backward(upstream)
    expected.backward(upstream.double())
    for mine, other in zip(own, reference):
        if mine is not None:
            assert mine.grad.dtype == mine.dtype
            scale = max(1.0, other.grad.abs().max().item())
            close(mine.grad / scale, other.grad / scale, TOLERANCE[dtype])
    if running is not None:
        variance = x.double().var((0, 2, 3), unbiased=False)
        close(used, (0.9 * running + 0.1 * variance) if training else running, 1e-5)


def test_modules_agree_with_timm(device):
    layers = pytest.importorskip("timm.layers", reason="timm is not installed")
    x = inputs("S0", device, shape=(4, 32, 7, 7))[0]
    for variant in VARIANTS:
        kind = getattr(layers, f"EvoNorm2d{variant}")
        theirs = kind(32, groups=8, eps=1e-5) if variant.startswith("S") else kind(32, eps=1e-5)
        theirs = theirs.to(device)
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, 1.0, 0.2)
        mine = EvoNorm2d(32, variant, groups=8).to(device)
        mine.load_state_dict(theirs.state_dict())
        for training in (False, True):  # timm's running_var is unbiased
            theirs.train(training), mine.train(training)
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            actual, expected = mine(a), theirs(b)
            close(actual, expected, 3e-5)
            actual.square().sum().backward()
            expected.square().sum().backward()
            close(a.grad, b.grad, 2e-4)


def test_without_the_nonlinearity(device):
    for variant in VARIANTS:
        x = inputs(variant, device)[0]
        layer = EvoNorm2d(8, variant, groups=4, apply_act=False).to(device)
        torch.nn.init.normal_(layer.weight)
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        close(y, x * layer.weight.view(1, -1, 1, 1), 1e-6)
        y.sum().backward()
        close(leaf.grad, layer.weight.detach().view(1, -1, 1, 1).expand_as(x), 1e-6)
        if layer.running_var is not None:
            assert torch.equal(layer.running_var, torch.ones_like(layer.running_var))


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradcheck(device, variant):
    x, weight, bias, v, running = inputs(variant, device, torch.float64, (2, 4, 3, 3))
    for training in (True, False):
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias, v) if t is not None]
        call = lambda *t: evonorm(*t[:3], t[3] if len(t) > 3 else None, running, variant=variant, groups=2,
                                  training=training)
        assert torch.autograd.gradcheck(call, leaves)


@pytest.mark.parametrize("variant", VARIANTS)
def test_opcheck(device, variant):
    code = {"B0": 0, "B1": 1, "B2": 2, "S0": 3, "S1": 4, "S2": 5}[variant]
    for training in (True, False):
        x, weight, bias, v, running = inputs(variant, device)
        torch.library.opcheck(
            torch.ops.bevel.evonorm.default, (x, weight, bias, v, running, code, 4, 1e-5, 0.1, training)
        )
        leaves = [None if t is None else t.clone().requires_grad_() for t in (x, weight, bias, v)]
        torch.library.opcheck(
            torch.ops.bevel.evonorm.default, (*leaves, running, code, 4, 1e-5, 0.1, training),
            test_utils=("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static",
                        "test_aot_dispatch_dynamic") if running is None or not training else
            ("test_schema", "test_autograd_registration", "test_faketensor"),
        )


@pytest.mark.parametrize("variant", ["B0", "S0"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_without_graph_breaks(device, variant, dynamic):
    torch.manual_seed(0)
    layer = EvoNorm2d(8, variant, groups=4).to(device)
    other = EvoNorm2d(8, variant, groups=4).to(device)
    compiled = torch.compile(lambda x: layer(x * 2) * 0.5, fullgraph=True, dynamic=dynamic)
    for size in [4, 6]:
        x = torch.randn(3, 8, size, 5, device=device)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        actual, expected = compiled(a), other(b * 2) * 0.5
        close(actual, expected, 1e-6)
        actual.square().sum().backward()
        expected.square().sum().backward()
        close(a.grad, b.grad, 1e-5)
        close(layer.v.grad, other.v.grad, 1e-4)
        if variant == "B0":
            close(layer.running_var, other.running_var, 1e-6)


def test_autocast_and_half_parameters(device):
    x = torch.randn(2, 8, 6, 6, device=device)
    convolution = torch.nn.Conv2d(8, 8, 3, padding=1).to(device)
    layer = EvoNorm2d(8, "B0").to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = layer(convolution(x))
    assert y.dtype == torch.bfloat16
    y.float().square().sum().backward()
    assert layer.weight.grad.dtype == torch.float32 and convolution.weight.grad is not None

    half = EvoNorm2d(8, "B0", device=device, dtype=torch.bfloat16)
    y = half(x.bfloat16())
    assert y.dtype == torch.bfloat16 and not torch.equal(half.running_var, torch.ones_like(half.running_var))
    y.float().square().sum().backward()
    assert half.weight.grad.dtype == torch.bfloat16


def test_non_contiguous_inputs(device):
    x, weight, bias, v, _ = inputs("S0", device, shape=(3, 16, 10, 5))
    for view in (x[:, ::2], x[:, :8].transpose(2, 3), x[:, :8, ::2]):
        small = [t[:8].contiguous() for t in (weight, bias, v)]
        close(evonorm(view, *small, groups=4), plain(view, *small), 1e-5)


def test_empty_batch(device):
    for variant in ("B0", "S0"):
        layer = EvoNorm2d(8, variant, groups=4).to(device)
        x = torch.empty(0, 8, 4, 4, device=device, requires_grad=True)
        y = layer(x)
        assert y.shape == x.shape
        y.sum().backward()
        assert x.grad.shape == x.shape and torch.equal(layer.weight.grad, torch.zeros_like(layer.weight))


def test_errors(device):
    with pytest.raises(ValueError, match="not a variant"):
        EvoNorm2d(8, "S3")
    with pytest.raises(ValueError, match="divisible by groups"):
        EvoNorm2d(9, "S0", groups=4)
    layer = EvoNorm2d(8, "S0", groups=4).to(device)
    with pytest.raises(RuntimeError, match="expected 4D input"):
        layer(torch.zeros(8, 3, 3, device=device))
    with pytest.raises(RuntimeError, match="weight must have the 4 channels"):
        layer(torch.zeros(1, 4, 3, 3, device=device))
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        layer(torch.zeros(1, 8, 3, 3, device=device, dtype=torch.long))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("variant", VARIANTS)
def test_graphs(variant):
    layer = EvoNorm2d(32, variant, groups=8).cuda()
    x = torch.randn(4, 32, 28, 28, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layer(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    x.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x)
        y.square().sum().backward()
    graph.replay()
    leaf = x.detach().clone().requires_grad_()
    expected = layer(leaf)
    expected.square().sum().backward()
    torch.cuda.synchronize()
    assert torch.equal(y, expected)
    assert torch.equal(x.grad, leaf.grad)
