"""What all tests share."""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import jaxlib.version

# Most of the time is compiling. Without LLVM's optimisations and the newer emitters it takes a
# third of that. Later versions of XLA do not know the second flag, and refuse unknown ones.
FLAGS = ["--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false"]
os.environ.setdefault(
    "XLA_FLAGS", " ".join(FLAGS if jaxlib.version.__version_info__ < (0, 11) else FLAGS[:1])
)

# A program is compiled once for all workers and the processes that tests start: the first process,
# whose environment the others inherit, makes a folder for them and removes it at the end.
CACHE = "JAX_COMPILATION_CACHE_DIR"
if CACHE not in os.environ:
    os.environ[CACHE] = tempfile.mkdtemp(prefix="hopscale-programs-")
    atexit.register(shutil.rmtree, os.environ[CACHE], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # A file that another process is still writing is reported, and its program compiled again.
    os.environ["PYTHONWARNINGS"] = "ignore:Error reading persistent compilation cache"

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def x64():
    """Run a test in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Forget compiled programs before a process has more memory maps than Linux allows, 65,530.

    Each program takes some, and XLA crashes where it gets no more.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 30_000:
        jax.clear_caches()
        gc.collect()
