"""One operation, three implementations.

`reference` is plain JAX and runs anywhere, in any precision. `cpu` calls C++ kernels and `gpu`
Pallas kernels; they take single precision and Threefry keys, JAX's default. Functions of one
name do the same: arrays by position, settings by name. `call` chooses among them when it is
traced, unless told to take the reference; `status` says what stands ready, and why not. What XLA
does well by itself on a platform has no kernel there.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hopscale import balance as balancing
from hopscale.native import cpu, reference

__all__ = ["IMPLEMENTATIONS", "Status", "call", "differentiable_call", "reference", "status"]

IMPLEMENTATIONS = ("auto", "reference")


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
    """Whether kernels can take these arrays. Those in a tuple they only copy."""
    for array in jax.tree.leaves([given for given in arrays if not isinstance(given, tuple)]):
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


def _settings(settings: dict) -> dict:
    """Settings as kernels know them: a balancing function that has a name goes by its name."""
    for name, function in balancing.NAMED.items():
        if settings.get("balance") is function:
            return settings | {"balance": name}
    return settings


def call(name: str, *arrays, implementation: str = "auto", plain=None, **settings):
    """The operation of that name, by the implementation for the platform that will run it.

    Args:
        name: of a function of `reference`.
        implementation: "auto", kernels where they apply, or "reference".
        plain: what to do where there is no kernel, with the same arrays; None: the reference. For
            operations that do several others in one go.
    """
    if implementation not in IMPLEMENTATIONS:
        known = " or ".join(map(repr, IMPLEMENTATIONS))
        raise ValueError(f"implementation must be {known}; got {implementation!r}.")
    settings = _settings(settings)
    plain = plain or partial(getattr(reference, name), **settings)
    if implementation == "reference" or not _fits(arrays):
        return plain(*arrays)
    on_cpu = _kernel(cpu, name, settings) or plain
    if not _has_accelerator():
        return on_cpu(*arrays)
    on_gpu = _kernel(_gpu(), name, settings) or plain
    return jax.lax.platform_dependent(*arrays, default=plain, cpu=on_cpu, cuda=on_gpu)


def differentiable_call(name: str, x, *parameters, **settings):
    """`call`, with the derivatives of the formula: kernels have none of their own."""

    @jax.custom_jvp
    def apply(*parameters):
        return call(name, x, *parameters, **settings)

    @apply.defjvp
    def _(primals, tangents):
        plain = partial(getattr(reference, name), x, **settings)
        _, slope = jax.jvp(plain, primals, tangents)
        return apply(*primals), slope

    return apply(*parameters)
