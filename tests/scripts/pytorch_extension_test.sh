#!/usr/bin/env bash
# Builds the PyTorch extension against a build folder of Bevel and runs its tests.
#
#   pytorch_extension_test.sh SOURCE BUILD CUDA     CUDA is ON or OFF, as Bevel was built
#
# Exit status 77, with the reason, where there is no PyTorch to test with. BEVEL_PYTHON names another python3.
set -euo pipefail
source=$1
build=$2
cuda=$3
python=${BEVEL_PYTHON:-python3}

skip() {
  echo "skipped: PyTorch extension: $*"
  exit 77
}

command -v "$python" > /dev/null || skip "there is no $python"
for module in torch pytest setuptools ninja; do
  "$python" -c "import $module" 2> /dev/null || skip "$python has no module $module"
done
has_cuda=$("$python" -c "import torch; print('ON' if torch.version.cuda else 'OFF')")
if [ "$cuda" = ON ] && [ "$has_cuda" = OFF ]; then
  skip "Bevel is built with CUDA, PyTorch without"
fi

copy=$build/pytorch_extension
mkdir -p "$copy"
for part in bevel_torch csrc tests setup.py pyproject.toml; do
  rm -rf "${copy:?}/$part"
  cp -r "$source/examples/pytorch_extension/$part" "$copy/"
done
cd "$copy"
if [ "$cuda" = ON ] && [ -z "${TORCH_CUDA_ARCH_LIST:-}" ] && ! "$python" -c \
  "import torch, sys; sys.exit(not torch.cuda.is_available())"; then
  export TORCH_CUDA_ARCH_LIST="8.0;9.0"
fi
BEVEL_ROOT=$build BEVEL_CUDA=$cuda "$python" setup.py -q build_ext --inplace > build.log 2>&1 || {
  tail -30 build.log
  exit 1
}
"$python" -m pytest -q --no-header -rs tests
