"""What the subcommands of `hopscale sample` share: options, running, showing, saving."""

import dataclasses
import functools
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import console
from hopscale.cli.options import chosen, parameters, with_options
from hopscale.cli.words import for_commands
from hopscale.tables import listed

SamplerOption, RunOption, OutputOption = (
    functools.partial(typer.Option, rich_help_panel=panel) for panel in ("Sampler", "Run", "Output")
)
Seed = Annotated[int, typer.Option(help="seed of the target and of the run")]

DRAWS = 2_000

# The settings of each sampler.
SAMPLERS = {
    "lbp": ("balance", "path", "lengths"),
    "gwg": ("balance", "repeats", "lengths"),
    "dmala": ("balance",),
    "rwm": ("lengths",),
    "gibbs": ("rule",),
}
AUTO = {**SAMPLERS, "auto": ()}


def draws_from(make_target: Callable) -> Callable:
    """A command that makes a target and draws from it, with the options of both functions.

    `make_target` returns the target, and its description for the command's JSON.
    """
    own, shared = parameters(make_target), parameters(draw, skip=2)

    @functools.wraps(make_target)
    def command(**options: Any) -> None:
        target, identity = make_target(**chosen(options, own))
        draw(target, identity, **chosen(options, shared))

    return with_options(command, own, shared)


def draw(
    target: Any,
    identity: dict,
    sampler: Annotated[
        str | None,
        SamplerOption(
            help="lbp, gwg, dmala, rwm, gibbs, or auto: one that suits the target "
            "[auto for your own targets, lbp for the paper's]"
        ),
    ] = None,
    balance: Annotated[
        str | None,
        SamplerOption(
            help="balancing function of lbp, gwg and dmala: barker, sqrt, min or max "
            "[barker; sqrt for dmala]"
        ),
    ] = None,
    path: Annotated[
        str | None,
        SamplerOption(
            help="order of the reverse move of lbp: reversed, or same as in the tables [reversed]"
        ),
    ] = None,
    repeats: Annotated[
        str | None,
        SamplerOption(help="sites that gwg draws twice: once or parity [once]"),
    ] = None,
    rule: Annotated[
        str | None,
        SamplerOption(help="how gibbs draws a site: gibbs or metropolis [gibbs]"),
    ] = None,
    lengths: Annotated[
        str | None,
        SamplerOption(help="not for gibbs: mixed, or paper for R sites at every step [mixed]"),
    ] = None,
    scale: Annotated[float | None, SamplerOption(help="use this fixed R instead of tuning")] = None,
    rate: Annotated[
        float | None,
        SamplerOption(help="acceptance rate to hold [the one of the largest jump]"),
    ] = None,
    temper: Annotated[
        bool,
        SamplerOption("--temper", help="parallel tempering, for targets with many modes"),
    ] = False,
    levels: Annotated[
        int | None,
        SamplerOption(help="number of levels of --temper [found by a short run]"),
    ] = None,
    chains: Annotated[int, RunOption(help="number of chains")] = 100,
    warmup: Annotated[int, RunOption(help="steps that tune the scale and are not kept")] = 2000,
    draws: Annotated[
        int | None,
        RunOption(
            help=f"steps whose statistics are kept; of a run that --resume finds finished, "
            f"how many more [{DRAWS}]"
        ),
    ] = None,
    seed: Seed = 0,
    keep: Annotated[
        str | None,
        OutputOption(help="states to save: all, last, or n for every n-th [last]"),
    ] = None,
    save: Annotated[
        Path | None,
        OutputOption(
            help="write kept states and statistics: NetCDF (.nc, for ArviZ) or NumPy (.npz)"
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        OutputOption("--overwrite", help="replace the --save file if it exists"),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        OutputOption(help="write the run to this file every two minutes and at the end"),
    ] = None,
    resume: Annotated[
        bool,
        OutputOption("--resume", help="continue the run in the --checkpoint file"),
    ] = False,
    as_json: Annotated[bool, OutputOption("--json", help="print one JSON object")] = False,
    progress: Annotated[bool, OutputOption(help="show a progress bar")] = True,
) -> None:
    """Sample, print how well the run went, and save what was asked for."""
    import hopscale as hs
    from hopscale.results.run import describe
    from hopscale.runs import saving
    from hopscale.runs.levels import with_levels
    from hopscale.runs.plan import Plan
    from hopscale.runs.run import run_plan

    settings = given(balance=balance, path=path, repeats=repeats, rule=rule, lengths=lengths)
    if sampler is None:
        sampler = "lbp" if settings or not identity["own"] else "auto"
    tuner = _tuner(scale, rate)
    chosen_kernel, reason = _choose(sampler, settings, target, tuner)
    kernel = _tempered(chosen_kernel, temper, levels)
    _check_files(save, overwrite, keep, checkpoint, resume)
    keeping = keep or ("last" if save else None)
    plan = Plan.of(
        [target],
        kernel,
        [seed],
        [tuner],
        chains,
        warmup,
        DRAWS if draws is None else draws,
        keep=int(keeping) if keeping and keeping.isdecimal() else keeping,
    )
    plan = with_levels(dataclasses.replace(plan, reason=reason), progress and not as_json)
    identity |= {"sampler": chosen_kernel.name, "settings": describe(plan.kernel), "seed": seed}
    del identity["own"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.ConvergenceWarning)  # they are printed with the run
        try:
            if resume and checkpoint is not None:
                run = saving.resume(checkpoint, plan, draws, progress and not as_json)
            else:
                run = run_plan(plan, None, progress and not as_json, None, checkpoint)
        except hs.Interrupted as stopped:
            _show(stopped.run, identity, as_json, save)
            has = (
                ""
                if checkpoint is None
                else f"; {checkpoint} has the run: --resume goes on with it"
            )
            print(f"hopscale: {stopped.message}{has}", file=sys.stderr)
            raise typer.Exit(130) from None
    _show(run, identity, as_json, save)


def load_own_rbm(weights: Path, size: int | None, ratios: str = "gradient") -> Any:
    """The RBM in a file, if no size of a shipped one is given too."""
    import hopscale as hs

    if size is not None:
        raise ValueError("--size names a shipped RBM and --weights a file; give one of them.")
    return hs.learn.load_rbm(weights, ratios)


def _choose(name: str, settings: dict, target: Any, tuner: Any):
    """The kernel of that name; with "auto", the one that suits the target, and why."""
    from hopscale.runs.choose import Chosen, choose

    check_settings(name, settings, AUTO)
    if name == "auto":
        return choose(target, tuner)
    return Chosen(make_kernel(name, settings, target), "")


def make_kernel(name: str, settings: dict, target: Any = None):
    import hopscale as hs

    check_settings(name, settings)
    gibbs = hs.BlockGibbs if target is None or isinstance(target, hs.RBM) else hs.Gibbs
    if gibbs is hs.BlockGibbs and "rule" in settings:
        raise ValueError("--rule is for sweeps site by site; an RBM draws all units at once.")
    kernels = {"lbp": hs.LBP, "gwg": hs.GWG, "dmala": hs.DMALA, "rwm": hs.RWM, "gibbs": gibbs}
    return kernels[name](**settings)


def check_settings(name: str, settings: dict, samplers: dict = SAMPLERS) -> None:
    """Refuse an unknown sampler, and settings that belong to another one."""
    if name not in samplers:
        raise ValueError(f"--sampler must be one of {', '.join(samplers)}; got {name!r}.")
    for setting in settings:
        if setting not in samplers[name]:
            owners = [owner for owner in samplers if setting in samplers[owner]]
            raise ValueError(f"--{setting} is a setting of {listed(owners)}, not of {name}.")


def _tempered(kernel: Any, temper: bool, levels: int | None):
    import hopscale as hs

    if levels is not None and not temper:
        raise ValueError("--levels is a setting of --temper; give both.")
    return hs.Tempering(levels=levels, kernel=kernel) if temper else kernel


def _tuner(scale: float | None, rate: float | None):
    import hopscale as hs

    if scale is not None and rate is not None:
        raise ValueError("--scale fixes R and --rate tunes it; give one of them.")
    if scale is not None:
        return hs.Fixed(scale)
    return None if rate is None else hs.Tuned(rate)


def given(**settings: Any) -> dict:
    """The settings that were given."""
    return {name: value for name, value in settings.items() if value is not None}


def as_plain(value: Any) -> Any:
    """A value for JSON, which has no NaN or infinity: these become null."""
    if isinstance(value, dict):
        return {name: as_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- Files. --------------------------------------------------------------------------------------


def _check_files(
    save: Path | None, overwrite: bool, keep: str | None, checkpoint: Path | None, resume: bool
) -> None:
    """Refuse files that could not be written, before the run."""
    from hopscale.disk.files import check_writable

    if keep is not None and keep not in ("all", "last") and not (keep.isdecimal() and int(keep)):
        raise ValueError(f"--keep takes all, last, or n for every n-th state; got {keep!r}.")
    if keep is not None and save is None and checkpoint is None:
        raise ValueError("--keep says which states --save writes; give --save too.")
    if overwrite and save is None:
        raise ValueError("--overwrite is for the file of --save; give --save too.")
    if save is not None:
        check_writable(save, overwrite)
        if save.suffix not in (".nc", ".npz"):
            raise ValueError(f"--save takes a file that ends in .nc or .npz; got {save}.")
        if save.suffix == ".nc":
            from hopscale.adapters import require

            require("arviz", "arviz", "--save to NetCDF")
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
    """Save the states of a run and print it; a failure of one does not prevent the other."""
    try:
        if save is not None and run.draws is None:
            print(f"hopscale: nothing was drawn, so {save} was not written", file=sys.stderr)
        elif save is not None:
            _save(save, run)
    finally:
        summary = run.summary()
        summary["warnings"] = [for_commands(sentence) for sentence in summary["warnings"]]
        if as_json:
            print(json.dumps(as_plain({**summary, **identity})), flush=True)
        else:
            console().print(run.shown(for_commands))


def _save(path: Path, run: Any) -> None:
    """Save the draws, such that a full disk neither leaves half a file nor loses them."""
    import numpy as np

    from hopscale.disk import files

    if path.suffix == ".nc":
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / path.name
            run.to_arviz().to_netcdf(str(part))
            content = part.read_bytes()
        files.write_or_set_aside(path, lambda file: file.write(content))
        return
    traces = {name: statistic.trace for name, statistic in run.statistics.items()}
    files.write_or_set_aside(
        path, lambda file: np.savez_compressed(file, draws=run.draws, **traces)
    )
