"""Operations with up to three implementations each.

`reference` is plain JAX and runs anywhere, in any precision. `cpu` calls C++ kernels and `gpu`
Pallas kernels, and a CUDA kernel for one kind of network; they take single precision and Threefry
keys, JAX's default. Functions of the same name do the same, and take arrays by position and
settings by name. `call` chooses among them when it is traced, unless told to use the reference.
`status` says which kernels are available, and why others are not. Operations that XLA does well by
itself on a platform have no kernel there.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hopscale import balance as balancing
from hopscale.native import cpu, cuda, reference

__all__ = [
    "IMPLEMENTATIONS",
    "Status",
    "call",
    "differentiable_call",
    "has_cuda",
    "reference",
    "status",
]

IMPLEMENTATIONS = ("auto", "reference")


class Status(NamedTuple):
    """Whether the kernels for a platform are available, and why (not)."""

    platform: str
    ready: bool
    reason: str


def status() -> list[Status]:
    """The kernels for this machine's platforms."""
    found = [Status("cpu", *cpu.ready())]
    if _has_accelerator():
        found += [Status("gpu", *_gpu().ready()), Status("gpu, networks", *cuda.ready())]
    return found


def has_cuda() -> bool:
    """Whether kernels in CUDA can be compiled for the default device."""
    return _has_accelerator() and cuda.ready()[0]


def _has_accelerator() -> bool:
    return any(device.platform != "cpu" for device in jax.devices())


def _gpu():
    """The module of GPU kernels, imported only if there is a GPU: importing Pallas takes long."""
    from hopscale.native import gpu

    return gpu


def _fits(arrays) -> bool:
    """Whether kernels can take these arrays. Arrays in a tuple are only copied, so any will do."""
    for array in jax.tree.leaves([given for given in arrays if not isinstance(given, tuple)]):
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            if "fry" not in str(jax.random.key_impl(array)):
                return False
        elif array.dtype not in (jnp.float32, jnp.int32, jnp.int8, jnp.bool_):
            return False
    return True


def _kernel(implementation, name: str, settings):
    """The operation as a kernel of this implementation; None if it is not available."""
    if not implementation.ready()[0] or not hasattr(implementation, name):
        return None
    return partial(getattr(implementation, name), **settings)


def _settings(settings: dict) -> dict:
    """Settings as kernels take them: a balancing function that has a name is given by its name."""
    for name, function in balancing.NAMED.items():
        if settings.get("balance") is function:
            return settings | {"balance": name}
    return settings


def call(name: str, *arrays, implementation: str = "auto", plain=None, **settings):
    """The operation of that name, by the implementation for the platform that will run it.

    Args:
        name: of a function of `reference`.
        implementation: "auto", kernels where they apply, or "reference".
        plain: what to call with the same arrays if there is no kernel. None: the reference. It is
            for operations that combine several others.
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
    """`call`, with the derivatives of the reference: kernels have none of their own."""

    @jax.custom_jvp
    def apply(*parameters):
        return call(name, x, *parameters, **settings)

    @apply.defjvp
    def _(primals, tangents):
        plain = partial(getattr(reference, name), x, **settings)
        _, slope = jax.jvp(plain, primals, tangents)
        return apply(*primals), slope

    return apply(*parameters)
