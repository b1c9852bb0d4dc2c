"""The chains of one run on several devices.

Chains are independent, so each device runs the loop of one device over its own chains. The tuner
and some recorders pool over chains. They are the same on all devices, because they receive the
numbers of all chains, gathered in their order. So a run does not depend on the number of devices.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

AXIS = "chains"  # the axis of a mesh
SAME = PartitionSpec()  # the same on all devices
BY_CHAIN = PartitionSpec(AXIS)  # the first axis is that of chains

Devices = tuple[jax.Device, ...]  # empty: JAX's default


def default(devices: Devices) -> AbstractContextManager:
    """A context in which the first of these devices, if there is one, is the default."""
    return jax.default_device(devices[0]) if devices else nullcontext()


def mesh_of(devices: Devices) -> Mesh | None:
    """The devices as a mesh of one axis; None for one device, which needs no mesh."""
    return Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 else None


# -- Outside the loop. ----------------------------------------------------------------------------


def place(tree: Any, devices: Devices, spec: Any = SAME) -> Any:
    """Put the arrays of a tree on these devices; `spec` may differ from branch to branch."""
    if not devices:
        return tree
    mesh, where = mesh_of(devices), devices[0]
    if mesh is not None:
        where = jax.tree.map(lambda one: NamedSharding(mesh, one), spec)
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, where), rest)


def share(function: Callable, mesh: Mesh, fixed: Any, specs: tuple, out_specs: Any) -> Callable:
    """`function(fixed, *arguments)` on each device, with its part of the arguments.

    Args:
        function: run by every device, along the axis of chains.
        mesh: the devices.
        fixed: an argument that is the same for all devices; a tree that may hold anything.
        specs: partition specs of the other arguments, which are trees of arrays.
        out_specs: partition specs of what the function returns.
    """
    arrays, rest = eqx.partition(fixed, eqx.is_array)

    def one(arrays, *arguments):
        return function(eqx.combine(arrays, rest), *arguments)

    # JAX cannot verify that SAME values are the same, because it does not look into kernels. With
    # its own `jit` the loop keeps its constants, which XLA folds as it does on one device.
    shared = jax.shard_map(
        jax.jit(one), mesh=mesh, in_specs=(SAME, *specs), out_specs=out_specs, check_vma=False
    )
    return lambda *arguments: shared(arrays, *arguments)


# -- Inside the loop. An `axis` of None means one device, which has all chains. --------------------


def device_count() -> int:
    """The number of devices that share the chains of the program being traced."""
    try:
        return jax.lax.axis_size(AXIS)
    except NameError:  # there is no such axis
        return 1


def all_chains(tree: Any, axis: str | None) -> Any:
    """The values of all chains, gathered from the devices in the order of chains."""
    if axis is None:
        return tree
    return jax.tree.map(lambda a: jax.lax.all_gather(a, axis, tiled=True), tree)


def own_chains(array: Array, axis: str | None) -> Array:
    """This device's part of an array of all chains."""
    if axis is None:
        return array
    each = len(array) // jax.lax.axis_size(axis)
    return jax.lax.dynamic_slice_in_dim(array, jax.lax.axis_index(axis) * each, each)


def chain_count(own: int, axis: str | None) -> int:
    """The number of chains on all devices, if each has `own`."""
    return own if axis is None else own * jax.lax.axis_size(axis)


def chain_numbers(own: int, axis: str | None) -> Int[Array, " chains"]:
    """The indices of this device's chains among all chains."""
    return own_chains(jnp.arange(chain_count(own, axis), dtype=jnp.int32), axis)
