"""A run as ArviZ data, and its statistics as a pandas table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from hopscale.adapters import require

if TYPE_CHECKING:
    from hopscale.results.run import Run


def to_arviz(run: "Run") -> Any:
    """Implements `Run.to_arviz`."""
    arviz = require("arviz", "arviz", "to_arviz")
    groups = {
        "posterior": _posterior(run),
        "sample_stats": _sample_stats(run),
        "warmup_sample_stats": _dataset(run, _steps(run.warmup_history, run.warmup)),
    }
    if block_length(run) > 1 and run.draws is not None:
        groups["statistics"] = _dataset(run, _traces(run, None))
    if int(arviz.__version__.partition(".")[0]) < 1:  # later versions have the name, but warn
        return arviz.InferenceData(**groups, warn_on_custom_groups=False)
    xarray = require("xarray", "arviz", "to_arviz")
    return xarray.DataTree.from_dict(groups)


def to_pandas(run: "Run") -> Any:
    """Implements `Run.to_pandas`."""
    pandas = require("pandas", "arviz", "to_pandas")
    rows = {
        name: {
            "mean": s.mean,
            "error": s.error,
            "sd": s.sd,
            "ess": s.ess_total,
            "r_hat": s.r_hat,
        }
        for name, s in run.statistics.items()
    }
    return pandas.DataFrame.from_dict(rows, orient="index")


def block_length(run: "Run") -> int:
    """How many draws are averaged in each entry of the statistics' traces."""
    return next((s.block for s in run.statistics.values()), 1)


def _kept(run: "Run") -> np.ndarray | None:
    """The numbers of the draws whose states were kept; None if none were."""
    if run.draws is None or not run.draws.shape[1]:
        return None
    return run.every * (1 + np.arange(run.draws.shape[1])) - 1


def _posterior(run: "Run"):
    kept = _kept(run)
    found: dict[str, Any] = {}
    if kept is not None:
        assert run.draws is not None
        axes = [f"x_dim_{axis}" for axis in range(run.draws.ndim - 2)]
        found = {"x": (("chain", "draw", *axes), run.draws), "draw": kept}
    if kept is None or block_length(run) == 1:
        found |= _traces(run, kept)
    return _dataset(run, found)


def _traces(run: "Run", kept: np.ndarray | None) -> dict[str, Any]:
    """Every statistic, at the draws whose states were kept or at all of them."""
    numbers, length = kept, block_length(run)
    traces = {name: s.trace for name, s in run.statistics.items()}
    if numbers is None:
        entries = next(iter(traces.values())).shape[1]
        numbers = length * (1 + np.arange(entries)) - 1
    else:
        traces = {name: trace[:, kept] for name, trace in traces.items()}
    return {**{name: (("chain", "draw"), t) for name, t in traces.items()}, "draw": numbers}


def _sample_stats(run: "Run"):
    """The log-density and energy of each draw, and its step's numbers averaged over chains."""
    kept = _kept(run) if block_length(run) == 1 else None
    found = _traces(run, kept)
    log_prob = found["log_prob"][1]
    chosen = {
        "draw": found["draw"],
        "lp": (("chain", "draw"), log_prob),
        "energy": (("chain", "draw"), -log_prob),
    }
    steps = _steps(run.history, run.num_draws)
    if len(steps["draw"]) >= len(found["draw"]) and np.all(np.isin(found["draw"], steps["draw"])):
        places = np.searchsorted(steps["draw"], found["draw"])
        for name, (axes, values) in ((n, v) for n, v in steps.items() if n != "draw"):
            chosen[name] = (axes, values[places])
    chosen["chain_acceptance_rate"] = (("chain",), run.accept_prob_by_chain)
    chosen["chain_distance"] = (("chain",), run.distance_by_chain)
    return _dataset(run, chosen)


def _steps(history: Any, steps: int) -> dict[str, Any]:
    """The numbers of the steps of a phase, averaged over chains."""
    entries, length = len(history["accept_prob"]), 1
    while entries and steps // length > entries:
        length *= 2
    named = {"acceptance_rate": "accept_prob", "distance": "distance", "scale": "scale"}
    found: dict[str, Any] = {ours: (("draw",), history[name]) for ours, name in named.items()}
    return {**found, "draw": length * (1 + np.arange(entries)) - 1}


def _dataset(run: "Run", variables: dict[str, Any]):
    import hopscale
    from hopscale.results.run import describe

    xarray = require("xarray", "arviz", "to_arviz")
    coordinates = {"draw": variables["draw"], "chain": np.arange(run.chains)}
    return xarray.Dataset(
        {name: value for name, value in variables.items() if name != "draw"},
        coords=coordinates,
        attrs={
            "inference_library": "hopscale",
            "inference_library_version": hopscale.__version__,
            "target": type(run.target).__name__,
            "kernel": describe(run.kernel),
            "scale": "" if run.scale is None else run.scale,
            "r_hat": run.r_hat,
        },
    )
