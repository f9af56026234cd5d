"""Builds Bevel (with CMake, unless BEVEL_ROOT names a build or install folder of it) and the extension on top of it.

    pip install --no-build-isolation examples/pytorch_extension

BEVEL_ROOT       a CMake build folder or an install prefix of Bevel, compiled with position-independent code
BEVEL_CUDA       ON or OFF; by default ON where PyTorch has CUDA and there is an nvcc
TORCH_CUDA_ARCH_LIST  the architectures, such as "8.0;9.0"; by default those of the GPUs here
"""

import os
import pathlib
import subprocess

import torch
from setuptools import setup
from torch.utils import cpp_extension

here = pathlib.Path(__file__).resolve().parent
repository = here.parents[1]


def wants_cuda():
    choice = os.environ.get("BEVEL_CUDA", "").upper()
    if choice:
        return choice == "ON"
    return torch.version.cuda is not None and cpp_extension.CUDA_HOME is not None


def architectures():
    """For CMake: 80;90 from "8.0;9.0+PTX", or from the GPUs here."""
    listed = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    names = [name.split("+")[0].replace(".", "") for name in listed.replace(" ", ";").split(";") if name]
    if not names and torch.cuda.is_available():
        names = ["%d%d" % torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())]
    return ";".join(sorted(set(names))) or "80;90"


def build_bevel(cuda):
    folder = here / "build" / ("bevel-cuda" if cuda else "bevel-cpu")
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBEVEL_TESTS=OFF", "-DBEVEL_EXAMPLES=OFF", "-DBEVEL_BENCH=OFF"]
    options.append("-DBEVEL_CUDA=" + ("ON" if cuda else "OFF"))
    if cuda:
        options.append("-DCMAKE_CUDA_ARCHITECTURES=" + architectures())
        options.append("-DCMAKE_CUDA_COMPILER=" + os.path.join(cpp_extension.CUDA_HOME, "bin", "nvcc"))
    generator = ["-G", "Ninja"] if cpp_extension.is_ninja_available() else []
    subprocess.run(["cmake", "-S", repository, "-B", folder, *generator, *options], check=True)
    jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
    subprocess.run(["cmake", "--build", folder, "--target", "bevel", "--parallel", jobs], check=True)
    return folder


def library_of(root):
    for folder in (root, root / "lib", root / "lib64"):
        found = sorted(folder.glob("libbevel.a")) + sorted(folder.glob("*/libbevel.a"))
        if found:
            return found[0]
    raise SystemExit(f"BEVEL_ROOT is {root}, but there is no libbevel.a in it")


def extension():
    cuda = wants_cuda()
    given = os.environ.get("BEVEL_ROOT")
    root = pathlib.Path(given) if given else build_bevel(cuda)
    names = ["smooth_l1_kernels", "smooth_l1_autograd", "evonorm", "backward", "module"]
    sources = [f"csrc/{name}.cpp" for name in names]
    flags = ["-std=c++20", "-O2", "-fvisibility=hidden"]
    if cuda:
        sources.append("csrc/stream_workspace.cpp")
        flags.append("-DBEVEL_TORCH_CUDA")
    kind = cpp_extension.CUDAExtension if cuda else cpp_extension.CppExtension
    return kind(
        "bevel_torch._C",
        sources,
        include_dirs=[str(root / "include"), str(here / "csrc")],
        extra_objects=[str(library_of(root))],
        extra_compile_args={"cxx": flags},
        extra_link_args=["-Wl,--exclude-libs,ALL"],
    )


setup(ext_modules=[extension()], cmdclass={"build_ext": cpp_extension.BuildExtension})
