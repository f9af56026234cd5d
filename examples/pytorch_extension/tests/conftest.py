"""Devices, and the reason where nothing can run."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("bevel_torch", reason="the extension is not built: pip install --no-build-isolation .")


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        missing = [] if torch.cuda.is_available() else [pytest.mark.skip(reason="no GPU here")]
        metafunc.parametrize("device", ["cpu", pytest.param("cuda", marks=missing)])
