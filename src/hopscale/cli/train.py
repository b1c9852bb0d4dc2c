"""hopscale train: learn a model from images."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import AsJson, app, console
from hopscale.cli.draw import as_plain

train_app = typer.Typer(no_args_is_help=True)
app.add_typer(train_app, name="train", help="Train a model on binary images.")

DATA = (
    "digits, static-mnist, dynamic-mnist, thresholded-mnist, omniglot or caltech "
    "[static-mnist; digits if no data]"
)
DATA_DIR = "folder with the data sets' files [$HOPSCALE_DATA]; digits needs none"

DataName = Annotated[str | None, typer.Option("--data", help=DATA, show_default=False)]
DataDir = Annotated[
    Path | None, typer.Option(help=DATA_DIR, envvar="HOPSCALE_DATA", show_envvar=False)
]


def load_data(name: str | None, directory: Path | None):
    """The data set asked for; static-mnist if there is a data directory, digits if not."""
    from hopscale import data

    return data.load(name or ("static-mnist" if directory else "digits"), directory)


@train_app.command()
def rbm(
    out: Annotated[Path, typer.Option(help="file for the model, written after each epoch")],
    hidden: Annotated[int, typer.Option(help="hidden units")] = 400,
    data: DataName = None,
    data_dir: DataDir = None,
    epochs: Annotated[int, typer.Option(help="passes over the data in total")] = 1,
    cd: Annotated[int, typer.Option(help="Gibbs steps per iteration")] = 100,
    pcd: Annotated[
        bool, typer.Option("--pcd", help="persistent chains (PCD) instead of CD")
    ] = False,
    batch: Annotated[int, typer.Option(help="images per iteration")] = 100,
    rate: Annotated[float, typer.Option(help="Adam's learning rate")] = 1e-3,
    seed: Annotated[int, typer.Option(help="seed of all random numbers")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="continue from the file")] = False,
    as_json: AsJson = False,
    progress: Annotated[bool, typer.Option(help="show a progress bar")] = True,
) -> None:
    """Train a restricted Boltzmann machine by contrastive divergence.

    Example: `hopscale train rbm --hidden 64 --epochs 20 --cd 10 --out digits.npz`

    The output file is a model, for `hopscale sample rbm --weights FILE`, and also a checkpoint: the
    same command with `--resume` and more epochs continues the training, bit for bit.
    """
    from hopscale.learn import RBMRecipe, train_rbm
    from hopscale.runs.host import Interrupted

    recipe = RBMRecipe(hidden=hidden, cd=cd, persistent=pcd, batch=batch, rate=rate, seed=seed)
    images = load_data(data, data_dir)
    options = {
        "epochs": epochs,
        "file": out,
        "resume": resume,
        "progress": progress and not as_json,
    }
    stopped = None
    try:
        trained = train_rbm(images, recipe, **options)
    except Interrupted as interrupted:
        stopped, trained = interrupted, interrupted.partial
    if as_json:
        _print_json(images.name, trained, out)
    else:
        console().print(_table(images.name, trained))
    if stopped is not None:
        what = f"{out} holds epoch {trained.epochs}" if trained.epochs else f"{out} is not written"
        print(f"hopscale: stopped; {what}", file=sys.stderr)
        raise typer.Exit(130) from stopped
    if not as_json:
        print(f"saved {out}")


def _print_json(name: str, trained: Any, out: Path) -> None:
    found = {
        "data": name,
        "epochs": trained.epochs,
        "interrupted": trained.interrupted,
        "seconds": trained.seconds,
        **{key: [float(v) for v in values] for key, values in trained.history.items()},
        "file": str(out) if trained.epochs else None,
    }
    print(json.dumps(as_plain(found)))


def _table(name: str, trained):
    from rich.table import Table

    rbm = trained.rbm
    sites = " x ".join(map(str, rbm.shape))
    table = Table(title=f"RBM ({sites} visible, {rbm.num_hidden} hidden) on {name}")
    for column in ("epoch", "reconstruction error", "F(valid) - F(train)"):
        table.add_column(column, justify="right")
    rows = zip(trained.history["reconstruction"], trained.history["free_energy_gap"], strict=True)
    for epoch, (error, gap) in enumerate(rows, 1):
        table.add_row(str(epoch), f"{error:.4f}", f"{gap:.2f}")
    table.caption = f"{trained.seconds:.1f} s"
    return table
