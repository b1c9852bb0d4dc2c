#!/bin/sh
# Builds the wheel and the source distribution, installs each into a clean environment, and samples.
# The source distribution is installed without a compiler: it falls back to plain JAX and says so.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip="-m pip install --quiet --disable-pip-version-check"

"$python" -m venv "$folder/build"
"$folder/build/bin/python" $pip build
"$folder/build/bin/python" -m build --outdir "$folder/dist" . > "$folder/build.log" 2>&1 ||
    { tail -20 "$folder/build.log"; exit 1; }
ls -l "$folder/dist"
for part in native/_kernels native/cuda/_launch native/cuda/residual.cu \
    native/cuda/tiles.cuh native/cuda/hopper.cuh; do
    unzip -l "$folder"/dist/*.whl | grep -q "$part" || { echo "no $part in the wheel"; exit 1; }
done
for part in native/kernels/ffi.cc native/cuda/launch.cc native/cuda/residual.cu \
    native/cuda/tiles.cuh native/cuda/hopper.cuh; do
    tar -tzf "$folder"/dist/*.tar.gz | grep -q "$part" || { echo "no $part in the source"; exit 1; }
done

smoke() { # environment; what `hopscale info` must say
    cd "$folder" # not the checkout
    "$1/bin/python" -c "
import numpy as np, hopscale as hs
run = hs.sample(hs.Bernoulli(np.full(50, 0.3)), chains=4, warmup=50, draws=50, progress=False)
assert run.acceptance > 0.2 and hs.__version__, run
print('hopscale', hs.__version__, 'samples')"
    "$1/bin/hopscale" sample bernoulli --size 50 --chains 4 --warmup 50 --draws 50 --json > sample.json
    "$1/bin/python" -c "import json; assert json.load(open('sample.json'))['acceptance'] > 0.2"
    "$1/bin/hopscale" info
    "$1/bin/hopscale" info | grep -q "on cpu.*$2" || { echo "expected: $2"; exit 1; }
    stopped=0
    PYTHONPATH="$folder/stopping" "$1/bin/hopscale" info 2> stopped.log || stopped=$?
    [ "$stopped" = 130 ] && [ "$(cat stopped.log)" = "hopscale: stopped" ] ||
        { echo "Ctrl-C while JAX loads:"; cat stopped.log; exit 1; }
    cd - > /dev/null
}
mkdir "$folder/stopping"
echo "import os, signal; os.kill(os.getpid(), signal.SIGINT)" > "$folder/stopping/jax.py"

"$python" -m venv "$folder/wheel"
"$folder/wheel/bin/python" $pip "$folder"/dist/*.whl
smoke "$folder/wheel" "kernels"

"$python" -m venv "$folder/source"
mkdir "$folder/empty" # no compiler on the path, and none by name
PATH="$folder/empty" CC=/bin/false CXX=/bin/false "$folder/source/bin/python" $pip "$folder"/dist/*.tar.gz
smoke "$folder/source" "plain JAX"
echo "both packages work"
