"""Builds the C++ kernels. Everything else about the package is in pyproject.toml."""

from pathlib import Path

import jaxlib
from setuptools import Extension, setup

# -fno-math-errno and -fno-trapping-math drop side effects that nobody reads; NaN and infinity
# keep their meaning. `optional`: without a compiler the package works, slower.
kernels = Extension(
    "hopscale.native._kernels",
    sources=["src/hopscale/native/select_ffi.cc"],
    depends=["src/hopscale/native/select_core.h"],
    include_dirs=[str(Path(jaxlib.__file__).parent / "include")],
    extra_compile_args=[
        "-std=c++17",
        "-O3",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fopenmp-simd",
        "-fvisibility=hidden",
    ],
    language="c++",
    optional=True,
)

setup(ext_modules=[kernels])
