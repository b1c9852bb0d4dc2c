"""What all tests share."""

import os

# Most of the time is compiling: with few of LLVM's optimisations, half of it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def x64():
    """Run a test in double precision."""
    with jax.enable_x64(True):
        yield
