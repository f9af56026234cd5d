"""loss.backward() for steps that the host holds up."""

import torch

from . import _C


def backward(loss):
    """``loss.backward()`` with the same result, in the calling thread.

    PyTorch's engine hands what belongs to a GPU to a thread of that device and waits for it, which takes longer than a
    small step's work. ``torch.autograd.set_multithreading_enabled(False)`` spares that; this does so for one call, and
    starts from a number 1 that is there already. Any loss will do, not only those of this package. With several GPUs in
    one graph their parts are no longer queued side by side.
    """
    if not _C.backward(loss):
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward()
