"""A cell: one run of the paper's experiments, with everything that determines its result.

Cells with equal settings are the same cell: they have the same digest, and only one is run.
`Cell.make_target`, `make_kernel` and so on build the objects that the settings name.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from hopscale.kernels import GWG, LBP, RWM, ChainState, Info, Metropolis
from hopscale.paper import instances
from hopscale.record import Hamming, log_prob
from hopscale.runs.plan import random_state
from hopscale.target import Target, as_float
from hopscale_reproduction.checks import check, check_names
from hopscale_reproduction.revisions import with_revision

# The readings behind the paper's tables, which follow from these where text and tables differ.
TABLE_READING = {
    "bernoulli": {"spacing": "even"},
    "ising": {"sign": "+", "disc": "half"},
    "fhmm": {"variant": "table", "axis": "time", "squared_weights": 1.15},
    "rbm": {},
}
TABLE_DETAIL = {"rwm": "", "gwg": "once", "lbp": "same"}

Options = tuple[tuple[str, Any], ...]

# The kinds of a run's settings and results, for checking those read from a file.
SETTINGS = {
    **dict.fromkeys(("model", "config", "sampler", "balance", "detail", "statistic"), "text"),
    **dict.fromkeys(("size", "instance", "chains", "warmup", "draws", "seed"), "an integer"),
    "rate": "a number or null",
    "scale": "a number",
    "options": "an object",
}
RESULTS = {
    **dict.fromkeys(("scale", "acceptance", "ejd", "ess", "r_hat", "seconds"), "a number"),
    **dict.fromkeys(("acceptance_error", "ejd_error", "ess_error"), "a number"),
    "side_by_side": "an integer",
}


class AnyCell(Protocol):
    """Anything that can be run and stored: `settings` determine its result, `kind` is its type."""

    kind: ClassVar[str]

    def settings(self) -> dict[str, Any]: ...

    @staticmethod
    def check(settings: dict[str, Any], results: dict[str, Any]) -> None:
        """Raise a ValueError if they cannot be those of such a cell."""
        ...


FACTORS = 5  # hidden chains of an FHMM
PIXELS = 28 * 28  # of the images that RBMs are trained on
# Roles of runs, after rows of the paper's tables: X-1, AX, and the rates of which GX is the best.
SINGLE, TUNED, GRID = "fixed-1", "adaptive", "grid"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a sampler.

    Args:
        model: "bernoulli", "ising", "fhmm", "rbm", "identical" or "nearly_fair".
        size: N, lattice side, length or number of hidden units.
        config: "C1", "C2" or "C3"; "" for models without.
        sampler: "rwm", "gwg" or "lbp".
        balance: of gwg and lbp.
        detail: the reading of the sampler: path of lbp, repeats of gwg.
        rate: the acceptance rate to tune for; None for a fixed scale.
        scale: the fixed scale R, or where tuning starts.
        instance: the seed of the target.
        options: the reading of the target, as pairs of name and value, sorted.
        statistic: whose effective sample size is measured: "hamming", "sum", "site", "pair" or
            "log_prob".
        chains, warmup, draws, seed: of the run.
        role: its role in the experiment that lists it: `SINGLE`, `TUNED`, `GRID` or "". It is not
            a setting: cells that differ only in their role are the same cell.
    """

    kind: ClassVar[str] = "run"

    model: str
    size: int
    config: str
    sampler: str
    balance: str = ""
    detail: str = ""
    rate: float | None = None
    scale: float = 1.0
    instance: int = 0
    options: Options = ()
    statistic: str = "hamming"
    chains: int = 100
    warmup: int = 2_000
    draws: int = 2_000
    seed: int = 0
    role: str = dataclasses.field(default="", compare=False)

    def settings(self) -> dict[str, Any]:
        """The settings for JSON, with the revisions of the code that they depend on."""
        settings = {**dataclasses.asdict(self), "options": dict(self.options)}
        del settings["role"]
        return with_revision(settings, self.model, self.sampler, "loop", "diagnostics")

    @staticmethod
    def check(settings: dict[str, Any], results: dict[str, Any]) -> None:
        """Raise a ValueError if they cannot be those of a run."""
        check("settings", settings, SETTINGS)
        check_names("settings", settings, SETTINGS)
        check("results", results, RESULTS)

    def but(self, **changes: Any) -> "Cell":
        """The cell with some settings changed."""
        return dataclasses.replace(self, **changes)

    @property
    def shape(self) -> tuple:
        """Cells of one shape can run side by side, as one compiled program."""
        readings = tuple((k, v) for k, v in self.options if not isinstance(v, float))
        method = (self.sampler, self.balance, self.detail, self.statistic)
        return (self.model, self.size, readings, method, self.chains, self.warmup, self.draws)

    @property
    def num_sites(self) -> int:
        """The number of sites of the target, without building the target."""
        known = {"ising": self.size**2, "fhmm": self.size * FACTORS, "rbm": PIXELS}
        return known.get(self.model, self.size)

    def make_target(self) -> Target:
        return _target(self.model, self.size, self.config, self.instance, self.options)

    def make_kernel(self) -> Metropolis:
        """The sampler with the paper's literal rule: R sites at every step, up to N."""
        if self.sampler == "rwm":
            return RWM(lengths="paper")
        if self.sampler == "gwg":
            return GWG(self.balance, self.detail, lengths="paper")
        return LBP(self.balance, self.detail, lengths="paper")

    def make_statistic(self, target: Target) -> Callable:
        """A function of (state, info)."""
        if self.statistic == "hamming":
            return Hamming(random_state(target, self.seed))
        if self.statistic == "log_prob":
            return log_prob
        return {"sum": Sum, "site": Site, "pair": Pair}[self.statistic](target.dtype)


def digest(settings: dict[str, Any]) -> str:
    """The identifier of a cell; a change of any setting changes it."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def table_cell(model: str, size: int, config: str, sampler: str, balance: str, **more) -> Cell:
    """A cell with the readings behind the paper's tables, unless others are given."""
    options = {**TABLE_READING[model], **more.pop("options", {})}
    detail = more.pop("detail", TABLE_DETAIL[sampler])
    statistic = "sum" if model == "rbm" else "hamming"
    settings = {"detail": detail, "statistic": statistic, **more}
    return Cell(
        model, size, config, sampler, balance, options=tuple(sorted(options.items())), **settings
    )


@functools.lru_cache(maxsize=256)
def _target(model: str, size: int, config: str, instance: int, options: Options) -> Target:
    settings = dict(options)
    if model == "identical":
        return instances.identical(size, **settings)
    if model == "nearly_fair":
        return instances.nearly_fair(size, key=instance, **settings)
    if model == "rbm":
        return instances.rbm(size)  # pyright: ignore[reportAttributeAccessIssue]
    return getattr(instances, model)(size, config, instance, **settings)


class Sum(eqx.Module):
    """The number of ones."""

    dtype: Any = eqx.field(static=True)

    def __call__(self, state: ChainState, info: Info) -> Float[Array, ""]:
        return jnp.sum(as_float(state.x, self.dtype))


class Site(eqx.Module):
    """The first site alone."""

    dtype: Any = eqx.field(static=True)

    def __call__(self, state: ChainState, info: Info) -> Float[Array, ""]:
        return as_float(state.x.reshape(-1)[0], self.dtype)


class Pair(eqx.Module):
    """The number of pairs of sites that agree: site i of the first half with i of the second."""

    dtype: Any = eqx.field(static=True)

    def __call__(self, state: ChainState, info: Info) -> Float[Array, ""]:
        flat = state.x.reshape(-1)
        half = flat.size // 2
        return jnp.sum(as_float(flat[:half] == flat[half : 2 * half], self.dtype))
