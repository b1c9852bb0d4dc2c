"""hopscale sample: draw from a target and say how well it went."""

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import app, console

SIZES = {"bernoulli": 800, "ising": 50, "fhmm": 1000, "rbm": 400, "ebm": None}
SAMPLERS = {
    "lbp": ("balance", "path", "lengths"),
    "gwg": ("balance", "repeats", "lengths"),
    "rwm": ("lengths",),
    "gibbs": (),
}
READINGS = {
    "bernoulli": ("config", "spacing"),
    "ising": ("config", "sign", "disc"),
    "fhmm": ("config", "variant", "axis", "factors"),
    "rbm": ("ratios", "weights"),
    "ebm": ("model",),
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
    sampler: Annotated[str, typer.Option(help="lbp, gwg, rwm; for an rbm also gibbs")] = "lbp",
    balance: Annotated[
        str | None, typer.Option(help="lbp, gwg: barker, sqrt, min or max [barker]")
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="lbp: reversed, or same as in the paper's tables [reversed]")
    ] = None,
    repeats: Annotated[str | None, typer.Option(help="gwg: once or parity [once]")] = None,
    lengths: Annotated[
        str | None,
        typer.Option(help="not gibbs: mixed, or paper for R sites at every step [mixed]"),
    ] = None,
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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace the --save file if it is there")
    ] = False,
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
    model: Annotated[
        Path | None, typer.Option(help="ebm: a checkpoint or folder of `hopscale train ebm`")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="write the run to this file, every two minutes and at last")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="go on with the run in the --checkpoint file"),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
    progress: Annotated[bool, typer.Option(help="show a progress bar")] = True,
) -> None:
    """Draw from one of the paper's targets.

    With --checkpoint a run can be stopped at any moment and goes on with --resume, bit for bit; a
    run that had ended gets --draws more.

    Example: `hopscale sample ising --size 50 --config C2 --sampler lbp --chains 100`
    """
    import hopscale as hs
    from hopscale import saving
    from hopscale.plan import Plan
    from hopscale.results import describe
    from hopscale.run import run_plan

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
        model=model,
    )
    distribution = _target(hs, target, size, seed, readings)
    settings = _given(balance=balance, path=path, repeats=repeats, lengths=lengths)
    kernel = _kernel(hs, sampler, settings)
    if scale is not None and rate is not None:
        raise ValueError("--scale fixes R and --rate tunes it; give one of them.")
    tuner = None
    if scale is not None or rate is not None:
        tuner = hs.Adaptive(rate) if scale is None else hs.Fixed(scale)
    _check_files(save, overwrite, checkpoint, resume)
    keeping = keep or ("last" if save else None)
    plan = Plan.of(
        [distribution],
        kernel,
        [seed],
        [tuner],
        chains,
        warmup,
        draws,
        keep=int(keeping) if keeping and keeping.lstrip("-").isdigit() else keeping,
    )
    identity = {
        "target": target,
        "size": distribution.num_hidden
        if target == "rbm"
        else size or SIZES[target] or distribution.num_sites,
        "config": config or "C2" if "config" in READINGS[target] else None,
        "sampler": sampler,
        "settings": describe(kernel),
        "seed": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.ConvergenceWarning)  # they are printed with the run
        try:
            if resume and checkpoint is not None:
                run = saving.resume(checkpoint, plan, progress and not as_json)
            else:
                run = run_plan(plan, None, progress and not as_json, None, checkpoint)
        except hs.Interrupted as stopped:
            _show(stopped.run, identity, as_json, save)
            print(f"hopscale: {stopped}", file=sys.stderr)
            raise typer.Exit(130) from None
    _show(run, identity, as_json, save)


def _check_files(save: Path | None, overwrite: bool, checkpoint: Path | None, resume: bool):
    """Refuse what could not be written, before the run."""
    from hopscale.files import check_writable

    if save is not None:
        check_writable(save, overwrite)
    if resume and checkpoint is None:
        raise ValueError("--resume goes on with the run in a file: give --checkpoint too.")
    if checkpoint is None:
        return
    if resume and not checkpoint.is_file():
        raise FileNotFoundError(f"there is no {checkpoint} to go on from; leave --resume out.")
    if not resume and checkpoint.exists():
        raise FileExistsError(
            f"{checkpoint} exists: go on with its run by --resume, or give another file."
        )
    check_writable(checkpoint, overwrite=True)


def _show(run: Any, identity: dict, as_json: bool, save: Path | None) -> None:
    """Print the run, and save its states: what cannot be saved must not hide what was found."""
    if as_json:
        print(json.dumps(_plain({**run.summary(), **identity})))
    else:
        console().print(run)
    if save is not None and run.draws is None:
        print(f"hopscale: nothing was drawn, {save} is left as it was", file=sys.stderr)
    elif save is not None:
        _save(save, run.draws)


def _target(hs: Any, name: str, size: int | None, seed: int, settings: dict):
    if name not in SIZES:
        raise ValueError(f"target must be one of {', '.join(SIZES)}; got {name!r}.")
    _refuse_foreign(name, settings, READINGS)
    if name == "ebm":
        return _ebm(hs, size, **settings)
    if name == "rbm":
        return _rbm(hs, size, **settings)
    return getattr(hs.paper, name)(SIZES[name] if size is None else size, key=seed, **settings)


def _ebm(hs: Any, size: int | None, model: Path | None = None):
    if model is None or size is not None:
        raise ValueError(
            "an ebm is trained: give --model, the folder that "
            "`hopscale train ebm --out` wrote, and no --size."
        )
    return hs.learn.load_model(model)


def _rbm(hs: Any, size: int | None, ratios: str = "gradient", weights: Path | None = None):
    if weights is None:
        return hs.paper.rbm(SIZES["rbm"] if size is None else size, ratios)
    if size is not None:
        raise ValueError("--size names a shipped RBM and --weights a file; give one of them.")
    from hopscale.learn import load_rbm

    return load_rbm(weights, ratios)


def _kernel(hs: Any, name: str, settings: dict):
    if name not in SAMPLERS:
        raise ValueError(f"--sampler must be one of {', '.join(SAMPLERS)}; got {name!r}.")
    _refuse_foreign(name, settings, SAMPLERS)
    kernels = {"lbp": hs.LBP, "gwg": hs.GWG, "rwm": hs.RWM, "gibbs": hs.BlockGibbs}
    return kernels[name](**settings)


def _refuse_foreign(name: str, settings: dict, owned: dict[str, tuple[str, ...]]) -> None:
    """Raise for a setting that belongs to another target or sampler."""
    for setting in settings:
        if setting not in owned[name]:
            owners = " and ".join(owner for owner in owned if setting in owned[owner])
            raise ValueError(f"--{setting} is a setting of {owners}, not of {name}.")


def _given(**settings: Any) -> dict:
    return {name: value for name, value in settings.items() if value is not None}


def _plain(value: Any) -> Any:
    """NaN is not JSON: a number that does not exist is null."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _save(path: Path, draws: Any) -> None:
    """A full disk must not leave half a file."""
    import numpy as np

    from hopscale.files import replacing

    with replacing(path) as file:
        np.savez_compressed(file, draws=draws)
