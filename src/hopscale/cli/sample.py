"""hopscale sample: draw from a target and say how well it went."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import app, console

SIZES = {"bernoulli": 800, "ising": 50, "fhmm": 1000, "rbm": 400, "ebm": None}
SAMPLERS = {"lbp": ("balance", "path"), "gwg": ("balance", "repeats"), "rwm": ()}
READINGS = {
    "bernoulli": ("config", "spacing"),
    "ising": ("config", "sign", "disc"),
    "fhmm": ("config", "variant", "axis", "factors"),
    "rbm": ("ratios", "weights"),
    "ebm": ("checkpoint",),
}


@app.command()
def sample(
    target: Annotated[str, typer.Argument(help="bernoulli, ising, fhmm, rbm or ebm")],
    size: Annotated[
        int | None,
        typer.Option(help="N, lattice side, length or hidden units. [800 / 50 / 1000 / 400]"),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="not rbm: C1 (smooth), C2 or C3 (sharp) [C2]")
    ] = None,
    sampler: Annotated[str, typer.Option(help="lbp, gwg or rwm")] = "lbp",
    balance: Annotated[
        str | None, typer.Option(help="lbp, gwg: barker, sqrt, min or max [barker]")
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="lbp: reversed, or same as in the paper's tables [reversed]")
    ] = None,
    repeats: Annotated[str | None, typer.Option(help="gwg: once or parity [once]")] = None,
    chains: Annotated[int, typer.Option(help="chains side by side")] = 100,
    warmup: Annotated[int, typer.Option(help="steps that tune the scale")] = 2000,
    draws: Annotated[int, typer.Option(help="steps that count")] = 2000,
    scale: Annotated[float | None, typer.Option(help="a fixed R instead of tuning")] = None,
    rate: Annotated[
        float | None, typer.Option(help="acceptance rate to tune for [0.574; rwm 0.234]")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the target and the run")] = 0,
    keep: Annotated[
        str | None, typer.Option(help="states for --save: all, last or every n-th")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="write the kept states to this .npz file")
    ] = None,
    spacing: Annotated[str | None, typer.Option(help="bernoulli: random or even p")] = None,
    sign: Annotated[str | None, typer.Option(help="ising: + (tables) or - (text)")] = None,
    disc: Annotated[str | None, typer.Option(help="ising: half or text")] = None,
    variant: Annotated[str | None, typer.Option(help="fhmm: written or table")] = None,
    axis: Annotated[str | None, typer.Option(help="fhmm: time or factor")] = None,
    factors: Annotated[int | None, typer.Option(help="fhmm: number of chains K")] = None,
    ratios: Annotated[str | None, typer.Option(help="rbm: gradient or exact [gradient]")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="rbm: a file of `hopscale train rbm` [the shipped one]")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="ebm: a checkpoint or folder of `hopscale train ebm`")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="begin at the last states in the --save file, and add to it"),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
    progress: Annotated[bool, typer.Option(help="show a progress bar")] = True,
) -> None:
    """Draw from one of the paper's targets.

    Example: `hopscale sample ising --size 50 --config C2 --sampler lbp --chains 100`
    """
    import jax
    import numpy as np

    import hopscale as hs
    from hopscale.results import describe

    readings = _given(
        config=config,
        spacing=spacing,
        sign=sign,
        disc=disc,
        variant=variant,
        axis=axis,
        factors=factors,
        ratios=ratios,
        weights=weights,
        checkpoint=checkpoint,
    )
    made = _target(hs, target, size, seed, readings)
    proposal = _sampler(hs, sampler, _given(balance=balance, path=path, repeats=repeats))
    if scale is not None and rate is not None:
        raise ValueError("--scale fixes R and --rate tunes it; give one of them.")
    tuner = hs.Adaptive(rate) if scale is None else hs.Fixed(scale)
    if save is not None and not save.parent.is_dir():
        raise ValueError(f"cannot write {save}: there is no folder {save.parent}.")
    kept = keep or ("last" if save else None)
    before = _drawn_before(save, made, chains) if resume else None
    run = hs.sample(
        made,
        proposal,
        chains=chains,
        warmup=warmup,
        draws=draws,
        # Another key for another part of the run.
        key=seed if before is None else jax.random.fold_in(jax.random.key(seed), before.shape[1]),
        scale=tuner,
        init=None if before is None else before[:, -1],
        keep=int(kept) if kept and kept.lstrip("-").isdigit() else kept,
        progress=progress and not as_json,
    )
    if save is not None and run.draws is None:
        print(f"hopscale: nothing was drawn, {save} is left as it was", file=sys.stderr)
    elif save is not None and run.draws is not None:
        parts = [run.draws] if before is None else [before, run.draws]
        _save(save, np.concatenate(parts, axis=1))
    if as_json:
        name = {
            "target": target,
            "size": made.num_hidden if target == "rbm" else size or SIZES[target] or made.num_sites,
            "config": config or "C2" if "config" in READINGS[target] else None,
            "sampler": sampler,
            "settings": describe(proposal),
            "seed": seed,
        }
        print(json.dumps(_plain({**run.summary(), **name})))
    else:
        console().print(run)
    if run.interrupted:
        raise typer.Exit(130)


def _target(hs: Any, name: str, size: int | None, seed: int, settings: dict):
    if name not in SIZES:
        raise ValueError(f"target must be one of {', '.join(SIZES)}; got {name!r}.")
    _refuse_foreign(name, settings, READINGS)
    if name == "ebm":
        return _ebm(hs, size, **settings)
    if name == "rbm":
        return _rbm(hs, size, **settings)
    return getattr(hs.paper, name)(SIZES[name] if size is None else size, key=seed, **settings)


def _ebm(hs: Any, size: int | None, checkpoint: Path | None = None):
    if checkpoint is None or size is not None:
        raise ValueError(
            "an ebm is trained: give --checkpoint, the folder that "
            "`hopscale train ebm --out` wrote, and no --size."
        )
    return hs.learn.load_model(checkpoint)


def _rbm(hs: Any, size: int | None, ratios: str = "gradient", weights: Path | None = None):
    if weights is None:
        return hs.paper.rbm(SIZES["rbm"] if size is None else size, ratios)
    if size is not None:
        raise ValueError("--size names a shipped RBM and --weights a file; give one of them.")
    from hopscale.learn import load_rbm

    return load_rbm(weights, ratios)


def _sampler(hs: Any, name: str, settings: dict):
    if name not in SAMPLERS:
        raise ValueError(f"--sampler must be lbp, gwg or rwm; got {name!r}.")
    _refuse_foreign(name, settings, SAMPLERS)
    return getattr(hs, name.upper())(**settings)


def _refuse_foreign(name: str, settings: dict, known: dict[str, tuple[str, ...]]) -> None:
    """Raise for a setting that belongs to another target or sampler."""
    for setting in settings:
        if setting not in known[name]:
            owners = " and ".join(owner for owner in known if setting in known[owner])
            raise ValueError(f"--{setting} is a setting of {owners}, not of {name}.")


def _given(**settings: Any) -> dict:
    return {name: value for name, value in settings.items() if value is not None}


def _plain(values: dict) -> dict:
    """NaN is not JSON: a number that does not exist is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _drawn_before(path: Path | None, target: Any, chains: int):
    """The states of the run to go on with."""
    import numpy as np

    if path is None:
        raise ValueError("--resume goes on from the states in the --save file: give --save too.")
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path} to go on from; leave --resume out.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            draws = held["draws"]
    except Exception as error:  # a damaged file makes zipfile and NumPy raise nearly anything
        raise ValueError(f"{path} is damaged, or was not written by --save.") from error
    if draws.shape[0] != chains or draws.shape[2:] != target.shape or draws.shape[1] == 0:
        raise ValueError(
            f"{path} holds states of shape {draws.shape}; to go on from it takes "
            f"({chains}, kept, {', '.join(map(str, target.shape))}), for --chains {chains}."
        )
    return draws


def _save(path: Path, draws: Any) -> None:
    """A full disk must not leave half a file."""
    import numpy as np

    from hopscale.files import replacing

    with replacing(path) as file:
        np.savez_compressed(file, draws=draws)
