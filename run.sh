#!/usr/bin/env bash
# Builds the box regressor and trains it: on pictures that it draws itself, or on yours.
#
#   ./run.sh                                        drawn pictures, a minute or two on the CPU
#   ./run.sh --data photos/ --format voc            your own pictures (see: ./run.sh --help)
#
# Arguments go to `bbox train`. Missing packages are installed through apt. A GPU is used where there is one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$root/scripts/setup.sh"
. "$root/scripts/build.sh"

bevel_setup build bbox

build=$root/build/cpu
cuda=OFF
if bevel_gpu; then
  if bevel_nvcc; then
    build=$root/build/cuda
    cuda=AUTO
  else
    echo "There is a GPU here but no CUDA toolkit (nvcc): training on the CPU."
  fi
fi

SECONDS=0
bevel_configure "$root" "$build" -DCMAKE_BUILD_TYPE=Release -DBEVEL_CUDA=$cuda -DBEVEL_TESTS=OFF -DBEVEL_BENCH=OFF
bevel_build "$build" bbox
echo "== Built in $(bevel_time $SECONDS)"

SECONDS=0
"$build/examples/bbox_regression/bbox" train "$@"
echo "== Ran for $(bevel_time $SECONDS)"
