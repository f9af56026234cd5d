#!/usr/bin/env bash
# Checks that the loop of a user's formula, in the program $1, was vectorised for AVX2. Exit status 77: cannot tell.
set -euo pipefail

command -v objdump > /dev/null || exit 77
products=$(objdump -d --no-show-raw-insn -C "$1" |
  awk '/^[0-9a-f]+ </ { inside = /run_x86_64_v3.*float, Cauchy/ } inside && /vmulps.*%ymm/ { ++n } END { print n + 0 }')
if [ "$products" -eq 0 ]; then
  echo "no product of eight floats in the loop of Cauchy in $1" >&2
  exit 1
fi
