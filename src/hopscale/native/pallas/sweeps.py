"""Sweeps over pairwise and Potts models, by the algorithm of `native.sweeps`.

A program has a few chains, whose states lie side by side, (n, chains), and stay in its processor's
cache. It goes through all blocks and sweeps by itself: changes of a block are read in the next one
after a barrier, with no launch in between. If chains are too few to fill the device and blocks are
large, a block is divided among programs, and every block is a launch.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from hopscale.native import sweeps as plain
from hopscale.native.pallas import parts

ELEMENTS = 1024  # sites x chains that a program draws at once, at most
CHAINS = 32  # of a program, at most
PROCESSORS = 128  # of a device, approximately
LARGE = 8  # turns of a program for a block, from which on blocks are divided among programs
TOGETHER = 8  # neighbours looked up at once


class Shape(NamedTuple):
    """What is fixed when a kernel is compiled."""

    n: int  # sites
    chains: int  # of a program
    blocks: int
    size: int  # of a block
    degree: int  # the most neighbours of a site
    values: int
    tile: int  # sites drawn at once
    shares: int  # programs that share a block
    sweeps: int
    metropolis: bool
    keep: float
    interpret: bool

    @property
    def whole(self) -> bool:
        """Whether one launch does all sweeps."""
        return self.shares == 1

    @property
    def warps(self) -> int:
        return max(1, min(8, self.tile * self.chains // 128))


class Rows(NamedTuple):
    """References to the neighbours of all sites: those of site i from start[i] to start[i + 1]."""

    start: Any
    neighbour: Any
    weight: Any

    def over(self, site, here, degree: int, body, initial):
        """Fold `body(neighbours, couplings, value)` over the neighbours of some sites."""
        if not degree:
            return initial
        first = parts.load(self.start, site, here, 0)
        last = parts.load(self.start, site + 1, here, 0)
        together = min(TOGETHER, degree)

        def some(turn, value):
            for k in range(together):
                place = first + (turn * together + k)
                inside = place < last
                other = parts.load(self.neighbour, place, inside, 0)
                weight = parts.load(self.weight, place, inside, 0.0)
                value = body(other, weight, value)
            return value

        if together == degree:
            return some(np.int32(0), initial)
        turns = parts.ceil_div(jnp.max(last - first), together)
        return lax.fori_loop(np.int32(0), turns, some, initial)


class Tile(NamedTuple):
    """Some sites of all chains of a program: where they are, and what their draws depend on."""

    site: jax.Array  # (tile,)
    here: jax.Array  # whether a place has a site
    position: jax.Array  # in the blocks: the number of its random number
    key: tuple[jax.Array, jax.Array]  # of the sweep; (1, chains)
    states: Any  # a reference to (n, chains), in a row
    chains: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.site.size, self.chains

    @property
    def mask(self):
        return self.beside(self.here)

    def beside(self, numbers):
        """Numbers of sites, repeated for all chains."""
        return jnp.broadcast_to(numbers[:, None], self.shape)

    def at(self, site):
        """Where the states of sites are."""
        return site[:, None] * self.chains + lax.iota(jnp.int32, self.chains)[None, :]

    def look(self, site):
        return parts.load(self.states, self.at(site), self.mask, 0)

    def write(self, value):
        parts.scatter(self.states, self.at(self.site), value, self.mask)


def _level(tile: Tile, positions: int):
    """The random numbers of `native.sweeps`, below 2^31: eight bits, then the other 23."""
    position, quarter = tile.position[:, None], -(-positions // 4)
    byte = ((position & 3) * 8).astype(jnp.uint32)
    high = (parts.random_bits(tile.key, position >> 2) >> byte) & np.uint32(0xFF)
    low = parts.random_bits(tile.key, position + quarter) >> np.uint32(9)
    return ((high << np.uint32(23)) | low).astype(jnp.int32)


def _draw_spins(tile: Tile, rows: Rows, refs, shape: Shape):
    """New bits of the sites; the gain in log-probability, at beta = 1, by each."""
    beta_ref, gamma_ref, field_ref, base_ref = refs

    def add(other, weight, total):
        return total + weight[:, None] * (2 * tile.look(other) - 1).astype(jnp.float32)

    nothing = jnp.zeros(tile.shape, jnp.float32)
    sums = rows.over(tile.site, tile.here, shape.degree, add, nothing)
    total = parts.load(field_ref, tile.site, tile.here, 0.0)[:, None] + sums
    base = parts.load(base_ref, tile.site, tile.here, 0.0)[:, None]
    bit = tile.look(tile.site)
    spin = (2 * bit - 1).astype(jnp.float32)
    drive = beta_ref[...][None, :] * total + gamma_ref[...][None, :] * base
    level = _level(tile, shape.blocks * shape.size)
    flip = plain.flips(level, 2.0 * spin * drive, shape.metropolis, shape.keep)
    tile.write(jnp.where(flip, 1 - bit, bit).astype(bit.dtype))
    return jnp.where(flip & tile.mask, -2.0 * spin * total, 0.0)


def _draw_values(tile: Tile, rows: Rows, refs, shape: Shape):
    """New values of the sites; the gain in log-probability, at beta = 1, by each."""
    beta_ref, field_ref = refs
    columns = range(shape.values)

    def add(other, weight, sums):
        value = tile.look(other).astype(jnp.int32)
        coupling = tile.beside(weight)
        return tuple(
            s + jnp.where(value == c, coupling, 0.0) for c, s in zip(columns, sums, strict=True)
        )

    nothing = (jnp.zeros(tile.shape, jnp.float32),) * shape.values
    sums = rows.over(tile.site, tile.here, shape.degree, add, nothing)
    own = [
        parts.load(field_ref, tile.site * shape.values + c, tile.here, 0.0)[:, None]
        for c in columns
    ]
    energy = [h + s for h, s in zip(own, sums, strict=True)]
    now = tile.look(tile.site)
    uniform = parts.uniform_number(parts.random_bits(tile.key, tile.position[:, None]))
    after, gained = plain.draw_value(
        energy, now.astype(jnp.int32), uniform, beta_ref[...][None, :], shape.metropolis, shape.keep
    )
    tile.write(after.astype(now.dtype))
    return jnp.where(tile.mask, gained, 0.0)


def _sweep(at_ref, key_ref, *refs, draw, shape: Shape):
    """Sweeps, or one program's share of a block: new states, and their gains."""
    *terms, blocks_ref, start_ref, neighbour_ref, weight_ref, _, states_ref, gain_ref = refs
    rows, chain = Rows(start_ref, neighbour_ref, weight_ref), lax.iota(jnp.int32, shape.chains)
    share, tiles = pl.program_id(0), -(-shape.size // shape.tile)
    keys = tuple(parts.load(key_ref, 2 * chain + word)[None, :] for word in (0, 1))

    def one_tile(number, gain, key, block):
        place = (share + number * shape.shares) * shape.tile + lax.iota(jnp.int32, shape.tile)
        position = block * shape.size + place
        site = parts.load(blocks_ref, position, place < shape.size, shape.n)
        here = site < shape.n  # padding has site n
        tile = Tile(jnp.where(here, site, 0), here, position, key, states_ref, shape.chains)
        return gain + draw(tile, rows, terms, shape)

    def one_block(block, gain, key):
        body = functools.partial(one_tile, key=key, block=block)
        gain = lax.fori_loop(np.int32(0), parts.ceil_div(tiles - share, shape.shares), body, gain)
        if not shape.interpret:
            plgpu.debug_barrier()
        return gain

    def one_sweep(turn, gain):
        key = parts.fold_in(keys, turn)
        first = at_ref[1]
        last = np.int32(shape.blocks) if shape.whole else first + 1
        return lax.fori_loop(first, last, functools.partial(one_block, key=key), gain)

    first = at_ref[0]
    last = np.int32(shape.sweeps) if shape.whole else first + 1
    gain = jnp.zeros((shape.tile, shape.chains), jnp.float32)
    gain = jnp.sum(lax.fori_loop(first, last, one_sweep, gain), axis=0)
    parts.store(gain_ref, share * shape.chains + chain, gain, chain >= 0)


def _run(draw, shape: Shape, key, x, *arrays):
    """The sweeps of one program's chains: states (n * chains,), and the gain of each chain."""
    call = pl.pallas_call(
        functools.partial(_sweep, draw=draw, shape=shape),
        grid=(shape.shares,),
        out_shape=[
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            jax.ShapeDtypeStruct((shape.shares * shape.chains,), jnp.float32),
        ],
        input_output_aliases={len(arrays) + 2: 0},
        compiler_params=plgpu.CompilerParams(num_warps=shape.warps, num_stages=1),
        interpret=shape.interpret,
    )

    def launch(number, carry):
        x, gain = carry
        at = jnp.stack([number // shape.blocks, number % shape.blocks]).astype(jnp.int32)
        x, gained = call(at, key, *arrays, x)
        return x, gain + jnp.sum(gained.reshape(shape.shares, shape.chains), axis=0)

    launches = 1 if shape.whole else shape.sweeps * shape.blocks
    return lax.fori_loop(0, launches, launch, (x, jnp.zeros(shape.chains, jnp.float32)))


def _swept(draw, own, shared, rows, blocks, *, values: int, interpret: bool, **settings):
    """Sweep all chains, some in each program.

    Args:
        own: key, states and numbers of each chain.
        shared: what the operation needs besides them.
    """
    key, x, *numbers = own
    chains = key.size
    shape = _shape(len(x), chains, blocks.shape, values=values, interpret=interpret, **settings)
    groups = -(-chains // shape.chains)

    def grouped(array):
        """(chains, ...) to (groups, chains of a program, ...), padded with the last chain."""
        missing = groups * shape.chains - chains
        full = jnp.concatenate([array, jnp.repeat(array[-1:], missing, axis=0)])
        return full.reshape(groups, shape.chains, *array.shape[1:])

    start, neighbour, weight = rows
    if not neighbour.size:  # a kernel takes no empty arrays
        neighbour, weight = jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.float32)
    keys = grouped(jax.random.key_data(key.reshape(chains))).reshape(groups, -1)
    states = jnp.swapaxes(grouped(x.reshape(len(x), chains).T), 1, 2).reshape(groups, -1)
    numbers = [grouped(number.reshape(chains)) for number in numbers]
    arrays = *shared, jnp.ravel(blocks), start, neighbour, weight

    def one(key, x, *numbers):
        return _run(draw, shape, key, x, *numbers, *map(jnp.ravel, arrays))

    states, gain = jax.vmap(one)(keys, states, *numbers)
    states = states.reshape(groups, len(x), shape.chains)
    states = jnp.moveaxis(states, 1, 0).reshape(len(x), -1)[:, :chains]
    return states.reshape(x.shape), gain.reshape(-1)[:chains].reshape(key.shape)


def _shape(n: int, chains: int, blocks: tuple[int, int], **settings) -> Shape:
    """How the work is divided among programs."""
    own = 1
    while 2 * own <= min(CHAINS, chains // PROCESSORS):
        own *= 2
    groups, (number, size) = -(-chains // own), blocks
    tile = min(pl.next_power_of_2(size), ELEMENTS // own)
    tiles, shares = -(-size // tile), 1
    if 2 * groups <= PROCESSORS and tiles >= LARGE:
        shares = min(tiles, 2 * PROCESSORS // groups)
    return Shape(n, own, number, size, tile=tile, shares=shares, **settings)


@plain.side_by_side(varying=4)
def spin_sweeps(
    key, x, beta, gamma, field, base, blocks, start, neighbour, weight, *, interpret=False,
    **settings,
):  # fmt: skip
    own, rows = (key, x, beta, gamma), (start, neighbour, weight)
    settings |= {"values": 2, "interpret": interpret}
    return _swept(_draw_spins, own, (field, base), rows, blocks, **settings)


def potts_sweeps(key, x, beta, field, *graph, interpret=False, **settings):
    if field.shape[1] > plain.UNROLLED:  # energies of all values stay in registers
        return plain.potts_sweeps(key, x, beta, field, *graph, **settings)
    return _potts_sweeps(key, x, beta, field, *graph, interpret=interpret, **settings)


@plain.side_by_side(varying=3)
def _potts_sweeps(key, x, beta, field, blocks, *rows, **settings):
    settings |= {"values": field.shape[1]}
    return _swept(_draw_values, (key, x, beta), (field,), rows, blocks, **settings)
