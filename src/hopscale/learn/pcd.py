r"""Persistent contrastive divergence: the compiled part of learning.

The gradient of the mean log-likelihood of data is

$$-\nabla_\theta\, \mathbb E_{\text{data}} f_\theta(x) + \nabla_\theta\,
  \mathbb E_{\pi_\theta} f_\theta(x).$$

The second mean is taken over chains that go on, a few Metropolis-Hastings steps an iteration,
from where the last iteration left them. Any number of iterations is one program: the data and the
chains stay on the device, and each iteration writes a row of a record.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import metropolis, native
from hopscale.learn import buffer as replay
from hopscale.learn.compiling import compiled
from hopscale.learn.ebm import EBM, trainable
from hopscale.sampler import Sampler
from hopscale.scale import Tuner, TunerState
from hopscale.target import State, Target
from hopscale.targets import Bernoulli
from hopscale.validate import count

RECORDED = ("gap", "energy_data", "energy_samples", "acceptance", "scale", "gradient")


@dataclasses.dataclass(frozen=True)
class PCD:
    r"""How to learn by persistent contrastive divergence.

    An iteration minimises, over a batch of data $x_i$ and chains $y_i$,

    $$\frac1B \sum_i f_\theta(x_i) - f_\theta(y_i) + \lambda (f_\theta(x_i)^2 + f_\theta(y_i)^2).$$

    Attributes:
        steps: Metropolis-Hastings steps of each chain in an iteration.
        batch: B, states of the data in an iteration, and chains.
        rate: Adam's learning rate, reached linearly over the first `warmup` iterations.
        buffer: chains in the replay buffer.
        restart: the probability that a chain is begun anew from the base when it is taken.
        clip: the largest norm of a gradient; longer ones are shortened to it. 0: none.
        penalty: $\lambda$, on the squares of the energies.
        weight_decay: of AdamW.
        average: the decay of the moving average of the weights that becomes the model.
        limit: training has diverged when |mean f(data) - mean f(samples)| exceeds it.
    """

    steps: int = 40
    batch: int = 100
    rate: float = 1e-4
    warmup: int = 1_000
    buffer: int = 10_000
    restart: float = 0.0
    clip: float = 0.0
    penalty: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.999
    limit: float = 1_000.0

    def __post_init__(self):
        for name in ("steps", "batch", "buffer"):
            count(name, getattr(self, name), least=1)
        count("warmup", self.warmup, least=0)
        if self.buffer < self.batch:
            raise ValueError(
                f"the buffer must hold at least a batch of {self.batch} chains; got {self.buffer}."
            )
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must lie in [{low:g}, {high:g}]; got {value!r}.")
        if not 0 <= self.average < 1:
            raise ValueError(f"average must lie in [0, 1), 1 excluded; got {self.average!r}.")
        if not self.rate > 0 or not self.limit > 0:
            raise ValueError(
                f"rate and limit must be positive; got {self.rate!r} and {self.limit!r}."
            )


_RANGES = (
    ("rate", 0.0, 1.0),
    ("restart", 0.0, 1.0),
    ("clip", 0.0, float("inf")),
    ("penalty", 0.0, float("inf")),
    ("weight_decay", 0.0, 1.0),
)


class Learner(NamedTuple):
    """All that evolves. A checkpoint holds just this."""

    network: Any
    average: Any
    optimizer: Any
    buffer: State
    tuner: TunerState
    step: Int[Array, ""]


class Program(NamedTuple):
    """What training is made of. Arrays in it are arguments of the compiled loop.

    `steps` is an array where the number of steps can vary without another compilation, and a
    plain number where a device runs faster for knowing it.
    """

    key: Key[Array, ""]
    data: Array
    base: Bernoulli
    sampler: Sampler
    tuner: Tuner
    settings: PCD
    steps: int | Int[Array, ""]
    implementation: str


def program(
    key, data, base, sampler: Sampler, scale: Tuner, settings: PCD, any_steps: bool = False
) -> Program:
    """Everything put where the compiled loop wants it; `any_steps`: the number stays open."""
    known = jax.default_backend() != "cpu" and not any_steps
    return Program(
        key=key,
        data=jnp.asarray(data),
        base=base,
        sampler=sampler,
        tuner=jax.tree.map(jnp.asarray, scale.ready(sampler)),
        # The compiled program does not depend on the number of steps.
        settings=dataclasses.replace(settings, steps=1),
        steps=settings.steps if known else jnp.asarray(settings.steps),
        implementation=native.in_use(),
    )


def optimizer(settings: PCD) -> optax.GradientTransformation:
    """AdamW whose rate rises linearly, after clipping if that is asked for."""

    def rate(step):
        return settings.rate * jnp.minimum((step + 1) / max(settings.warmup, 1), 1.0)

    adam = optax.adamw(rate, weight_decay=settings.weight_decay)
    return optax.chain(optax.clip_by_global_norm(settings.clip), adam) if settings.clip else adam


def start(network, base: Bernoulli, scale: Tuner, settings: PCD, key: Key[Array, ""]) -> Learner:
    """Before the first iteration: chains drawn from the base, the average at the weights."""
    return Learner(
        # Copies, because the loop takes its arguments over.
        network=_copy(network),
        average=_copy(network),
        optimizer=optimizer(settings).init(trainable(network)),  # type: ignore[arg-type]
        buffer=_draw_base(key, base, settings.buffer),
        tuner=scale.init(base.num_sites, settings.batch, base.dtype),
        step=jnp.asarray(0, jnp.int32),
    )


_draw_base = eqx.filter_jit(replay.draw_base)


@compiled(donate="all-except-first")
def advance(
    fixed: tuple[Program, Int[Array, ""]], state: Learner, records: Float[Array, "rows 6"]
) -> tuple[Learner, Array, Int[Array, ""], Bool[Array, ""]]:
    """Take so many iterations, recording into rows 0, 1, ...; stop where training diverges.

    Returns:
        The state (before the iteration that diverged, if one did), the records, how many
        iterations were taken, that one included, and whether all is well.
    """
    program, iterations = fixed
    arrays, rest = eqx.partition(state, eqx.is_array)

    def go_on(loop):
        row, well, _, _ = loop
        return (row < iterations) & well

    def iterate(loop):
        row, _, arrays, records = loop
        state, numbers, well = _iteration(program, eqx.combine(arrays, rest))
        records = jax.lax.dynamic_update_index_in_dim(records, numbers, row, axis=0)
        return row + 1, well, eqx.filter(state, eqx.is_array), records

    with native.use(program.implementation):
        begin = (jnp.zeros((), jnp.int32), jnp.asarray(True), arrays, records)
        row, well, arrays, records = jax.lax.while_loop(go_on, iterate, begin)
    return eqx.combine(arrays, rest), records, row, well


def _iteration(program: Program, state: Learner) -> tuple[Learner, Array, Bool[Array, ""]]:
    """One iteration: walk the chains, follow the gradient, average the weights."""
    settings = program.settings
    key = jax.random.fold_in(program.key, state.step)
    key_data, key_chains, key_walk = jax.random.split(key, 3)
    data = replay.draw_batch(key_data, program.data, settings.batch)
    slots, x = replay.take(key_chains, state.buffer, program.base, settings.batch, settings.restart)
    model = EBM(state.network, program.base)
    y, tuner, acceptance = walk(key_walk, program, model, x, state.tuner)
    (_, energies), slope = eqx.filter_value_and_grad(_objective, has_aux=True)(
        state.network, program.base, data, y, settings.penalty
    )
    updates, optimised = optimizer(settings).update(
        slope,  # type: ignore[arg-type]
        state.optimizer,
        trainable(state.network),  # type: ignore[arg-type]
    )
    network = eqx.apply_updates(state.network, updates)
    real, fake = jnp.mean(energies[: len(data)]), jnp.mean(energies[len(data) :])
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope)))
    scale = jnp.mean(tuner.scale)
    numbers = jnp.stack([real - fake, real, fake, acceptance, scale, norm])
    well = jnp.isfinite(norm) & (jnp.abs(real - fake) <= settings.limit)
    learned = Learner(
        network=network,
        average=_averaged(state.average, network, state.step, settings.average),
        optimizer=optimised,
        buffer=state.buffer,
        tuner=tuner,
        step=state.step + 1,
    )
    state = _where(well, learned, state)
    # The buffer is written in place: choosing between two of them would copy it.
    kept = jnp.where(well, y, state.buffer[slots])
    state = state._replace(buffer=replay.put(state.buffer, slots, kept))
    return state, numbers.astype(jnp.float32), well


def walk(key, program: Program, target: Target, x: State, tuner: TunerState):
    """Metropolis-Hastings steps of all chains, each moving the scale; and the mean acceptance."""
    sampler, steps = program.sampler, program.steps

    def noise(number):
        keys = jax.random.split(jax.random.fold_in(key, number), len(x))
        return jax.vmap(lambda one: metropolis.noise(one, target.dtype))(keys)

    # Drawn ahead, the noise is a few launches less for a GPU in each step.
    ahead = jax.vmap(noise)(jnp.arange(steps)) if isinstance(steps, int) else None

    def one(noise, state, scale):
        return metropolis.step(noise, target, state, scale, sampler)

    def step(number, loop):
        chains, tuner, accepted = loop
        now = noise(number) if ahead is None else jax.tree.map(lambda a: a[number], ahead)
        by_chain = 0 if tuner.scale.ndim else None
        chains, _, info = jax.vmap(one, (0, 0, by_chain))(now, chains, tuner.scale)
        tuner = program.tuner.update(tuner, info.accept_prob, target.num_sites)
        return chains, tuner, accepted + jnp.mean(info.accept_prob)

    chains = jax.vmap(lambda one: sampler.init(target, one))(x)
    begin = (chains, tuner, jnp.zeros((), target.dtype))
    chains, tuner, accepted = jax.lax.fori_loop(0, steps, step, begin)
    return chains.x, tuner, accepted / steps


def _objective(network, base: Bernoulli, data: State, samples: State, penalty: float):
    """The mean energy of data above that of samples, and all energies."""
    energies = jax.vmap(EBM(network, base).energy)(jnp.concatenate([data, samples]))
    gap = jnp.mean(energies[: len(data)]) - jnp.mean(energies[len(data) :])
    return gap + 2 * penalty * jnp.mean(energies**2), energies


def _averaged(average, network, step, decay: float):
    """A moving average of the weights, over fewer of them at first."""
    keep = jnp.minimum(decay, (1.0 + step) / (10.0 + step))

    def move(old, new):
        return keep * old + (1.0 - keep) * new if eqx.is_inexact_array(new) else new

    return jax.tree.map(move, average, network)


def _copy(network):
    return jax.tree.map(lambda a: jnp.copy(a) if eqx.is_array(a) else a, network)


def _where(condition, new: Learner, old: Learner) -> Learner:
    """One of two states with the same buffer."""

    def choose(a, b):
        return jnp.where(condition, a, b) if eqx.is_array(a) and a is not b else a

    return jax.tree.map(choose, new, old)
