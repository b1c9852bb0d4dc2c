"""Builds the C++ kernels and what launches CUDA kernels. All else is in pyproject.toml."""

from pathlib import Path

import jaxlib
from setuptools import Extension, setup

NATIVE = Path("src/hopscale/native")
KERNELS = NATIVE / "kernels"
INCLUDE = [str(Path(jaxlib.__file__).parent / "include")]

# -fno-math-errno and -fno-trapping-math drop side effects that nobody reads; NaN and infinity
# keep their meaning. `optional`: without a compiler the package works, slower.
kernels = Extension(
    "hopscale.native._kernels",
    sources=[str(KERNELS / "ffi.cc")],
    depends=[str(header) for header in sorted(KERNELS.glob("*.h"))],
    include_dirs=INCLUDE,
    extra_compile_args=[
        "-std=c++17",
        "-O3",
        "-g0",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fopenmp-simd",
        "-fvisibility=hidden",
    ],
    language="c++",
    optional=True,
)

# Launches CUDA kernels; needs neither a GPU nor CUDA to be built.
launcher = Extension(
    "hopscale.native.cuda._launch",
    sources=[str(NATIVE / "cuda" / "launch.cc")],
    include_dirs=INCLUDE,
    libraries=["dl"],
    extra_compile_args=["-std=c++17", "-O2", "-g0", "-fvisibility=hidden"],
    language="c++",
    optional=True,
)

setup(ext_modules=[kernels, launcher])
