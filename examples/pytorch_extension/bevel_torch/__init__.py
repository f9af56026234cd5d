"""Bevel's kernels as PyTorch modules: ``SmoothL1Loss``, ``smooth_l1_loss``, ``smooth_l1_loss_and_gradient``, ``EvoNorm2d``
and ``evonorm``; and ``backward`` for steps that the host holds up."""

import torch  # loads the libraries that the extension is linked with

from . import _C  # noqa: F401  registers the operators
from . import fake  # noqa: F401
from .backward import backward
from .evonorm import EvoNorm2d, evonorm
from .smooth_l1 import SmoothL1Loss, smooth_l1_loss, smooth_l1_loss_and_gradient

__all__ = ["EvoNorm2d", "SmoothL1Loss", "backward", "evonorm", "smooth_l1_loss", "smooth_l1_loss_and_gradient"]
