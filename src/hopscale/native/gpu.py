"""Operations as kernels for NVIDIA GPUs: Pallas kernels in single precision, and one in CUDA.

Each function works on one chain; `jax.vmap` adds the chains to the launch grid. The random bits
are those of `jax.random.bits`, so choices are those of `reference`, except where levels tie within
rounding.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from hopscale import balance as balancing
from hopscale.native import paths, reference
from hopscale.native.cuda.residual import residual_pass  # noqa: F401
from hopscale.native.pallas import choose, kernels, long_chains
from hopscale.native.pallas import values as of_values
from hopscale.native.pallas.sweeps import potts_sweeps, spin_sweeps  # noqa: F401
from hopscale.native.pallas.weights import Weighing

KNOWN = {None: "none", "barker": "barker", "sqrt": "sqrt", "min": "min", "max": "max"}


class Knobs(NamedTuple):
    """Settings that change the speed and not results (beyond rounding). Sizes are powers of two."""

    warps: int | None = None  # of programs that hold a whole chain; None: by its length
    pair_warps: int = 2  # of programs that compare pairs
    rows: int = 64  # a program compares rows x columns pairs at a time
    columns: int = 16
    shares: int = 16  # programs that split the pairs, or the draws, of one chain
    stride: int = 1024  # sites weighed at once to score a path
    block: int = 1024  # steps of a path taken at once, at most
    draws: int = 512  # sites drawn at once, at most
    at_once: int = 4096  # sites of a table weighed at once, and columns of it
    long: int = 100_000  # sites; for longer chains, XLA does all work over all sites
    long_draws: int = 1024  # sites of a long chain drawn at once
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
    if values.size > knobs.long:
        return _long_race(key, values, length, balance, knobs)
    found = _choose(choose.race, key, values, length, balance, knobs, score=True)
    return found[0], found[1], found[4][0]


def order_log_prob(values, sites, chosen, length, *, balance, backwards, knobs: Knobs = DEFAULT):
    path = "backwards" if backwards else "forwards"
    return _score(values, sites, chosen, length, balance, path, knobs)


def _long_race(key, values, length, balance, knobs):
    """The race of a chain so long that one program would be slow to go over all of its sites."""
    n, width = values.size, reference.columns(values.size)
    named, weighing = _weighed(values, balance, knobs)
    key, drawn = jax.random.key_data(key), pl.next_power_of_2(int(1.2 * n ** (2 / 3)))
    count, *so_far = long_chains.first_draws(key, named, Weighing(weighing.name), length, drawn)
    call = _call(
        choose.race_on,
        [(n, jnp.int32), (n, bool), (n, jnp.float32), (width, jnp.int32)],
        knobs,
        knobs.warps or 16,
        aliases={4: 0, 5: 1, 6: 2},
        n=n,
        tile=min(width, knobs.at_once),
        block=knobs.long_draws,
        at_once=knobs.at_once,
        weighing=weighing,
        drawn=drawn,
    )
    scalars = (jnp.reshape(number, 1) for number in (length, count))
    sites, chosen, *_ = call(key, *scalars, named, *so_far)
    return sites, chosen, _score(values, sites, chosen, length, balance, "forwards", knobs)


def settle(
    uniform, forward, rest, length, values, sites, chosen, there, here, *, balance, path,
    knobs: Knobs = DEFAULT,
):  # fmt: skip
    if values.size > knobs.long:
        ways = {"order_log_prob": order_log_prob, "repeated_log_prob": repeated_log_prob}
        arrays = uniform, forward, rest, length, values, sites, chosen, there, here
        return paths.settle(*arrays, balance=balance, path=path, **ways)
    values, weighing = _weighed(values, balance, knobs)
    scalars = [jnp.reshape(number, 1) for number in (uniform, forward, rest, length)]
    before = [*scalars, values, sites, chosen, *map(jnp.ravel, there)]
    # Small arrays, which observers read, get new memory: XLA would otherwise copy them first.
    in_place = tuple(leaf.nbytes >= 4 * values.size for leaf in here)
    call = _call(
        kernels.settle,
        [(leaf.size, leaf.dtype) for leaf in here] + [(1, jnp.float32), (1, bool), (1, bool)],
        knobs,
        aliases={len(before) + i: i for i, stays in enumerate(in_place) if stays},
        n=values.size,
        in_place=in_place,
        **_tiles(values.size, knobs),
        path=path,
        weighing=weighing,
    )
    *new, log_ratio, accepted, invalid = call(*before, *map(jnp.ravel, here))
    new = tuple(a.reshape(leaf.shape) for a, leaf in zip(new, here, strict=True))
    return log_ratio[0], accepted[0], invalid[0], new


def uniform(key, length, *, n, knobs: Knobs = DEFAULT):
    equal = jnp.zeros(n, jnp.float32)
    return tuple(_choose(choose.race, key, equal, length, None, knobs, score=False)[:2])


def repeated(key, values, length, *, balance, knobs: Knobs = DEFAULT):
    sites, chosen, *_ = _choose(choose.repeated, key, values, length, balance, knobs)
    log_prob = repeated_log_prob(values, sites, length, balance=balance, knobs=knobs)
    return sites, chosen, log_prob


def repeated_log_prob(values, sites, length, *, balance, knobs: Knobs = DEFAULT):
    # With replacement, the flags of chosen sites are not used.
    return _score(values, sites, sites, length, balance, "repeated", knobs)


def race_values(key, ratios, here, length, *, balance, knobs: Knobs = DEFAULT):
    n, values = ratios.shape
    totals = reference.value_totals(ratios, here, balance=balance)  # which XLA does well
    sites, chosen, log_prob = race(key, totals, length, balance=None, knobs=knobs)
    ratios, weighing = _weighed(ratios, balance, knobs)
    call = _call(
        of_values.draw_values,
        [(n, here.dtype), (1, jnp.float32)],
        knobs,
        warps=4,
        n=n,
        values=values,
        block=min(_draws(n), max(32, knobs.at_once // pl.next_power_of_2(values))),
        weighing=weighing,
    )
    scalars = jnp.reshape(length, 1), jnp.reshape(log_prob, 1)
    arrays = jax.random.key_data(key), *scalars, jnp.ravel(ratios), here, sites
    drawn, log_prob = call(*arrays)
    return sites, chosen, drawn, log_prob[0]


def odd(sites, length, *, knobs: Knobs = DEFAULT):
    n = sites.size
    call = _call_pairs(kernels.odd, [(n, bool)], knobs, aliases={2: 0}, n=n)
    return call(jnp.reshape(length, 1), sites, jnp.zeros(n, bool))[0]


def _choose(kernel, key, values, length, balance, knobs, **settings):
    """Sites and flags, by one program per chain; then its working memory, and its score."""
    n = values.size
    width = reference.columns(n)
    values, weighing = _weighed(values, balance, knobs)
    outputs = [(n, jnp.int32), (n, bool), (n, jnp.float32), (width, jnp.int32), (1, jnp.float32)]
    call = _call(
        kernel,
        outputs,
        knobs,
        knobs.warps or _choice_warps(n),
        n=n,
        tile=min(width, knobs.at_once),
        block=min(knobs.draws, _draws(n)),
        at_once=knobs.at_once,
        weighing=weighing,
        **settings,
    )
    return call(jax.random.key_data(key), jnp.reshape(length, 1), values)


def _weighed(values, balance, knobs) -> tuple[jax.Array, Weighing]:
    """Values, and how to weigh them; functions that kernels do not know are applied here."""
    if balance in KNOWN:
        return values, Weighing(KNOWN[balance], knobs.interpret)
    return balancing.apply(balance, values), Weighing("none", knobs.interpret)


def _call(kernel, outputs, knobs, warps=None, aliases=None, shares=1, **static):
    """The kernel as a function of arrays, run by `shares` programs per chain."""
    return pl.pallas_call(
        functools.partial(kernel, **static),
        grid=(shares,),
        out_shape=[jax.ShapeDtypeStruct((size,), dtype) for size, dtype in outputs],
        input_output_aliases=aliases or {},
        # The class of the parameters also selects Triton among the GPU backends of Pallas.
        compiler_params=plgpu.CompilerParams(
            num_warps=warps or _warps(static["n"], knobs), num_stages=1
        ),
        interpret=knobs.interpret,
    )


def _call_pairs(kernel, outputs, knobs, n, **options):
    """A kernel whose work on one chain is split among programs."""
    kernel = functools.partial(
        kernel, programs=knobs.shares, rows=knobs.rows, columns=knobs.columns
    )
    return _call(kernel, outputs, knobs, knobs.pair_warps, shares=knobs.shares, n=n, **options)


def _score(values, sites, chosen, length, balance, path, knobs):
    values, weighing = _weighed(values, balance, knobs)
    tiles = _tiles(values.size, knobs)
    static = {"n": values.size, **tiles, "path": path, "weighing": weighing}
    outputs, length = [(1, jnp.float32)], jnp.reshape(length, 1)
    if values.size <= knobs.long:
        return _call(kernels.path, outputs, knobs, **static)(length, values, sites, chosen)[0][0]
    unit, weights = long_chains.weights(values, Weighing(weighing.name))
    left = weights if path == "repeated" else jnp.where(chosen, 0.0, weights)
    numbers = jnp.stack([*unit, jnp.sum(left)])
    call = _call(kernels.path_by_sums, outputs, knobs, **static)
    return call(length, numbers, values, sites, chosen)[0][0]


def _tiles(n: int, knobs: Knobs) -> dict[str, int]:
    """How much of a chain is taken at once by a program that scores a path."""
    # A power of two, so large that every thread has a site.
    tile = min(max(pl.next_power_of_2(n), 32 * _warps(n, knobs)), knobs.stride)
    return {"tile": tile, "block": _steps(n, knobs.block)}


def _steps(n: int, most: int) -> int:
    """How many steps of a path to take at once: all that tuned chains have, of order n^(2/3)."""
    return min(most, max(32, pl.next_power_of_2(int(2 * n ** (2 / 3)))))


def _draws(n: int) -> int:
    """How many sites to draw at once: slightly more than tuned chains need."""
    most = max(1.3 * n ** (2 / 3), 256 if n > 512 else 32)
    return pl.next_power_of_2(int(most))


def _choice_warps(n: int) -> int:
    """Warps of a program that chooses: more would be faster for few chains, slower for many."""
    return 2 if n <= 128 else 4 if n <= 1024 else 8 if n <= 32_768 else 16


def _warps(n: int, knobs: Knobs) -> int:
    """Enough warps for a chain's sites, within what registers allow."""
    few = 2 if n <= 128 else 4 if n <= 512 else 8
    return knobs.warps or min(16, max(few, pl.next_power_of_2(n) // 512))
