"""Checks the models on Bevel's kernels against the task's and PyTorch's own, and times them.

    python compare.py [--quick] [--no-inline] [--no-compile] [--no-evonorm]

Each call is timed between two CUDA events, with the device idle before it, as harnesses for such tasks do: so the figure
holds what the host adds. Inputs rotate over sets four times the second-level cache. "back to back" is the host's clock
over calls without waiting. Medians, in microseconds; a training step is forward and backward into .grad.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import model


def rotating(make, bytes_each):
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    return [make() for _ in range(max(2, -(-4 * cache // bytes_each)))]


def timed(call, sets, repeats):
    """Medians of event-timed calls from idle, and of calls back to back."""
    for arguments in sets * 2:
        call(*arguments)
    torch.cuda.synchronize()
    singles = []
    for i in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call(*sets[i % len(sets)])
        end.record()
        torch.cuda.synchronize()
        singles.append(1000 * start.elapsed_time(end))
    rounds = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(repeats):
            call(*sets[i % len(sets)])
        torch.cuda.synchronize()
        rounds.append(1e6 * (time.perf_counter() - begin) / repeats)
    return statistics.median(singles), statistics.median(rounds)


def training(forward, upstream=None):
    def step(input, target):
        input.grad = None
        forward(input, target).backward(upstream)

    return step


def check_smooth_l1(candidates, reduction):
    """The largest relative differences of value and gradient from f64, which must stay below 1e-5 (the task: 1e-3)."""
    torch.manual_seed(1)
    input, target = (t.cuda() for t in model.get_inputs())
    exact = input.double().requires_grad_()
    reference = F.smooth_l1_loss(exact, target.double(), reduction=reduction)
    upstream = torch.rand_like(reference) + 0.5
    reference.backward(upstream)
    worst = {}
    for name, forward in candidates.items():
        leaf = input.clone().requires_grad_()
        loss = forward(leaf, target)
        loss.backward(upstream.float())
        torch.testing.assert_close(loss.double(), reference, rtol=1e-3, atol=1e-6)
        scale = reference.detach().abs().max()
        value = ((loss.double() - reference).abs().max() / scale).item()
        gradient = ((leaf.grad.double() - exact.grad).norm() / exact.grad.norm()).item()
        assert value < 1e-5 and gradient < 1e-5, (name, value, gradient)
        worst[name] = (value, gradient)
    return worst


def smooth_l1(options):
    from model_new import ModelNew

    repeats = 100 if options.quick else 300
    for reduction in ("mean", "sum", "none"):
        candidates = {
            "task's model": model.Model(reduction, 1.0).cuda(),
            "F.smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction),
            "Bevel, package": ModelNew(reduction, 1.0).cuda(),
        }
        if not options.no_inline:
            from model_new_inline import ModelNew as Inline

            candidates["Bevel, one file"] = Inline(reduction, 1.0)
        errors = check_smooth_l1(candidates, reduction)
        if not options.no_compile and reduction == "mean":
            candidates["F, compiled"] = torch.compile(candidates["F.smooth_l1_loss"])
        plain = rotating(lambda: [t.cuda() for t in model.get_inputs()], 2 * 4 * model.N * model.C * model.H * model.W)
        leaves = [[a.clone().requires_grad_(), b] for a, b in plain]
        upstream = torch.rand_like(plain[0][0]) if reduction == "none" else None
        print(f"\nsmooth L1, {reduction}, 32x64x56x56 f32: us from idle (back to back)")
        for name, forward in candidates.items():
            f, fb = timed(forward, plain, repeats), timed(training(forward, upstream), leaves, repeats)
            value, gradient = errors.get(name, (0, 0))
            print(f"  {name:18} forward {f[0]:7.1f} ({f[1]:7.1f})   training step {fb[0]:7.1f} ({fb[1]:7.1f})"
                  f"   error {value:.0e} {gradient:.0e}")


def evonorm_step(module):
    def step(x, dy):
        x.grad = None
        for parameter in module.parameters():
            parameter.grad = None
        module(x).backward(dy)

    return step


def evonorm(options):
    import evonorm_model as em

    repeats = 10 if options.quick else 30
    shape = (em.N, em.C, em.H, em.W)
    for variant in ("S0", "B0"):
        for layout in (torch.contiguous_format, torch.channels_last):
            torch.manual_seed(2)
            draw = lambda: torch.randn(shape, device="cuda").to(memory_format=layout)
            sets = [[draw().requires_grad_(), draw()]]
            modules = {"timm": em.norm_of(variant).cuda(), "Bevel": em.new_norm_of(variant).cuda()}
            modules["Bevel"].load_state_dict(modules["timm"].state_dict())
            if not options.no_compile:
                modules["timm, compiled"] = torch.compile(em.norm_of(variant).cuda())
            results = {}
            for name, module in modules.items():
                x, dy = sets[0]
                x.grad = None
                y = module(x)
                y.backward(dy)
                results[name] = (y.detach(), x.grad)
            for mine, theirs in zip(results["Bevel"], results["timm"]):
                torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
            worst = [((a - b).norm() / b.norm()).item() for a, b in zip(results["Bevel"], results["timm"])]
            del results
            kind = "NHWC" if layout == torch.channels_last else "NCHW"
            print(f"\nEvoNorm-{variant}, {'x'.join(map(str, shape))} f32 {kind}: us from idle;"
                  f" Bevel against timm: {worst[0]:.0e} {worst[1]:.0e}")
            for name, module in modules.items():
                with torch.no_grad():
                    f = timed(lambda x, dy: module(x), sets, repeats)
                fb = timed(evonorm_step(module), sets, repeats)
                print(f"  {name:18} forward {f[0]:8.1f}   training step {fb[0]:8.1f}")
    for variant in ("S0", "B0"):
        torch.manual_seed(3)
        blocks = {"timm": em.Block(em.norm_of(variant)).cuda(), "Bevel": em.Block(em.new_norm_of(variant)).cuda()}
        blocks["Bevel"].load_state_dict(blocks["timm"].state_dict())
        x = torch.randn(shape, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
        dy = torch.randn_like(x)
        print(f"\nconvolution 1x1, EvoNorm-{variant}, gate over channels, f32 (tf32 convolution) NHWC")
        outputs = {}
        for name, block in blocks.items():
            outputs[name] = block(x).detach()
            fb = timed(evonorm_step(block), [[x, dy]], repeats)
            with torch.no_grad():
                f = timed(lambda x, dy: block(x), [[x, dy]], repeats)
            print(f"  {name:18} forward {f[0]:8.1f}   training step {fb[0]:8.1f}")
        torch.testing.assert_close(outputs["Bevel"], outputs["timm"], rtol=1e-3, atol=1e-4)


def main():
    parser = argparse.ArgumentParser()
    for flag in ("quick", "no-inline", "no-compile", "no-evonorm"):
        parser.add_argument("--" + flag, action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    smooth_l1(options)
    if not options.no_evonorm:
        evonorm(options)


if __name__ == "__main__":
    main()
