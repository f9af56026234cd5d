"""Times calls in PyTorch the way bevel_bench times its own: over rotating sets of tensors, back to back (events on a
GPU, the host's clock everywhere), and in replay of a CUDA graph where the calls can be captured."""

import math
import statistics
import time

try:
    import torch
except ImportError as error:
    raise SystemExit(f"bench/peers needs PyTorch in this Python ({error}); bevel_bench runs without it.") from error


class Workset:
    """One of the rotating sets. run() drops what the last call made, calls, and keeps what it made."""

    def __init__(self, call, leaves=()):
        self.call = call
        self.leaves = list(leaves)
        self.output = None

    def drop(self):
        self.output = None
        for leaf in self.leaves:
            leaf.grad = None

    def run(self):
        self.drop()
        self.output = self.call()


def calls_in_sample(seconds_a_call, seconds):
    return max(1, min(4096, math.ceil(seconds / max(seconds_a_call, 1e-9))))


def sample(take, min_time, least=3):
    """Takes samples until they add up to min_time seconds."""
    samples = [take() for _ in range(least)]
    while sum(samples) < min_time and len(samples) < 10000:
        samples.append(take())
    return samples


class Timer:
    def __init__(self, device, min_time):
        self.device = torch.device(device)
        self.min_time = min_time
        self.is_cuda = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if self.is_cuda else None

    def measure(self, make_sets):
        """Seconds a call: {"graph", "events", "wall"}, and "extra_bytes"; None for what this device does not have."""
        if not self.is_cuda:
            return self._measure_cpu(make_sets())
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            sets = make_sets()  # on this stream, too: gradients are then accumulated on it
            for _ in range(3):
                for each in sets:
                    each.run()
            result = self._back_to_back(sets)
            result["extra_bytes"] = self._extra_memory(sets[0])
            result["graph"] = self._replay(sets, result["events"])
        torch.cuda.synchronize(self.device)
        return result

    def _measure_cpu(self, sets):
        for each in sets * 2:
            each.run()
        begin = time.perf_counter()
        sets[0].run()
        count = calls_in_sample(time.perf_counter() - begin, 1e-3)
        position = 0

        def take():
            nonlocal position
            start = time.perf_counter()
            for i in range(position, position + count):
                sets[i % len(sets)].run()
            position = (position + count) % len(sets)
            return time.perf_counter() - start

        wall = statistics.median(sample(take, self.min_time)) / count
        return {"graph": None, "events": None, "wall": wall, "extra_bytes": None}

    def _run_calls(self, sets, first, count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.stream.synchronize()
        begin = time.perf_counter()
        start.record()
        for i in range(first, first + count):
            sets[i % len(sets)].run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3, time.perf_counter() - begin

    def _back_to_back(self, sets):
        probe_calls = min(len(sets), 8)
        count = calls_in_sample(self._run_calls(sets, 0, probe_calls)[1] / probe_calls, 2e-3)
        events, position = [], 0

        def take():
            nonlocal position
            device, wall = self._run_calls(sets, position, count)
            position = (position + count) % len(sets)
            events.append(device)
            return wall

        wall = statistics.median(sample(take, self.min_time)) / count
        return {"events": statistics.median(events) / count, "wall": wall}

    def _extra_memory(self, each):
        each.drop()
        self.stream.synchronize()
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        each.run()
        return torch.cuda.max_memory_allocated(self.device) - before

    def _replay(self, sets, seconds_a_call):
        """None where the calls cannot be captured."""
        cycles = math.ceil(calls_in_sample(seconds_a_call, 1e-3) / len(sets))
        graph = torch.cuda.CUDAGraph()
        for each in sets:
            each.drop()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                for _ in range(cycles):
                    for each in sets:
                        each.run()
        except RuntimeError as error:
            print(f"    (no graph: {str(error).splitlines()[0]})")
            return None
        graph.replay()

        def take():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()  # so that the time to launch the next one is not counted
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e-3

        seconds = statistics.median(sample(take, self.min_time)) / (cycles * len(sets))
        for each in sets:
            each.drop()
        return seconds


def shape_of(text):
    """2^28, 2^24x4 or 32x64x56x56."""
    return tuple(1 << int(part[2:]) if part.startswith("2^") else int(part) for part in text.split("x"))


DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


def uniform(shape, dtype, device, low=-2.0, high=2.0):
    return torch.empty(shape, dtype=torch.float32, device=device).uniform_(low, high).to(dtype)


def compiled(function):
    """A fresh compilation for fixed shapes."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)
