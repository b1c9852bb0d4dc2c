"""hopscale reproduce: the paper's experiments."""

from pathlib import Path
from typing import Annotated

import typer

from hopscale.cli.app import app, console


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="folder for the table and the figure")] = Path(
        "results"
    ),
    chains: Annotated[int, typer.Option(help="chains of each run")] = 100,
    draws: Annotated[
        int, typer.Option(help="draws of each run, after as many steps of warm-up")
    ] = 3000,
    seed: Annotated[int, typer.Option(help="of targets and runs")] = 0,
) -> None:
    """Compare adaptive LBP with the random walk on the targets of the paper's Table 1.

    Prints a table with the paper's numbers beside ours and saves it with a figure. A run takes
    about a minute.
    """
    from hopscale.paper import compare

    compare.main(out, chains=chains, draws=draws, seed=seed, console=console())
