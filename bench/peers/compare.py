"""Runs bevel_bench and the same cases in PyTorch, on the same device in the same run, and prints one table.

    python3 bench/peers/compare.py --bench build/cuda/bench/bevel_bench smooth_l1 --quick
    python3 bench/peers/compare.py --device cpu --threads 2 smooth_l1

Times are microseconds a call: `gpu` is the replay of a CUDA graph over rotating tensors, `wall` the host's clock over
calls made back to back. A ratio above 1 says that Bevel is so many times faster. Where the peer cannot be captured in a
graph, its time between events stands in for `gpu`."""

import argparse
import gc
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

PEER_MODULES = {"smooth_l1": "losses", "losses": "losses", "evonorm": "evonorm", "conv2d": "conv2d",
                "regressor": "regressor", "optimizer": "optimizer"}
ROW = "  {:<22} {:>11} {:>8} {:>11} {:>8} {:>11}"


def parse_arguments(default_group):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", nargs="*", default=default_group,
                        help="smooth_l1, losses, evonorm, conv2d, regressor, optimizer")
    parser.add_argument("--bench", help="the bevel_bench program; default: the newest under build*/")
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 or auto")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of both; default: all")
    parser.add_argument("--min-time", type=float, default=0.0, help="seconds of samples for each figure")
    parser.add_argument("--filter", default="", help="regular expression on the names of cases")
    parser.add_argument("--shape", default="", help="passed to bevel_bench")
    parser.add_argument("--dtype", default="", help="passed to bevel_bench")
    parser.add_argument("--quick", action="store_true", help="the cases that matter most")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes seconds a case")
    parser.add_argument("--peers", default="", help="regular expression on the names of peers: only these")
    parser.add_argument("--json", help="write everything to this file")
    arguments = parser.parse_args()
    unknown = [group for group in arguments.group if group not in PEER_MODULES]
    if unknown:
        parser.error(f"unknown group {unknown[0]}; expected some of {', '.join(PEER_MODULES)}")
    return arguments


def find_bench(arguments):
    if arguments.bench:
        return arguments.bench
    found = [*ROOT.glob("build*/bench/bevel_bench"), *ROOT.glob("build/*/bench/bevel_bench")]
    if not found:
        raise SystemExit("bevel_bench is not built: build the target bevel_bench, or point to it with --bench")
    return str(max(found, key=lambda path: path.stat().st_mtime))


def run_bench(arguments, group, device):
    command = [find_bench(arguments), group, "--device", device]
    for option in ("filter", "shape", "dtype"):
        if getattr(arguments, option):
            command += [f"--{option}", getattr(arguments, option)]
    if arguments.threads:
        command += ["--threads", str(arguments.threads)]
    if arguments.min_time:
        command += ["--min-time", str(arguments.min_time)]
    if arguments.quick:
        command += ["--quick"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        status = subprocess.run([*command, "--json", str(path)], check=False)
        if not path.exists():
            raise SystemExit(f"bevel_bench {group} ended with {status.returncode}")
        return json.loads(path.read_text())


def micros(seconds):
    if seconds is None:
        return "-"
    value = seconds * 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def ratio(peer, own):
    return f"{peer / own:.2f}x" if peer and own else ""


def megabytes(count):
    return "-" if count is None else f"{count * 1e-6:.2f}"


def measure_peers(report, module, timer, device, arguments):
    """Adds "peers" to every result that has some: {name: {"graph", "events", "wall", "extra_bytes"}}."""
    for case in report["results"]:
        if "error" in case:
            continue
        print(case["name"])
        print_bevel(case)
        case["peers"] = {}
        for name in module.peers_of(case):
            if arguments.no_compile and name.split()[-1] in ("compile", "hand"):
                continue
            if not re.search(arguments.peers, name):
                continue
            try:
                times = timer.measure(lambda: module.make_sets(case, name, device, case["sets"]))
            except Exception as error:  # a peer that fails must not end the comparison
                times = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
            case["peers"][name] = times
            print_peer(case, name, times)
            release_memory(timer)


def release_memory(timer):
    import torch

    gc.collect()
    if timer.is_cuda:
        torch.cuda.empty_cache()


def gpu_seconds(times):
    return times["graph"] or times["events"]


def print_bevel(case):
    name = "bevel" + (f" {case['variant']}" if case["variant"] else "")
    gpu = case["graph_us"] or case["events_us"]
    share = f"{100 * case['share_of_plain']:.0f} % of what plain kernels reach"
    print(ROW.format(name, micros(gpu and gpu * 1e-6), "", micros(case["wall_us"] * 1e-6), "",
                     megabytes(case["extra_bytes"])), " ", share, flush=True)


def print_peer(case, name, times):
    if "error" in times:
        print(f"  torch {name:<16} failed: {times['error']}", flush=True)
        return
    own_gpu = case["graph_us"] or case["events_us"]
    gpu = gpu_seconds(times)
    print(ROW.format(f"torch {name}", micros(gpu), ratio(gpu, own_gpu and own_gpu * 1e-6), micros(times["wall"]),
                     ratio(times["wall"], case["wall_us"] * 1e-6), megabytes(times["extra_bytes"])), flush=True)


def main(default_group=("smooth_l1",)):
    arguments = parse_arguments(list(default_group))
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"PyTorch cannot be imported by {sys.executable} ({error}). Install it, or run bevel_bench "
                         "alone.") from error
    from timing import Timer

    device = arguments.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)

    reports = []
    for group in arguments.group:
        report = run_bench(arguments, group, device)
        threads = report["context"]["threads"]
        if device == "cpu" and threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        timer = Timer(device, report["context"]["min_time"])
        print(f"\n{group}: Bevel beside PyTorch {torch.__version__} on {report['context']['device_name']}, "
              f"{threads} CPU threads")
        print(ROW.format("us a call", "gpu", "ratio", "wall", "ratio", "extra MB"))
        report["context"]["torch"] = torch.__version__
        measure_peers(report, importlib.import_module(PEER_MODULES[group]), timer, device, arguments)
        reports.append(report)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=2) + "\n")


if __name__ == "__main__":
    main()
