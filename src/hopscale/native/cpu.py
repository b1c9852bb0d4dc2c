"""The operations as C++ kernels for the CPU, in single precision.

Each function works on one chain; a batch under `jax.vmap` is one call, divided among the threads of
XLA's pool. The package's build compiles them from `kernels/`.
"""

import ctypes
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from hopscale import balance as balancing
from hopscale.devices import device_count
from hopscale.native import reference
from hopscale.native.paths import decide

# The meaning of the numbers given for the sites: the kernels' `Balance`.
_CODES = {None: 0, "barker": 1, "sqrt": 2}
_NAMES = (
    "Race",
    "OrderLogProb",
    "Repeated",
    "RepeatedLogProb",
    "Uniform",
    "Odd",
    "Ising",
    "IsingLogProb",
    "IsingUpdate",
    "Fhmm",
    "FhmmUpdate",
    "Hamming",
    "RbmInputs",
    "StepKey",
    "RandomWords",
    "SpinSweeps",
    "PottsSweeps",
    "PairFields",
    "PairUpdate",
    "Potts",
    "RaceValues",
    "OrderValues",
    "ValueTotals",
    "DrawValues",
    "ValuesLogProb",
)
_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


@functools.cache
def ready() -> tuple[bool, str]:
    """Load the kernels; returns whether that worked, and why (not)."""
    built = sorted(Path(__file__).parent.glob("_kernels*.so"))
    if not built:
        return False, "not built: the package was installed without a working C++ compiler"
    try:
        library = ctypes.cdll.LoadLibrary(str(built[0]))
        for name in _NAMES:
            target = jax.ffi.pycapsule(getattr(library, name))
            jax.ffi.register_ffi_target(f"hopscale.{name}", target, platform="cpu")
    except (OSError, AttributeError) as error:
        return False, f"{built[0].name} cannot be loaded: {error}"
    return True, f"C++, {built[0].name}"


def step_key(key, step, chain):
    words = jax.ShapeDtypeStruct((2,), jnp.uint32)
    return _call("StepKey", words, jax.random.key_data(key), step, chain)


def words(key, *, count):
    return _call(
        "RandomWords", jax.ShapeDtypeStruct((count,), jnp.uint32), jax.random.key_data(key)
    )


def race(key, values, length, *, balance):
    values, code = _coded(values, balance)
    outputs = (*_choice(values.size), _SCALAR)
    return _call("Race", outputs, jax.random.key_data(key), values, length, balance=code)


def order_log_prob(values, sites, chosen, length, *, balance, backwards):
    values, code = _coded(values, balance)
    arrays = (values, sites, chosen, length)
    return _call("OrderLogProb", _SCALAR, *arrays, balance=code, backwards=bool(backwards))


def repeated(key, values, length, *, balance):
    values, code = _coded(values, balance)
    outputs = (*_choice(values.size), _SCALAR)
    return _call("Repeated", outputs, jax.random.key_data(key), values, length, balance=code)


def repeated_log_prob(values, sites, length, *, balance):
    values, code = _coded(values, balance)
    return _call("RepeatedLogProb", _SCALAR, values, sites, length, balance=code)


def settle(*arrays, balance, path):
    scores = {"order_log_prob": order_log_prob, "repeated_log_prob": repeated_log_prob}
    return reference.settle(*arrays, balance=balance, path=path, **scores)


def uniform(key, length, *, n):
    return _call("Uniform", _choice(n), jax.random.key_data(key), length)


def odd(sites, length):
    return _call("Odd", jax.ShapeDtypeStruct(sites.shape, jnp.bool_), sites, length)


def ising(x, field, down, right):
    outputs = (_SCALAR, jax.ShapeDtypeStruct(x.shape, jnp.float32))
    return _call("Ising", outputs, x, field, down, right, vmap_method="expand_dims")


def ising_log_prob(x, field, down, right):
    return _call("IsingLogProb", _SCALAR, x, field, down, right, vmap_method="expand_dims")


def ising_update(log_prob, x, moved, field, down, right):
    arrays = (log_prob, x, moved, field, down, right)
    return _call("IsingUpdate", _SCALAR, *arrays, vmap_method="expand_dims")


def fhmm(x, *parameters, by_time, exact):
    outputs = (_SCALAR, jax.ShapeDtypeStruct(x.shape, jnp.float32))
    settings = {"by_time": by_time, "exact": exact}
    return _call("Fhmm", outputs, x, *parameters, vmap_method="expand_dims", **settings)


def fhmm_update(log_prob, x, moved, *parameters, by_time):
    arrays = (log_prob, x, moved, *parameters)
    return _call("FhmmUpdate", _SCALAR, *arrays, vmap_method="expand_dims", by_time=by_time)


def hamming(x, origin):
    if x.dtype != jnp.int8:  # more than 128 values per site
        return reference.hamming(x, origin)
    flat = x.reshape(-1), origin.reshape(-1)
    return _call("Hamming", _SCALAR, *flat, vmap_method="expand_dims")


def rbm_inputs(inputs, x, moved, by_visible):
    arrays = (inputs, x, moved, by_visible)
    output = jax.ShapeDtypeStruct(inputs.shape, jnp.float32)
    return _call("RbmInputs", output, *arrays, vmap_method="expand_dims")


def spin_sweeps(key, x, *arrays, degree, metropolis, keep, sweeps):
    settings = {"metropolis": metropolis, "keep": np.float32(keep), "sweeps": np.int32(sweeps)}
    settings["devices"] = np.int32(device_count())  # few on one of many devices are not few in all
    return _sweeps("SpinSweeps", key, x, *arrays, **settings)


def potts_sweeps(key, x, *arrays, degree, metropolis, keep, sweeps):
    settings = {"metropolis": metropolis, "keep": np.float32(keep), "sweeps": np.int32(sweeps)}
    return _sweeps("PottsSweeps", key, x, *arrays, **settings)


def _sweeps(name, key, x, *arrays, **settings):
    outputs = (jax.ShapeDtypeStruct(x.shape, jnp.int8), _SCALAR)
    arrays = (jax.random.key_data(key), x, *arrays)
    return _call(name, outputs, *arrays, vmap_method="expand_dims", **settings)


def pair_fields(x, field, start, neighbour, weight, *, degree):
    output = jax.ShapeDtypeStruct(field.shape, jnp.float32)
    arrays = (x, field, start, neighbour, weight)
    return _call("PairFields", output, *arrays, vmap_method="expand_dims")


def pair_update(fields, x, moved, field, start, neighbour, weight, *, degree):
    output = jax.ShapeDtypeStruct(fields.shape, jnp.float32)
    arrays = (fields, x, moved, field, start, neighbour, weight)
    return _call("PairUpdate", output, *arrays, vmap_method="expand_dims")


def potts(x, field, start, neighbour, weight, *, degree):
    if x.dtype != jnp.int8:  # more than 128 values per site
        return reference.potts(x, field, start, neighbour, weight, degree=degree)
    outputs = (_SCALAR, jax.ShapeDtypeStruct(field.shape, jnp.float32))
    arrays = (x, field, start, neighbour, weight)
    return _call("Potts", outputs, *arrays, vmap_method="expand_dims")


def race_values(key, ratios, here, length, *, balance):
    ratios, code = _coded(ratios, balance)
    drawn = jax.ShapeDtypeStruct(here.shape, jnp.int8)
    arrays = (jax.random.key_data(key), ratios, here, length)
    return _call("RaceValues", (*_choice(here.size), drawn, _SCALAR), *arrays, balance=code)


def order_values(ratios, here, values, sites, chosen, length, *, balance, backwards):
    ratios, code = _coded(ratios, balance)
    arrays = (ratios, here, values, sites, chosen, length)
    return _call("OrderValues", _SCALAR, *arrays, balance=code, backwards=bool(backwards))


def settle_values(
    ratios, values, back, sites, chosen, length, uniform, log_forward, there, here, *, balance,
    backwards,
):  # fmt: skip
    arrays = (ratios, values, back, sites, chosen, length)
    log_backward = order_values(*arrays, balance=balance, backwards=backwards)
    return decide(uniform, log_forward, log_backward, there, here)


def value_totals(ratios, here, *, balance):
    if here.dtype != jnp.int8:  # more than 128 values per site
        return reference.value_totals(ratios, here, balance=balance)
    ratios, code = _coded(ratios, balance)
    output = jax.ShapeDtypeStruct(here.shape, jnp.float32)
    return _call("ValueTotals", output, ratios, here, balance=code)


def draw_values(key, ratios, here, sites, length, *, balance):
    if here.dtype != jnp.int8:  # more than 128 values per site
        return reference.draw_values(key, ratios, here, sites, length, balance=balance)
    ratios, code = _coded(ratios, balance)
    output = jax.ShapeDtypeStruct(here.shape, jnp.int8)
    arrays = (jax.random.key_data(key), ratios, here, sites, length)
    return _call("DrawValues", output, *arrays, balance=code)


def values_log_prob(ratios, here, totals, values, moved, *, balance):
    if here.dtype != jnp.int8:  # more than 128 values per site
        return reference.values_log_prob(ratios, here, totals, values, moved, balance=balance)
    ratios, code = _coded(ratios, balance)
    return _call("ValuesLogProb", _SCALAR, ratios, here, totals, values, moved, balance=code)


def _coded(values, balance):
    """Values as the kernels take them; balancing functions they do not know are applied here."""
    if balance in _CODES:
        return values, np.int32(_CODES[balance])
    return balancing.apply(balance, values), np.int32(0)


def _choice(n: int):
    return jax.ShapeDtypeStruct((n,), jnp.int32), jax.ShapeDtypeStruct((n,), jnp.bool_)


def _call(name: str, outputs, *arrays, vmap_method="broadcast_all", **settings):
    # "expand_dims" keeps one copy of what is the same for all chains, such as parameters.
    call = jax.ffi.ffi_call(f"hopscale.{name}", outputs, vmap_method=vmap_method)
    return call(*arrays, **settings)
