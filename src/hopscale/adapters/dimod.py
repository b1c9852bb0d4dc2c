"""hopscale as a dimod sampler, with the keywords of dwave-samplers' simulated annealing.

```
from hopscale.dimod import Sampler  # instead of dwave.samplers' SimulatedAnnealingSampler

sampler = Sampler()
found = sampler.sample(bqm, num_reads=100, num_sweeps=1000, seed=1)
```
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int8

from hopscale.adapters import require
from hopscale.annealing.anneal import Schedule, anneal, begin, nothing_yet
from hopscale.annealing.temperatures import beta_range
from hopscale.engine.loop import Program
from hopscale.kernels import Gibbs
from hopscale.targets.pairwise import Pairwise
from hopscale.targets.powered import Powered
from hopscale.tune import fitted
from hopscale.validate import as_key, choice, count

dimod: Any = require("dimod", "dimod", "hs.dimod")

__all__ = ["Sampler", "from_bqm", "sample_set", "states", "to_bqm"]

SCHEDULES = ("linear", "geometric", "custom")
CRITERIA = ("Metropolis", "Gibbs")


def from_bqm(bqm: Any, beta: float = 1.0) -> Pairwise:
    r"""The Boltzmann distribution of a model, $\log \pi(x) = -\beta E(x)$.

    Variables become sites in the model's order, and remain SPIN or BINARY.
    """
    if not isinstance(bqm, dimod.BinaryQuadraticModel):
        raise TypeError(
            f"a dimod.BinaryQuadraticModel is needed; got {type(bqm).__name__}. A QUBO is "
            "dimod.BQM.from_qubo(Q), an Ising model dimod.BQM.from_ising(h, J)."
        )
    if not bqm.num_variables:
        raise ValueError("the model has no variables.")
    linear, (i, j, coupling), offset = bqm.to_numpy_vectors(variable_order=list(bqm.variables))
    bits = bqm.vartype is dimod.BINARY
    model = Pairwise((i, j, -beta * coupling), -beta * linear, bits=bits)
    return model.shifted(-beta * float(offset))


def to_bqm(target: Pairwise, variables: Any = None) -> Any:
    """The model whose energy is minus the target's log-probability.

    Sites become its variables, in their order, with these names or as 0, 1, 2, ...
    """
    if not isinstance(target, Pairwise):
        raise TypeError(f"an hs.Pairwise is needed; got {type(target).__name__}.")
    pairs, field, offset = target.terms()
    quadratic = (pairs.i, pairs.j, -pairs.coupling.astype(np.float64))
    vartype = "BINARY" if target.bits else "SPIN"
    names = range(target.num_sites) if variables is None else list(variables)
    if len(names) != target.num_sites:
        raise ValueError(f"{target.num_sites} sites need as many names; got {len(names)}.")
    return dimod.BQM.from_numpy_vectors(
        -field, quadratic, -offset, vartype, variable_order=list(names)
    )


def sample_set(x: Any, bqm: Any) -> Any:
    """States of 0 and 1, of shape (..., variables), such as `run.draws`, as a SampleSet."""
    given = np.asarray(x)
    if given.ndim == 0 or given.shape[-1] != bqm.num_variables:
        raise ValueError(
            f"states must have shape (..., {bqm.num_variables}), a value for each variable of the "
            f"model; got {given.shape}. For draws of a clamped target, use clamped.full(draws)."
        )
    if not np.all((given == 0) | (given == 1)):
        raise ValueError(
            "states must hold 0 and 1, also for a model of spins, where 1 is spin +1; got "
            f"{np.unique(given)[:4]}. Convert spins with (spins + 1) // 2."
        )
    samples = given.reshape(-1, bqm.num_variables).astype(np.int8)
    if bqm.vartype is dimod.SPIN:
        samples = 2 * samples - 1
    return dimod.SampleSet.from_samples_bqm((samples, list(bqm.variables)), bqm)


def states(sample_set: Any, bqm: Any) -> Int8[np.ndarray, "samples variables"]:
    """The samples of a SampleSet as states of 0 and 1, such as `init=` takes.

    Variables are in the order of the model, as in `from_bqm`; a sample that occurred several times
    is repeated as often.
    """
    if not isinstance(sample_set, dimod.SampleSet):
        raise TypeError(f"a dimod.SampleSet is needed; got {type(sample_set).__name__}.")
    missing = [variable for variable in bqm.variables if variable not in sample_set.variables]
    if missing:
        raise ValueError(f"the samples say nothing of the model's variable {missing[0]!r}.")
    order = [sample_set.variables.index(variable) for variable in bqm.variables]
    found = sample_set.record.sample[:, order] > 0
    return np.repeat(found.astype(np.int8), sample_set.record.num_occurrences, axis=0)


class Sampler(dimod.Sampler, dimod.Initialized):
    """Simulated annealing of binary quadratic models by sweeps, all reads side by side.

    It takes the keywords of `dwave.samplers.SimulatedAnnealingSampler`.
    """

    def __init__(self):
        names = (
            "beta_range num_reads num_sweeps num_sweeps_per_beta beta_schedule_type beta_schedule "
            "seed interrupt_function initial_states initial_states_generator randomize_order "
            "proposal_acceptance_criteria"
        )
        self._parameters = {name: [] for name in names.split()}

    @property
    def parameters(self) -> dict[str, Any]:
        return self._parameters

    @property
    def properties(self) -> dict[str, Any]:
        return {"beta_schedule_options": SCHEDULES}

    def sample(
        self,
        bqm: Any,
        beta_range: Any = None,
        num_reads: int | None = None,
        num_sweeps: int | None = None,
        num_sweeps_per_beta: int = 1,
        beta_schedule_type: str = "geometric",
        seed: int | None = None,
        interrupt_function: Callable[[], bool] | None = None,
        beta_schedule: Any = None,
        initial_states: Any = None,
        initial_states_generator: str = "random",
        randomize_order: bool = False,
        proposal_acceptance_criteria: str = "Metropolis",
        **options: Any,
    ) -> Any:
        r"""Anneal from high to low temperature, and return where each read ends.

        Args:
            bqm: the model; its energy is minimised.
            beta_range: first and last inverse temperature. None: from the model.
            num_reads: the number of chains. None: as many as there are initial states, or 1.
            num_sweeps: sweeps of each chain. None: 1,000; 0 returns the initial states.
            num_sweeps_per_beta: sweeps at each inverse temperature.
            beta_schedule_type: "geometric", "linear" or "custom".
            beta_schedule: all inverse temperatures, for "custom".
            seed: the same seed gives the same samples.
            interrupt_function: called every 100 sweeps of all reads; True stops.
            initial_states, initial_states_generator: as in `dimod.Initialized`.
            randomize_order: accepted, without effect: sites of one colour have no order.
            proposal_acceptance_criteria: "Metropolis" or "Gibbs".
        """
        self.remove_unknown_kwargs(**options)
        choice("proposal_acceptance_criteria", proposal_acceptance_criteria, CRITERIA)
        if not bqm.num_variables:
            return dimod.SampleSet.from_samples_bqm(np.zeros((num_reads or 1, 0), np.int8), bqm)
        model = from_bqm(bqm)
        betas = _betas(
            model, beta_range, num_sweeps, num_sweeps_per_beta, beta_schedule_type, beta_schedule
        )
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        parsed = self.parse_initial_states(
            bqm,
            initial_states=initial_states,
            initial_states_generator=initial_states_generator,
            num_reads=num_reads,
            seed=seed % 2**32,
        )
        rule = proposal_acceptance_criteria.lower()
        x = states(parsed.initial_states, bqm)
        if betas.size:
            settings = (num_sweeps_per_beta, rule, seed, interrupt_function)
            x = _annealed(model, x, betas, *settings)
        found = sample_set(x, bqm)
        span = [float(beta) for beta in betas[[0, -1]]] if betas.size else None
        found.info.update(beta_range=span, beta_schedule_type=beta_schedule_type, seed=seed)
        return found


def _betas(model: Pairwise, span, sweeps, per_beta, kind: str, custom) -> np.ndarray:
    """The inverse temperatures of a schedule."""
    choice("beta_schedule_type", kind, SCHEDULES)
    count("num_sweeps_per_beta", per_beta, minimum=1)
    if (kind == "custom") != (custom is not None):
        raise ValueError("beta_schedule is needed for, and only for, beta_schedule_type='custom'.")
    if kind == "custom":
        betas = np.asarray(custom, np.float64)
        if sweeps is not None and sweeps != betas.size * per_beta:
            raise ValueError(
                f"num_sweeps must be {betas.size * per_beta}, the length of beta_schedule times "
                f"num_sweeps_per_beta; got {sweeps}."
            )
    else:
        sweeps = 1000 if sweeps is None else sweeps
        count("num_sweeps", sweeps, minimum=0)
        low, high = beta_range(model) if span is None else map(float, span)
        if sweeps % per_beta:
            raise ValueError("num_sweeps must be a multiple of num_sweeps_per_beta.")
        if kind == "geometric" and low <= 0:
            raise ValueError(f"a geometric schedule needs positive betas; got {low:g}.")
        space = np.linspace if kind == "linear" else np.geomspace
        betas = space(low, high, sweeps // per_beta)
        if not sweeps:
            return betas
    if betas.ndim != 1 or not betas.size or not np.all(np.isfinite(betas)) or betas.min() < 0:
        raise ValueError("inverse temperatures must be finite numbers of 0 or more.")
    return betas


CHUNK = 100  # sweeps between two calls of interrupt_function


def _annealed(model, start, betas, per_beta: int, rule: str, seed: int, interrupt) -> np.ndarray:
    powered, kernel = Powered(model, betas[0]), Gibbs(rule=rule)
    tuner = fitted(None, kernel.scale_range(powered))
    program = Program(key=as_key(seed), target=powered, kernel=kernel, tuner=tuner)
    # Schedules are padded to a few lengths, so that compiled programs are reused.
    padded = np.full(max(128, 1 << (len(betas) - 1).bit_length()), betas[-1])
    padded[: len(betas)] = betas
    schedule = Schedule(jnp.asarray(padded, model.dtype), jnp.int32(0), jnp.int32(per_beta))
    chains, best = begin(program, jnp.asarray(start)), nothing_yet(powered)
    total = len(betas) * per_beta
    for first in range(0, total, CHUNK):
        if first and interrupt is not None and interrupt():
            break
        steps = min(CHUNK, total - first) if interrupt is not None else total
        chains, best = anneal(program, chains, best, schedule, jnp.int32(first), jnp.int32(steps))
        if interrupt is None:
            break
    return np.asarray(chains.states.x)
