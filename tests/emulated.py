"""The CUDA kernel for residual networks, run on a CPU: `hopper/hopper.cuh` says how."""

import ctypes
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hopscale.native import cuda

HERE = Path(__file__).parent / "hopper"
THREADS = 160  # a block, as in launch.cc
FLAGS = ["-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-unknown-pragmas"]


class Emulated:
    """The kernel for images of one size, compiled from its source for this machine.

    With `wide`, what it stores as bfloat16 is not rounded. `changes` are pairs of texts: the second
    is put in place of the first, to break it.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], wide: bool = True, changes=()):
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        if shutil.which(compiler[0]) is None:
            pytest.skip(f"no C++ compiler: {compiler[0]} is not to be found")
        texts = {file.name: file.read_text() for file in cuda.FOLDER.glob("*.cu*")}
        texts |= {file.name: file.read_text() for file in HERE.iterdir()}
        for old, new in changes:
            name, *_ = (name for name, text in sorted(texts.items()) if old in text)
            texts[name] = texts[name].replace(old, new, 1)
        for name, text in texts.items():
            (folder / name).write_text(text)
        numbers = {"HEIGHT": shape[0], "WIDTH": shape[1], **cuda.TUNING}
        defined = [f"-D{name}={value}" for name, value in numbers.items()]
        defined += ["-DWIDE"] if wide else []
        built = folder / "residual.so"
        include = ["-I", str(folder)]
        source = str(folder / "residual.cc")
        command = [*compiler, *FLAGS, *defined, *include, source, "-o", str(built)]
        subprocess.run(command, check=True)
        self.compiled = ctypes.CDLL(str(built))
        self.compiled.run.restype = ctypes.c_bool

    def __call__(self, images, weights, seed: int = 0):
        """Energies and gradients of a batch, in which images and weights may have size 1."""
        arrays = [
            np.ascontiguousarray(images, np.float32),
            np.ascontiguousarray(weights.stream).view(np.uint16),
            np.ascontiguousarray(weights.vectors),
        ]
        outer = [a.shape[:-inner] for a, inner in zip(arrays, (2, 4, 2), strict=True)]
        batch = np.broadcast_shapes(*outer)
        outer = [(1,) * (len(batch) - len(shape)) + shape for shape in outer]
        each, described = describe(*outer, batch)
        count, cluster = int(np.prod(batch)), cuda.TUNING["CLUSTER"]
        grid = count // each * (-(-each // cluster) * cluster)
        energies = np.full(batch, np.nan, np.float32)
        gradients = np.full((*batch, *arrays[0].shape[-2:]), np.nan, np.float32)
        error = ctypes.create_string_buffer(200)
        first, *rest = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, energies, gradients)]
        blocks = arrays[1].shape[-4]
        ran = self.compiled.run(
            grid, THREADS, seed, first, *rest, blocks, each, described, count, error, len(error)
        )
        if not ran:
            raise RuntimeError(error.value.decode())
        return energies, gradients


def describe(images, weights, vectors, batch) -> tuple[int, ctypes.Array]:
    """How many in succession have the same weights, and the batch as kernels take it."""
    try:
        library = cuda._library()
    except cuda.UnavailableError as error:
        pytest.skip(str(error))
    numbers = (ctypes.c_uint * 16)()
    shapes = [(ctypes.c_int64 * len(s))(*s) for s in (images, weights, vectors, batch)]
    return library.hopscale_batch(*shapes, ctypes.c_size_t(len(batch)), numbers), numbers
