"""hopscale train ebm: deep energy-based models."""

import contextlib
import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import AsJson, console
from hopscale.cli.draw import SAMPLERS, as_plain, check_settings, given, make_kernel
from hopscale.cli.train import DataDir, DataName, load_data, train_app

Option = typer.Option
UNSET: Any = {"show_default": False}
PROPOSALS = {name: SAMPLERS[name] for name in ("lbp", "gwg", "dmala", "rwm")}
SCALES = "tuned, tuned:RATE, adaptive[:RATE], or a fixed R: 1 for LBP-1"


@train_app.command()
def ebm(
    out: Annotated[Path, Option(help="folder for checkpoints and pictures")],
    data: DataName = None,
    data_dir: DataDir = None,
    network: Annotated[
        str | None, Option(help="resnet (the paper's), cnn or mlp [resnet; mlp]", **UNSET)
    ] = None,
    channels: Annotated[int | None, Option(help="channels of the network [64]", **UNSET)] = None,
    precision: Annotated[
        str | None,
        Option(
            help="precision of convolutions: default (TF32 on a GPU), highest or bfloat16 "
            "[bfloat16 where a GPU has a kernel for it, else default]",
            **UNSET,
        ),
    ] = None,
    start: Annotated[
        str | None,
        Option(
            help="initial weights of convolutions: uniform (the literature's) or he [uniform; he]",
            **UNSET,
        ),
    ] = None,
    sampler: Annotated[str, Option(help="lbp, gwg, dmala or rwm")] = "lbp",
    balance: Annotated[
        str | None,
        Option(
            help="balancing function of lbp, gwg and dmala: barker, sqrt, min or max [sqrt]",
            **UNSET,
        ),
    ] = None,
    scale: Annotated[str, Option(help=SCALES)] = "tuned",
    steps: Annotated[
        int | None, Option(help="Metropolis-Hastings steps per iteration [15; 10]", **UNSET)
    ] = None,
    iterations: Annotated[
        int | None,
        Option(help="iterations in total, including those before --resume [50000; 5000]", **UNSET),
    ] = None,
    minutes: Annotated[float | None, Option(help="stop after this many minutes", **UNSET)] = None,
    batch: Annotated[
        int | None, Option(help="images, and chains, per iteration [100]", **UNSET)
    ] = None,
    rate: Annotated[
        float | None, Option(help="Adam's learning rate [0.0001; 0.001]", **UNSET)
    ] = None,
    warmup: Annotated[
        int | None,
        Option(help="iterations over which the learning rate rises [10000; 500]", **UNSET),
    ] = None,
    buffer: Annotated[
        int | None, Option(help="chains in the replay buffer [10000; 1000]", **UNSET)
    ] = None,
    restart: Annotated[
        float | None, Option(help="probability that a chain restarts from the base [0]", **UNSET)
    ] = None,
    clip: Annotated[
        float | None, Option(help="largest norm of a gradient; 0: no limit [0]", **UNSET)
    ] = None,
    penalty: Annotated[
        float | None, Option(help="penalty on squared energies [0]", **UNSET)
    ] = None,
    weight_decay: Annotated[float | None, Option(help="weight decay of AdamW [0]", **UNSET)] = None,
    average: Annotated[
        float | None,
        Option(help="decay of the running average of the weights [0.999; 0.998]", **UNSET),
    ] = None,
    crisis: Annotated[
        float | None, Option(help="energy gap at which a crisis begins [100]", **UNSET)
    ] = None,
    patience: Annotated[
        int | None,
        Option(
            help="iterations, at least 100, after which a crisis counts as divergence [5000]",
            **UNSET,
        ),
    ] = None,
    limit: Annotated[
        float | None, Option(help="energy gap that counts as divergence [2^24]", **UNSET)
    ] = None,
    every: Annotated[int, Option(help="iterations between checkpoints")] = 1_000,
    long_run: Annotated[
        int, Option(help="steps of the chains shown in long-run.png; 0: no such picture")
    ] = 1_000,
    seed: Annotated[int, Option(help="seed of the weights and of training")] = 0,
    resume: Annotated[bool, Option("--resume", help="continue from the newest checkpoint")] = False,
    as_json: AsJson = False,
    progress: Annotated[bool, Option(help="show a progress bar")] = True,
) -> None:
    """Train a deep energy-based model by persistent contrastive divergence.

    Example: `hopscale train ebm --data digits --out digits-ebm`

    Defaults follow the literature, but for fewer steps of tuned length, and are shown [in
    brackets]. Those after a semicolon are for images of at most 256 sites, such as digits.

    The output folder receives the last two checkpoints, for `hopscale evaluate` and
    `hopscale sample ebm`. At the end it also receives pictures: samples from the replay buffer,
    samples from long chains, and the course of training. The same command with `--resume` continues
    from the newest checkpoint.
    """
    from hopscale import learn
    from hopscale.learn import networks, recipes
    from hopscale.runs.host import Interrupted
    from hopscale.validate import count

    count("--long-run", long_run, minimum=0)
    images = load_data(data, data_dir)
    recipe = recipes.recipe_for(images.shape)
    asked = given(
        steps=steps,
        batch=batch,
        rate=rate,
        warmup=warmup,
        buffer=buffer,
        restart=restart,
        clip=clip,
        penalty=penalty,
        weight_decay=weight_decay,
        average=average,
        crisis=crisis,
        patience=patience,
        limit=limit,
    )
    settings = dataclasses.replace(recipe.settings, **asked)
    network = recipe.network if network is None else network
    channels = recipe.channels if channels is None else channels
    iterations = recipe.iterations if iterations is None else iterations
    start = recipe.start if start is None else start
    if precision is None and resume:
        precision = _precision_before(out)
    if precision is None:
        precision = networks.fastest_precision(network, images.shape, channels)
    energy = networks.by_name(network, images.shape, channels, seed, precision, start)
    notes = {
        "network": network,
        "channels": channels,
        "precision": precision,
        "start": start,
        "shape": list(images.shape),
        "data": images.name,
    }
    stopped = None
    try:
        trained = learn.train_ebm(
            learn.EBM(energy, learn.base_of(images.train)),
            images.train,
            iterations=iterations,
            kernel=_proposal(sampler, balance),
            scale=_tuner(scale),
            settings=settings,
            key=seed,
            directory=out,
            resume=resume,
            every=every,
            minutes=minutes,
            notes=notes,
            progress=progress and not as_json,
        )
    except Interrupted as interrupted:
        stopped, trained = interrupted, interrupted.partial
    if as_json:
        _print_json(images.name, trained)
    else:
        _report(images.name, trained)
    say = sys.stderr if as_json else sys.stdout
    _pictures(out, images.name, trained, 0 if stopped else long_run, seed, say)
    if stopped is not None:
        print(
            f"hopscale: stopped after iteration {trained.iterations}, which {trained.checkpoint} "
            "holds; the same command with --resume goes on",
            file=sys.stderr,
        )
        raise typer.Exit(130) from stopped


def _precision_before(folder: Path) -> str | None:
    """The precision of the run in a folder, perhaps of another machine; None if unknown."""
    from hopscale.learn import checkpoint

    for path in reversed(checkpoint.paths(folder)):
        with contextlib.suppress(checkpoint.CheckpointError, OSError):
            return checkpoint.read(path).about.get("notes", {}).get("precision")
    return None


def _proposal(name: str, balance: str | None):
    """The kernel by name; if no balance is given, the one that trains best."""
    check_settings(name, given(balance=balance), PROPOSALS)
    if balance is None and "balance" in PROPOSALS[name]:
        balance = "sqrt"
    return make_kernel(name, given(balance=balance))


def _tuner(scale: str):
    """The tuner by name; None for the default."""
    import hopscale as hs

    kind, _, rate = scale.partition(":")
    try:
        if scale == "tuned":
            return None
        if kind in ("tuned", "adaptive"):
            tuner = hs.Tuned if kind == "tuned" else hs.Adaptive
            return tuner(float(rate)) if rate else tuner()
        fixed = float(scale)
        if not fixed >= 1:
            raise ValueError(f"R = {fixed:g}")
        return hs.Fixed(fixed)
    except ValueError as error:
        raise ValueError(
            "--scale must be tuned or adaptive, tuned:RATE or adaptive:RATE with a rate inside "
            f"(0, 1), or a number R >= 1; got {scale!r}."
        ) from error


def _print_json(name: str, trained: Any) -> None:
    last = {key: float(values[-100:].mean()) for key, values in trained.history.items()}
    found = {
        "data": name,
        "iterations": trained.iterations,
        "interrupted": trained.interrupted,
        "seconds": trained.seconds,
        "scale": trained.scale,
        "crises": [crisis._asdict() for crisis in trained.crises],
        "in_crisis": trained.in_crisis,
        "checkpoint": trained.checkpoint and str(trained.checkpoint),
        "means_of_last_100": last,
    }
    print(json.dumps(as_plain(found)))


def _report(name: str, trained: Any) -> None:
    console().print(trained.__rich__(f"EBM on {name}"))


def _pictures(
    out: Path, name: str, trained: Any, long_run: int, seed: int, say: Any = None
) -> None:
    """Save pictures of the training run in the folder."""
    from hopscale.learn import gallery

    saved = gallery.save(out, name, trained, long_run, seed)
    print(f"saved {', '.join(map(str, saved))}", file=say)
    print(f"hopscale evaluate {out} measures the model's likelihood", file=say)
