"""Devices, and the reason where nothing can run."""

import importlib.util
from importlib.machinery import PathFinder

import pytest

def why_not():
    """Why the tests cannot run; None where they can."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        return f"PyTorch is not installed ({error})"
    package = importlib.util.find_spec("bevel_torch")
    if not package or not PathFinder.find_spec("_C", package.submodule_search_locations):
        return "the extension is not built: python setup.py build_ext --inplace"
    return None


class SkippedModule(pytest.Module):
    def collect(self):
        pytest.skip(why_not(), allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return SkippedModule.from_parent(parent, path=module_path) if why_not() else None


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        import torch

        missing = [] if torch.cuda.is_available() else [pytest.mark.skip(reason="no GPU here")]
        metafunc.parametrize("device", ["cpu", pytest.param("cuda", marks=missing)])
