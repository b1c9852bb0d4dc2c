r"""Persistent contrastive divergence: the compiled part of learning.

The gradient of the mean log-likelihood of data is

$$-\nabla_\theta\, \mathbb E_{\text{data}} f_\theta(x) + \nabla_\theta\,
  \mathbb E_{\pi_\theta} f_\theta(x).$$

The second mean is taken over persistent chains: each iteration continues them, by a few
Metropolis-Hastings steps, from where the last one left them. Any number of iterations is one
program: the data and the chains stay on the device, and each iteration writes a row of a record.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from hopscale import tune
from hopscale.engine import loop
from hopscale.engine.compiling import compiled
from hopscale.kernels.kernel import Kernel
from hopscale.learn import buffer as replay
from hopscale.learn.ebm import EBM, trainable
from hopscale.learn.settings import PCD
from hopscale.target import State, Target
from hopscale.targets import Bernoulli
from hopscale.tune import Tuner, TunerState


class Learner(NamedTuple):
    """Everything that changes from iteration to iteration; checkpoints hold it."""

    network: Any
    average: Any
    optimizer: Any
    buffer: State
    tuner: TunerState
    step: Int[Array, ""]


class Training(NamedTuple):
    """What training needs. Its arrays are arguments of the compiled iterations.

    `steps` is an array if the number of steps can vary without another compilation, and a plain
    number where a device runs faster if it is compiled in.
    """

    key: Key[Array, ""]
    data: Array
    base: Bernoulli
    kernel: Kernel
    tuner: Tuner
    settings: PCD
    steps: int | Int[Array, ""]
    limit: Float[Array, ""]
    ratios: str = "gradient"

    @staticmethod
    def of(
        key: Key[Array, ""],
        model: EBM,
        data,
        kernel: Kernel,
        scale: Tuner | None,
        settings: PCD,
        any_steps: bool = False,
    ) -> "Training":
        """Arguments of the compiled iterations; `any_steps` leaves the number of steps open."""
        static = jax.default_backend() != "cpu" and not any_steps
        return Training(
            key=key,
            data=jnp.asarray(data),
            base=model.base,
            kernel=kernel,
            tuner=tune.fitted(scale, kernel.scale_range(model)),
            # Settings that the compiled program does not depend on are made the same for all runs.
            settings=dataclasses.replace(
                settings,
                steps=PCD.steps,
                crisis=PCD.crisis,
                patience=PCD.patience,
                limit=PCD.limit,
            ),
            steps=settings.steps if static else jnp.asarray(settings.steps, jnp.int32),
            limit=jnp.asarray(settings.limit, jnp.float32),
            ratios="exact" if model.ratios == "exact" else "gradient",
        )


def optimizer(settings: PCD) -> optax.GradientTransformation:
    """AdamW with linear warm-up of its rate, after clipping if that is asked for."""

    def rate(step):
        return settings.rate * jnp.minimum((step + 1) / max(settings.warmup, 1), 1.0)

    adam = optax.adamw(rate, weight_decay=settings.weight_decay)
    return optax.chain(optax.clip_by_global_norm(settings.clip), adam) if settings.clip else adam


def start(training: Training, model: EBM, key: Key[Array, ""]) -> Learner:
    """The state before training: chains drawn from the base, the average at the weights."""
    settings, network = training.settings, model.network
    scales = training.kernel.scale_range(model)
    return Learner(
        # Copies, because the compiled iterations take over the memory of their arguments.
        network=_copy(network),
        average=_copy(network),
        optimizer=optimizer(settings).init(trainable(network)),  # type: ignore[arg-type]
        buffer=_draw_base(key, model.base, settings.buffer),
        tuner=training.tuner.init(scales, settings.batch, model.dtype),  # type: ignore[arg-type]
        step=jnp.asarray(0, jnp.int32),
    )


_draw_base = eqx.filter_jit(replay.draw_base)


@compiled(donate="all-except-first")
def advance(
    fixed: tuple[Training, Int[Array, ""]], state: Learner, records: Float[Array, "rows 7"]
) -> tuple[Learner, Array, Int[Array, ""], Bool[Array, ""]]:
    """Take a number of iterations, recording into rows 0, 1, ...; stop where training diverges.

    Returns:
        The state (before the iteration that diverged, if one did), the records, the number of
        iterations taken, including that one, and whether one diverged.
    """
    training, iterations = fixed
    arrays, rest = eqx.partition(state, eqx.is_array)

    def goes_on(carry):
        row, diverged, _, _ = carry
        return (row < iterations) & ~diverged

    def iterate(carry):
        row, _, arrays, records = carry
        state, numbers, diverged = _iteration(training, eqx.combine(arrays, rest))
        records = jax.lax.dynamic_update_index_in_dim(records, numbers, row, axis=0)
        return row + 1, diverged, eqx.filter(state, eqx.is_array), records

    begin = (jnp.zeros((), jnp.int32), jnp.asarray(False), arrays, records)
    row, diverged, arrays, records = jax.lax.while_loop(goes_on, iterate, begin)
    return eqx.combine(arrays, rest), records, row, diverged


def _iteration(training: Training, state: Learner) -> tuple[Learner, Array, Bool[Array, ""]]:
    """One iteration: walk the chains, follow the gradient, average the weights."""
    settings, base = training.settings, training.base
    key = jax.random.fold_in(training.key, state.step)
    key_data, key_chains, key_walk = jax.random.split(key, 3)
    data = replay.draw_batch(key_data, training.data, settings.batch)
    slots, x = replay.take(key_chains, state.buffer, base, settings.batch, settings.restart)
    model = EBM(state.network, base, training.ratios)
    y, tuner, (acceptance, scale) = walk(key_walk, training, model, x, state.tuner)
    (_, energies), slope = eqx.filter_value_and_grad(_objective, has_aux=True)(
        state.network, base, data, y, settings.penalty
    )
    updates, optimised = optimizer(settings).update(
        slope,  # type: ignore[arg-type]
        state.optimizer,
        trainable(state.network),  # type: ignore[arg-type]
    )
    network = eqx.apply_updates(state.network, updates)
    real, fake = jnp.mean(energies[: len(data)]), jnp.mean(energies[len(data) :])
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope)))
    variety = _differences(y) / _differences(data)
    numbers = jnp.stack([real - fake, real, fake, acceptance, scale, norm, variety])
    diverged = ~(jnp.isfinite(norm) & (jnp.abs(real - fake) <= training.limit))
    learned = Learner(
        network=network,
        average=_averaged(state.average, network, state.step, settings.average),
        optimizer=optimised,
        buffer=state.buffer,
        tuner=tuner,
        step=state.step + 1,
    )
    state = _where(diverged, state, learned)
    # The buffer is written in place: choosing between two of them would copy it.
    put_back = jnp.where(diverged, state.buffer[slots], y)
    state = state._replace(buffer=replay.put(state.buffer, slots, put_back))
    return state, numbers.astype(jnp.float32), diverged


def walk(
    key: Key[Array, ""], training: Training, target: Target, x: State, tuner: TunerState
) -> tuple[State, TunerState, Float[Array, " 2"]]:
    """Move all chains, updating the scale at each step; returns mean acceptance and scale too."""
    kernel, steps, target = training.kernel, training.steps, loop.prepared(target)
    program = loop.Program(key=key, target=target, kernel=kernel, tuner=training.tuner)
    states = jax.vmap(lambda one: kernel.init(target, one))(x)

    def visit(row, active, chains, info, total):
        numbers = jnp.mean(info.accept_prob), jnp.mean(chains.tuner.scale)
        return total + jnp.stack([number.astype(total.dtype) for number in numbers])

    chains, total = loop.scan(
        program,
        loop.Chains(states=states, tuner=tuner),
        jnp.zeros(2, target.dtype),
        steps=steps,
        visit=visit,
    )
    return chains.states.x, chains.tuner, total / steps


def _objective(network, base: Bernoulli, data: State, samples: State, penalty: float):
    """The mean energy of data minus that of samples, plus the penalty; and all energies."""
    energies = jax.vmap(EBM(network, base).energy)(jnp.concatenate([data, samples]))
    gap = jnp.mean(energies[: len(data)]) - jnp.mean(energies[len(data) :])
    return gap + 2 * penalty * jnp.mean(energies**2), energies


def _differences(x: State) -> Float[Array, ""]:
    r"""Half the mean number of sites in which two states differ, $\sum_i \bar x_i (1 - \bar x_i)$.

    Never 0, so that identical data cause no division by zero.
    """
    means = jnp.mean(x, axis=0, dtype=jnp.float32)
    return jnp.maximum(jnp.sum(means * (1.0 - means)), 1e-6)


def _averaged(average, network, step, decay: float):
    """A moving average of the weights, over fewer iterations at first."""
    decay_now = jnp.minimum(decay, (1.0 + step) / (10.0 + step))

    def move(old, new):
        if not eqx.is_inexact_array(new):
            return new
        return (decay_now * old + (1.0 - decay_now) * new).astype(old.dtype)

    return jax.tree.map(move, average, network)


def _copy(network):
    return jax.tree.map(lambda a: jnp.copy(a) if eqx.is_array(a) else a, network)


def _where(condition, one: Learner, other: Learner) -> Learner:
    """One of two states with the same buffer."""

    def choose(a, b):
        return jnp.where(condition, a, b) if eqx.is_array(a) and a is not b else a

    return jax.tree.map(choose, one, other)
