#!/usr/bin/env bash
# Checks the formatting of all C++ and CUDA sources; with --fix formats them; with --tidy also runs clang-tidy over the
# C++ sources of a configured build folder (`./scripts/lint.sh --tidy build/cpu core/tensor.cpp ...`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool() {  # the newest of NAME-19, NAME
  command -v "$1-19" || command -v "$1" || { echo "error: $1 19 is needed (Debian: $1-19)" >&2; exit 1; }
}

mode=${1:-}
case $mode in
  --tidy)
    build=${2:?usage: scripts/lint.sh --tidy BUILD [FILES...]}
    shift 2
    [ $# -gt 0 ] || mapfile -t files < <(git ls-files '*.cpp')
    [ $# -eq 0 ] || files=("$@")
    "$(tool clang-tidy)" -p "$build" --quiet --warnings-as-errors='*' "${files[@]}"
    ;;
  "" | --fix)
    mapfile -t files < <(git ls-files '*.h' '*.cuh' '*.cpp' '*.cu')
    options=(--dry-run -Werror)
    [ -z "$mode" ] || options=(-i)
    "$(tool clang-format)" "${options[@]}" "${files[@]}"
    ;;
  *)
    echo "usage: scripts/lint.sh [--fix | --tidy BUILD [FILES...]]" >&2
    exit 2
    ;;
esac
