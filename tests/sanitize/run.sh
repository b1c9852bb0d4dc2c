#!/bin/sh
# Runs the kernels under the address, undefined-behaviour and thread sanitizers.
set -eu
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for sanitizers in address,undefined thread; do
  for program in sanitize sweeps; do
    ${CXX:-g++} -std=c++17 -O1 -g -fno-math-errno -fno-trapping-math -fopenmp-simd -Wall -Wextra \
      -fsanitize=$sanitizers -fno-sanitize-recover=all -pthread \
      -I ../../src/hopscale/native/kernels $program.cc -o "$out/run"
    echo "$program, $sanitizers: $("$out/run")"
  done
done
