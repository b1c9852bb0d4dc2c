"""One operation, three implementations.

`reference` is plain JAX and runs anywhere, in any precision. `cpu` calls C++ kernels and `gpu`
Pallas kernels; they take single precision and Threefry keys, JAX's default. Functions of one
name do the same: arrays by position, settings by name. `call` chooses among them when it is
traced; `status` says what stands ready, and why not. What XLA does well by itself on a platform
has no kernel there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hopscale.native import cpu, reference

__all__ = ["Status", "call", "in_use", "reference", "status", "use"]

_in_use = "kernels"


@contextmanager
def use(implementation: str) -> Iterator[None]:
    """Trace with "kernels" where they apply (the default), or with the "reference" alone."""
    global _in_use
    if implementation not in ("kernels", "reference"):
        raise ValueError(
            f"implementation must be 'kernels' or 'reference'; got {implementation!r}."
        )
    before, _in_use = _in_use, implementation
    try:
        yield
    finally:
        _in_use = before


def in_use() -> str:
    """What `use` is set to."""
    return _in_use


class Status(NamedTuple):
    """Whether the kernels for a platform stand ready, and why (not)."""

    platform: str
    ready: bool
    reason: str


def status() -> list[Status]:
    """The kernels for this machine's platforms."""
    found = [Status("cpu", *cpu.ready())]
    if _has_accelerator():
        found.append(Status("gpu", *_gpu().ready()))
    return found


def _has_accelerator() -> bool:
    return any(device.platform != "cpu" for device in jax.devices())


def _gpu():
    """Imported where there is one: Pallas takes its time."""
    from hopscale.native import gpu

    return gpu


def _fits(arrays) -> bool:
    """Whether kernels can take these arrays."""
    for array in arrays:
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            if "fry" not in str(jax.random.key_impl(array)):
                return False
        elif array.dtype not in (jnp.float32, jnp.int32, jnp.int8, jnp.bool_):
            return False
    return True


def _kernel(implementation, name: str, settings):
    """The operation by these kernels, if they are ready and have it."""
    if not implementation.ready()[0] or not hasattr(implementation, name):
        return None
    return partial(getattr(implementation, name), **settings)


def call(name: str, *arrays, **settings):
    """The operation of that name, by the implementation for the platform that will run it."""
    plain = partial(getattr(reference, name), **settings)
    if _in_use == "reference" or not _fits(arrays):
        return plain(*arrays)
    on_cpu = _kernel(cpu, name, settings) or plain
    if not _has_accelerator():
        return on_cpu(*arrays)
    on_gpu = _kernel(_gpu(), name, settings) or plain
    return jax.lax.platform_dependent(*arrays, default=plain, cpu=on_cpu, cuda=on_gpu)
