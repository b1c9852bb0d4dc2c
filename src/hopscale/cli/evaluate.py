"""hopscale evaluate: the likelihood of a deep energy-based model."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import AsJson, app, console
from hopscale.cli.draw import as_plain, given
from hopscale.cli.ebm import SCALES, UNSET, _proposal, _tuner
from hopscale.cli.train import DataDir, DataName, load_data

Option = typer.Option
EVALUATION = "evaluation.repeats"  # finished repeats, beside a checkpoint
COMPONENTS, SETTLE = 100, 1_000  # of --sides 2
ONE_SIDE = (
    "not a measurement: stopped before any chains had walked back, so nothing bounds log Z from "
    "above."
)


@app.command()
def evaluate(
    place: Annotated[Path, typer.Argument(help="a checkpoint, or the folder of a training run")],
    data: DataName = None,
    data_dir: DataDir = None,
    split: Annotated[
        str,
        Option(
            help="parts of the data to evaluate: train, valid, test, separated by commas; or none"
        ),
    ] = "valid,test",
    weights: Annotated[str, Option(help="weights of the model: average or last")] = "average",
    sampler: Annotated[str, Option(help="lbp, gwg, dmala or rwm")] = "lbp",
    balance: Annotated[
        str | None,
        Option(
            help="balancing function of lbp, gwg and dmala: barker, sqrt, min or max [sqrt]",
            **UNSET,
        ),
    ] = None,
    scale: Annotated[str, Option(help=SCALES)] = "tuned",
    chains: Annotated[int, Option(help="number of chains of each repeat")] = 100,
    betas: Annotated[int, Option(help="number of steps from the base to the model")] = 2_000,
    repeats: Annotated[int, Option(help="number of independent estimates")] = 5,
    resample: Annotated[
        float, Option(help="resample chains when less than this share is effective; 0: never")
    ] = 0.0,
    sides: Annotated[int, Option(help="2: chains also anneal back, from the replay buffer")] = 2,
    components: Annotated[
        int | None,
        Option(
            help="with --sides 2: components of the mixture that chains start from, at most a "
            f"quarter of the buffer; 0: the model's own base [{COMPONENTS}]",
            **UNSET,
        ),
    ] = None,
    settle: Annotated[
        int | None,
        Option(
            help=f"with --sides 2: steps of the buffer's chains before they anneal back [{SETTLE}]",
            **UNSET,
        ),
    ] = None,
    seed: Annotated[int, Option(help="seed of the estimates")] = 0,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="store repeats beside the checkpoint, and continue from those stored; with "
            "--sides 2 by the same --chains and --repeats",
        ),
    ] = False,
    as_json: AsJson = False,
    progress: Annotated[bool, Option(help="show a progress bar")] = True,
) -> None:
    """Estimate the likelihood of an energy-based model by annealed importance sampling.

    Example: `hopscale evaluate digits-ebm --betas 2000`

    The data set is the one the model was trained on, unless `--data` names another.

    Chains are annealed from a mixture, fitted to half of the model's replay buffer, to the model.
    Other chains are annealed back from the other half. Apart from chance, log Z lies between the
    two estimates. If they are more than 1 nat apart, the numbers are not a measurement, and the
    output says so; more `--betas` help.

    With `--sides 1`, chains are annealed one way only, from the model's own base. A measurement
    then needs at least 10 effective chains, and at least a tenth of all chains.
    """
    from hopscale import learn
    from hopscale.learn import checkpoint
    from hopscale.runs.host import Interrupted

    names = [] if split == "none" else [name.strip() for name in split.split(",")]
    which = {"average": "average", "last": "network"}.get(weights)
    if which is None:
        raise ValueError(f"--weights must be average or last; got {weights!r}.")
    if data is not None and not names:
        raise ValueError("--data has no effect with --split none; leave one of them out.")
    _check(sides, chains, betas, repeats, resample, given(components=components, settle=settle))
    kernel, tuner = _proposal(sampler, balance), _tuner(scale)
    found = checkpoint.find(place)
    trained_on = found.about.get("notes", {}).get("data")
    images = load_data(data or trained_on, data_dir) if names else None
    model = learn.load_model(found.path, which=which)
    if images is not None and images.shape != model.shape:
        raise ValueError(
            f"{images.name} has images of shape {images.shape}, and {found.path} is a model of "
            f"shape {model.shape}. Give --data of that shape, or --split none."
        )
    states = {name: images.binarized(seed, name) for name in names} if images else {}
    stopped = None
    try:
        estimate = _log_z(
            found,
            model,
            sides,
            components=COMPONENTS if components is None else components,
            settle=SETTLE if settle is None else settle,
            chains=chains,
            betas=betas,
            repeats=repeats,
            kernel=kernel,
            scale=tuner,
            resample=resample,
            key=seed,
            keep=found.path.with_name(EVALUATION) if resume else None,
            progress=progress and not as_json,
        )
    except Interrupted as interrupted:
        stopped, estimate = interrupted, interrupted.partial
    if estimate is not None:
        scores = {name: learn.log_likelihood(model, x, estimate) for name, x in states.items()}
        warning = ONE_SIDE if sides == 2 and estimate.upper is None else estimate.warning
        result = _evaluation(found, estimate, scores, warning, stopped is not None)
        if as_json:
            print(json.dumps(as_plain(result)))
        else:
            _show(result)
        if warning:
            print(f"hopscale: {warning}", file=sys.stderr)
    if stopped is not None:
        stored = resume and found.path.with_name(EVALUATION).exists()
        goes_on = "; the same command goes on" if stored else ""
        print(f"hopscale: {_progress(estimate, sides, repeats)}{goes_on}", file=sys.stderr)
        raise typer.Exit(130) from stopped


def _check(
    sides: int, chains: int, betas: int, repeats: int, resample: float, two_sided: dict[str, int]
) -> None:
    """Refuse what cannot work, or has no effect, before anything is loaded."""
    from hopscale.validate import count, number

    if sides not in (1, 2):
        raise ValueError(f"--sides must be 1 or 2; got {sides}.")
    count("--chains", chains, minimum=2)
    count("--betas", betas, minimum=1)
    count("--repeats", repeats, minimum=1)
    number("--resample", resample, 0, 1)
    for name, value in two_sided.items():
        if sides == 1:
            raise ValueError(f"--{name} is a setting of --sides 2, not of --sides 1.")
        count(f"--{name}", value, minimum=0)


def _log_z(
    found: Any, model: Any, sides: int, *, components: int, settle: int, chains: int, **options: Any
):
    """Log Z of the model of a checkpoint, from one side or two."""
    from hopscale import learn
    from hopscale.learn.packing import load_samples

    if sides == 1:
        return learn.log_z(model, chains=chains, **options)
    samples = load_samples(found, model.shape)
    back = len(samples) - len(samples) // 2  # the mixture takes the others
    if chains > back:
        raise ValueError(
            f"--chains must be at most {back} for this model: with --sides 2, as many chains start "
            f"at one half of its replay buffer, which holds {len(samples)} states; got {chains}. "
            "Give fewer --chains, or --sides 1."
        )
    components = min(components, len(samples) // 4)  # a few states for each
    return learn.measure_log_z(
        model, None, samples, components=components, settle=settle, chains=chains, **options
    )


def _progress(estimate: Any, sides: int, repeats: int) -> str:
    """How far an evaluation came before it was stopped."""
    if estimate is None:
        return "stopped before the first repeat was done; nothing is estimated yet"
    done = f"stopped after {len(estimate.by_repeat)} of {repeats} repeats"
    if sides == 1:
        return done
    back = 0 if estimate.upper_by_repeat is None else len(estimate.upper_by_repeat)
    return f"{done} to the model and {back} of {repeats} back"


def _evaluation(
    found: Any, estimate: Any, scores: dict[str, Any], warning: str, interrupted: bool
) -> dict[str, Any]:
    """All numbers of an evaluation by name."""
    result = {
        "checkpoint": str(found.path),
        "iterations": found.about["step"],
        "log_z": estimate.value,
        "log_z_error": estimate.error,
        "log_z_lower": estimate.lower,
        "log_z_upper": estimate.upper,
        "effective_chains": estimate.effective,
        "chains": estimate.log_weights.size,
        "resample": estimate.resample,
        "interrupted": interrupted,
        "reliable": not warning,
        "warning": warning or None,
        "acceptance": estimate.acceptance,
        "scale": estimate.scale,
        "seconds": estimate.seconds,
    }
    for name, score in scores.items():
        result[f"{name}_log_likelihood"] = score.value
        result[f"{name}_spread"] = score.spread
    return result


def _show(result: dict[str, Any]) -> None:
    from rich.table import Table

    doubt = "" if result["reliable"] else " NOT MEASURED"

    table = Table(title=result["checkpoint"], show_header=False)
    table.add_row("iterations", f"{result['iterations']:,}")
    table.add_row("log Z", f"{result['log_z']:.3f} ± {result['log_z_error']:.2g}{doubt}")
    if result["log_z_upper"] is not None:
        bounds = f"{result['log_z_lower']:.3f}, {result['log_z_upper']:.3f}"
        table.add_row("from below, from above", bounds)
    table.add_row("effective chains", f"{result['effective_chains']:.1f} of {result['chains']}")
    for name in ("train", "valid", "test"):
        if f"{name}_log_likelihood" in result:
            value, spread = result[f"{name}_log_likelihood"], result[f"{name}_spread"]
            shown = f"{value:.3f} ± {spread:.2g} (by the data){doubt}"
            table.add_row(f"log-likelihood, {name}", shown)
    table.add_row("acceptance", f"{result['acceptance']:.3f}")
    if result["scale"] is not None:
        table.add_row("scale R", f"{result['scale']:.2f}")
    table.add_row("time", f"{result['seconds']:.1f} s")
    console().print(table)
