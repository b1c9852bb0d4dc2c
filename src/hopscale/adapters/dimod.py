"""hopscale as a dimod sampler, with the keywords of dwave-samplers' simulated annealing.

```
sampler = hs.dimod.Sampler()
found = sampler.sample(bqm, num_reads=100, num_sweeps=1000, seed=1)
```
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from hopscale.adapters import require
from hopscale.anneal import Schedule, anneal, begin, beta_range, nothing_yet
from hopscale.kernels import Gibbs
from hopscale.loop import Program
from hopscale.targets.pairwise import Pairwise
from hopscale.targets.powered import Powered
from hopscale.tune import fitted
from hopscale.validate import as_key, choice, count

dimod: Any = require("dimod", "dimod", "hs.dimod")

__all__ = ["Sampler", "from_bqm", "sample_set", "to_bqm"]

SCHEDULES = ("linear", "geometric", "custom")
CRITERIA = ("Metropolis", "Gibbs")


def from_bqm(bqm: Any, beta: float = 1.0) -> Pairwise:
    r"""The Boltzmann distribution of a model, $\log \pi(x) = -\beta E(x)$.

    Variables become sites in the model's order, SPIN or BINARY as they are.
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


def to_bqm(target: Pairwise) -> Any:
    """The model whose energy is minus the target's log-probability, with sites as variables."""
    if not isinstance(target, Pairwise):
        raise TypeError(f"an hs.Pairwise is needed; got {type(target).__name__}.")
    pairs, field, offset = target.terms()
    quadratic = (pairs.i, pairs.j, -pairs.coupling.astype(np.float64))
    vartype = "BINARY" if target.bits else "SPIN"
    return dimod.BQM.from_numpy_vectors(-field, quadratic, -offset, vartype)


def sample_set(states: Any, bqm: Any) -> Any:
    """States of 0 and 1, of shape (..., variables), such as `run.draws`, as a SampleSet."""
    states = np.asarray(states)
    states = states.reshape(-1, bqm.num_variables).astype(np.int8)
    if bqm.vartype is dimod.SPIN:
        states = 2 * states - 1
    return dimod.SampleSet.from_samples_bqm((states, list(bqm.variables)), bqm)


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
            num_reads: chains. None: as many as there are initial states, or 1.
            num_sweeps: of each chain; 1,000 unless said, and 0 returns the initial states.
            num_sweeps_per_beta: sweeps at each inverse temperature.
            beta_schedule_type: "geometric", "linear" or "custom".
            beta_schedule: all inverse temperatures, for "custom".
            seed: the same seed gives the same samples.
            interrupt_function: called every 100 sweeps of all reads; True stops.
            initial_states, initial_states_generator: as `dimod.Initialized` has them.
            randomize_order: taken, and without effect: sites of a colour have no order.
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
        start = parsed.initial_states.record.sample
        order = parsed.initial_states.variables
        start = start[:, [order.index(v) for v in bqm.variables]] > 0
        rule = proposal_acceptance_criteria.lower()
        states = start.astype(np.int8)
        if betas.size:
            settings = (num_sweeps_per_beta, rule, seed, interrupt_function)
            states = _annealed(model, states, betas, *settings)
        found = sample_set(states, bqm)
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
    # A few lengths for all schedules, so that programs are used again.
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
