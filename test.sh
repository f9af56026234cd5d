#!/usr/bin/env bash
# Builds everything and runs all the tests. CUDA code is built where nvcc is found; its tests run where a GPU is, and
# are counted as skipped elsewhere. The last line is "N passed, N failed, N skipped".
#
#   ./test.sh                       all tests
#   ./test.sh --asan                all tests, then those of the CPU again under AddressSanitizer and UBSan
#   ./test.sh [--asan] -R smooth    other arguments go to ctest
#
# Missing packages are installed through apt. The exit status is 0 if tests ran and none failed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$root/scripts/setup.sh"
. "$root/scripts/build.sh"
. "$root/scripts/counts.sh"

sanitize=false
if [ "${1:-}" = --asan ]; then
  sanitize=true
  shift
fi

passed=0
failed=0
skipped=0

run_tests() {  # build folder, ctest options...
  local build=$1 junit=$1/junit.xml counts
  shift
  rm -f "$junit"
  echo "== Testing $build"
  # What failed is told by the file: ctest also reports failure for reasons that are no test.
  local status=0
  ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(bevel_jobs)" --output-junit "$junit" \
    "$@" || status=$?
  [ -f "$junit" ] || bevel_die "ctest wrote no results (exit status $status)"
  counts=($(bevel_count_results "$junit"))
  grep -o 'skipped: [^<&]*' "$junit" | sort -u || true
  [ "$status" -eq 0 ] || [ "${counts[1]}" -gt 0 ] || bevel_die "ctest ended with exit status $status"
  passed=$((passed + counts[0]))
  failed=$((failed + counts[1]))
  skipped=$((skipped + counts[2]))
}

bevel_setup build bbox test

SECONDS=0
build=$root/build/cpu
cuda=OFF
if bevel_nvcc; then
  build=$root/build/cuda
  cuda=AUTO
fi
bevel_configure "$root" "$build" -DCMAKE_BUILD_TYPE=Release -DBEVEL_CUDA=$cuda -DBEVEL_TESTS=ON -DBEVEL_EXAMPLES=ON \
  -DBEVEL_BENCH=ON
bevel_build "$build"
echo "== Built in $(bevel_time $SECONDS)"
run_tests "$build" "$@"

if $sanitize; then
  (cd "$root" && cmake --preset asan -DBEVEL_BENCH=OFF)
  bevel_build "$root/build/asan"
  ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} \
    run_tests "$root/build/asan" --label-exclude cuda "$@"
fi

echo "== Took $(bevel_time $SECONDS)"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
