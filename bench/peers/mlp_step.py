"""PyTorch's side of `bevel_bench mlp_step`: one step of an MLP 64-128-128-4 (ReLU, smooth L1, Adam) on the same batches,
eager, eager recorded as one CUDA graph, and compiled with CUDA graphs.

    python3 bench/peers/mlp_step.py [--device cuda] [--min-time 0.5] [--no-compile]
"""

import argparse
import statistics
import time

import torch


def make_step(batch, device, fused):
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 4),
    ).to(device)
    capturable = {"capturable": True} if device == "cuda" else {}
    optimizer = torch.optim.Adam(net.parameters(), fused=fused, **capturable)
    x = torch.rand(batch, 64, device=device) * 4 - 2
    y = torch.rand(batch, 4, device=device) * 4 - 2

    def forward_backward():
        loss = torch.nn.functional.smooth_l1_loss(net(x), y)
        loss.backward()
        return loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward_backward()
        optimizer.step()
        return loss

    return net, optimizer, (x, y), step


def record(step):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def compiled(batch, device):
    net, optimizer, (x, y), _ = make_step(batch, device, fused=True)

    @torch.compile(mode="reduce-overhead")
    def loss_of(inputs, targets):
        return torch.nn.functional.smooth_l1_loss(net(inputs), targets)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(x, y).backward()
        optimizer.step()

    return step


def measure(step, device, min_time):
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(20):
        step()
    wait()
    samples = []
    while sum(samples) < min_time:
        begin = time.perf_counter()
        for _ in range(50):
            step()
        wait()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples) / 50 * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--min-time", type=float, default=0.5)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = options.device
    print(f"PyTorch {torch.__version__} on {device}: microseconds a step")
    for batch in (64, 4096):
        variants = {"eager": lambda: make_step(batch, device, False)[3]}
        variants["eager, fused Adam"] = lambda: make_step(batch, device, True)[3]
        if device == "cuda":
            variants["recorded as one CUDA graph"] = lambda: record(make_step(batch, device, True)[3])
            if not options.no_compile:
                variants["compiled with CUDA graphs"] = lambda: compiled(batch, device)
        for name, make in variants.items():
            print(f"batch {batch:5}, {name:28} {measure(make(), device, options.min_time):9.1f}", flush=True)


if __name__ == "__main__":
    main()
