"""hopscale evaluate: the likelihood of a deep energy-based model."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import AsJson, app, console
from hopscale.cli.draw import as_plain
from hopscale.cli.ebm import _proposal, _tuner
from hopscale.cli.train import DataDir, DataName, load_data

Option = typer.Option
EVALUATION = "evaluation.repeats"  # finished repeats, beside a checkpoint


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
    sampler: Annotated[str, Option(help="lbp, gwg or rwm")] = "lbp",
    balance: Annotated[
        str | None,
        Option(
            help="balancing function of lbp and gwg: barker, sqrt, min or max [sqrt]",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[str, Option(help="tuned, adaptive, either:RATE, or a fixed R")] = "tuned",
    chains: Annotated[int, Option(help="number of chains of each repeat")] = 100,
    betas: Annotated[int, Option(help="number of steps from the base to the model")] = 2_000,
    repeats: Annotated[int, Option(help="number of independent estimates")] = 5,
    resample: Annotated[
        float, Option(help="resample chains when less than this share is effective; 0: never")
    ] = 0.0,
    sides: Annotated[int, Option(help="2: chains also anneal back, from the replay buffer")] = 2,
    components: Annotated[
        int,
        Option(help="components of the mixture that chains start from; 0: the model's own base"),
    ] = 100,
    settle: Annotated[
        int, Option(help="steps of the buffer's chains before they anneal back")
    ] = 1_000,
    seed: Annotated[int, Option(help="seed of the estimates")] = 0,
    resume: Annotated[
        bool,
        Option(
            "--resume", help="store repeats beside the checkpoint, and continue from those stored"
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

    names = [] if split == "none" else split.split(",")
    which = {"average": "average", "last": "network"}.get(weights)
    if which is None:
        raise ValueError(f"--weights must be average or last; got {weights!r}.")
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
            components=components,
            settle=settle,
            chains=chains,
            betas=betas,
            repeats=repeats,
            kernel=_proposal(sampler, balance),
            scale=_tuner(scale),
            resample=resample,
            key=seed,
            keep=found.path.with_name(EVALUATION) if resume else None,
            progress=progress and not as_json,
        )
    except Interrupted as interrupted:
        stopped, estimate = interrupted, interrupted.partial
    if estimate is not None:
        scores = {name: learn.log_likelihood(model, x, estimate) for name, x in states.items()}
        result = _evaluation(found, estimate, scores)
        if as_json:
            print(json.dumps(as_plain(result)))
        else:
            _show(result)
        if not estimate.reliable:
            print(f"hopscale: {result['warning']}", file=sys.stderr)
    if stopped is not None:
        print(f"hopscale: {stopped}", file=sys.stderr)
        raise typer.Exit(130) from stopped


def _log_z(found: Any, model: Any, sides: int, *, components: int, settle: int, **options: Any):
    """Log Z of the model of a checkpoint, from one side or two."""
    from hopscale import learn
    from hopscale.learn.packing import load_samples

    if sides == 1:
        return learn.log_z(model, **options)
    if sides != 2:
        raise ValueError(f"--sides must be 1 or 2; got {sides}.")
    samples = load_samples(found, model.shape)
    components = min(components, len(samples) // 4)  # a few states for each
    return learn.measure_log_z(
        model, None, samples, components=components, settle=settle, **options
    )


def _evaluation(found: Any, estimate: Any, scores: dict[str, Any]) -> dict[str, Any]:
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
        "reliable": estimate.reliable,
        "warning": estimate.warning or None,
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
