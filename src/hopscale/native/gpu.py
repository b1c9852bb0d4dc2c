"""The operations of `select` as Pallas kernels for NVIDIA GPUs, in single precision.

Each function works on one chain; `jax.vmap` adds the chains to the launch grid. The random bits
are those of `jax.random.bits`, so a choice is the one `reference` makes, but for levels that tie
within rounding.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from hopscale import balance as balancing
from hopscale.native import reference
from hopscale.native.pallas import choose, kernels

KNOWN = {None: "none", "barker": "barker", "sqrt": "sqrt", "min": "min", "max": "max"}


class Knobs(NamedTuple):
    """What may be tuned without changing a result (beyond rounding). Sizes are powers of two."""

    warps: int | None = None  # of programs that hold a whole chain; None: by its length
    pair_warps: int = 2  # of programs that compare pairs
    rows: int = 64  # a program compares rows x columns pairs at a time
    columns: int = 16
    shares: int = 16  # programs that split the pairs, or the draws, of one chain
    stride: int = 4096  # sites weighed at once to score a path
    block: int = 1024  # steps of a path taken at once
    draws: int = 512  # sites drawn at once
    interpret: bool = False  # run as plain JAX, on any device


DEFAULT = Knobs()


def ready() -> tuple[bool, str]:
    """Whether these kernels run on the default device, and why not."""
    if jax.default_backend() != "gpu":
        return False, f"the default device is a {jax.default_backend()}"
    version = jax.devices()[0].client.platform_version
    if "cuda" not in version.lower():
        return False, f"the kernels are for CUDA, this is {version}"
    return True, "Pallas"


def race(key, values, length, *, balance, knobs: Knobs = DEFAULT):
    found = _choose(choose.race, key, values, length, balance, knobs, score=True)
    return found[0], found[1], found[4][0]


def order_log_prob(values, sites, chosen, length, *, balance, backwards, knobs: Knobs = DEFAULT):
    values, name = _named(values, balance)
    call = _call_path(values.size, knobs, backwards=backwards, balance=name)
    return call(jnp.reshape(length, 1), values, sites, chosen)[0][0]


def uniform(key, length, *, n, knobs: Knobs = DEFAULT):
    equal = jnp.zeros(n, jnp.float32)
    return tuple(_choose(choose.race, key, equal, length, None, knobs, score=False)[:2])


def repeated(key, values, length, *, balance, knobs: Knobs = DEFAULT):
    sites, chosen, *_ = _choose(choose.repeated, key, values, length, balance, knobs)
    log_prob = repeated_log_prob(values, sites, length, balance=balance, knobs=knobs)
    return sites, chosen, log_prob


def repeated_log_prob(values, sites, length, *, balance, knobs: Knobs = DEFAULT):
    call = _call_path(values.size, knobs, backwards=True, balance="none")
    return call(jnp.reshape(length, 1), balancing.apply(balance, values), sites)[0][0]


def odd(sites, length, *, knobs: Knobs = DEFAULT):
    n = sites.size
    call = _call_pairs(kernels.odd, [(n, bool)], knobs, aliases={2: 0}, n=n)
    return call(jnp.reshape(length, 1), sites, jnp.zeros(n, bool))[0]


def _choose(kernel, key, values, length, balance, knobs, **settings):
    """Sites and flags, by one program a chain; then the kernel's working memory, and its score."""
    n = values.size
    width = reference.columns(n)
    values, name = _named(values, balance)
    outputs = [(n, jnp.int32), (n, bool), (n, jnp.float32), (width, jnp.int32), (1, jnp.float32)]
    warps = knobs.warps or min(16, max(4, width // 128))
    call = _call(
        kernel,
        outputs,
        knobs,
        warps,
        n=n,
        tile=min(width, knobs.stride),
        block=min(width, knobs.draws),
        balance=name,
        interpret=knobs.interpret,
        **settings,
    )
    return call(jax.random.key_data(key), jnp.reshape(length, 1), values)


def _named(values, balance):
    """Values as the kernels take them: balancing functions they do not know are applied here."""
    if balance in KNOWN:
        return values, KNOWN[balance]
    return balancing.apply(balance, values), "none"


def _call(kernel, outputs, knobs, warps=None, aliases=None, shares=1, **static):
    """The kernel as a function of arrays, run by `shares` programs a chain."""
    return pl.pallas_call(
        functools.partial(kernel, **static),
        grid=(shares,),
        out_shape=[jax.ShapeDtypeStruct((size,), dtype) for size, dtype in outputs],
        input_output_aliases=aliases or {},
        # Named parameters also say that it is Triton, not another of Pallas' ways to a GPU.
        compiler_params=plgpu.CompilerParams(
            num_warps=warps or _warps(static["n"], knobs), num_stages=1
        ),
        interpret=knobs.interpret,
    )


def _call_pairs(kernel, outputs, knobs, n, **options):
    """A kernel whose work on one chain is split."""
    kernel = functools.partial(
        kernel, programs=knobs.shares, rows=knobs.rows, columns=knobs.columns
    )
    return _call(kernel, outputs, knobs, knobs.pair_warps, shares=knobs.shares, n=n, **options)


def _call_path(n, knobs, **static):
    # A power of two, no thread without a site.
    tile = min(max(pl.next_power_of_2(n), 32 * _warps(n, knobs)), knobs.stride)
    outputs = [(1, jnp.float32)]
    return _call(kernels.path, outputs, knobs, n=n, tile=tile, block=knobs.block, **static)


def _warps(n: int, knobs: Knobs) -> int:
    """Enough warps for a chain's sites, within what registers allow."""
    return knobs.warps or min(16, max(4, pl.next_power_of_2(n) // 1024))
