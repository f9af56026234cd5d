# Sourced by run.sh and test.sh: choosing a build folder, configuring and building in it.

bevel_nvcc() {
  command -v nvcc > /dev/null || [ -n "${CUDACXX:-}" ] || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]
}

bevel_gpu() {
  command -v nvidia-smi > /dev/null && nvidia-smi -L 2> /dev/null | grep -q '^GPU '
}

# As many compilations at once as there are processors, with 1.5 GB of memory for each.
bevel_jobs() {
  local jobs memory
  jobs=$(nproc 2> /dev/null || echo 2)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo 2> /dev/null || true)
  if [ -n "$memory" ] && [ "$memory" -lt "$jobs" ]; then
    jobs=$memory
  fi
  echo $((jobs > 1 ? jobs : 1))
}

bevel_configure() {  # source folder, build folder, CMake options...
  local source=$1 build=$2 generator=()
  shift 2
  [ -f "$build/CMakeCache.txt" ] || generator=(-G Ninja)
  echo "== Configuring $build"
  cmake -S "$source" -B "$build" "${generator[@]}" "$@"
}

bevel_build() {  # build folder, targets...
  local build=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  echo "== Building $build"
  cmake --build "$build" --parallel "$(bevel_jobs)" "${targets[@]}"
}

bevel_time() {  # seconds
  printf '%d min %02d s' $(($1 / 60)) $(($1 % 60))
}
