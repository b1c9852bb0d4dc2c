"""hopscale reproduce, report and results: the paper's experiments, and what they gave."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hopscale.cli.app import console

STORE = "results.sqlite"


def register(app: typer.Typer) -> None:
    """Add the commands to an application; named by the entry-point group `hopscale.commands`."""
    app.command()(reproduce)
    app.command()(report)
    app.add_typer(results_app, name="results")


Out = Annotated[Path, typer.Option(help="folder of the results and the report")]
ProfileName = Annotated[
    str, typer.Option("--profile", help="quick (minutes) or paper (the full grid)")
]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1, bernoulli, ising, fhmm, rbm, order, readings, luck, kept, fit, jumps, "
            "fair, finite, figures, ebm, all [table1 and all that takes seconds]",
            show_default=False,
        ),
    ] = None,
    profile: ProfileName = "quick",
    out: Out = Path("results"),
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="stop after so many minutes; the same command goes on"),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="ebm, paper profile: folder of the data sets")
    ] = None,
) -> None:
    """Run the paper's experiments and write a report that puts its numbers beside ours.

    Cells that are done are kept in results.sqlite as they come and never run twice: stop with
    Ctrl-C (or by any other means) and give the same command again to go on.

    Examples: `hopscale reproduce`, `hopscale reproduce ising order --profile paper`
    """
    from hopscale_reproduction import report
    from hopscale_reproduction.experiments import named
    from hopscale_reproduction.least import NoReferenceError
    from hopscale_reproduction.reproduce import Runner
    from hopscale_reproduction.store import Store

    _check_profile(profile)
    asked = names or ["default"]
    wanted = named([name for name in asked if name != "ebm"])
    _make(out)
    with Store(out / STORE) as store:
        runner = Runner(store, profile, minutes)
        outcomes = runner.run(wanted)
        learns = "ebm" in asked or "all" in asked
        left = learns and runner.over  # no time for it
        if learns and not left:
            try:
                outcomes.append(_table_2(store, profile, data_dir, runner.minutes_left))
            except NoReferenceError:
                report.write(out, store, profile)  # of all that could be judged
                raise
        page = report.write(out, store, profile)
    done = sum(outcome.ran for outcome in outcomes)
    console().print(f"{done:,} cells run; the report is [bold]{page}[/bold], or {out}/report.md")
    if left or not all(outcome.complete for outcome in outcomes):
        print("hopscale: stopped before the end; the same command goes on", file=sys.stderr)
        stopped = runner.stopped or any(outcome.stopped for outcome in outcomes)
        raise typer.Exit(130 if stopped else 0)


def _table_2(store, profile: str, data_dir: Path | None, minutes: float | None):
    """Training of deep EBMs: its models are cells of the same store."""
    from hopscale_reproduction import ebm

    return ebm.run("full" if profile == "paper" else "quick", store, data_dir, minutes)


def report(profile: ProfileName = "quick", out: Out = Path("results")) -> None:
    """Write the report of what is in the store, without running anything."""
    from hopscale_reproduction import report as reports
    from hopscale_reproduction.store import Store

    _check_profile(profile)
    with Store(_existing(out / STORE)) as store:
        console().print(f"the report is {reports.write(out, store, profile)}")


results_app = typer.Typer(no_args_is_help=True, help="Take results out of a store, or put them in.")


@results_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="what to write: a .csv or .json file")],
    out: Out = Path("results"),
) -> None:
    """Write every cell with its settings, results, versions and hardware.

    Example: `hopscale results export cells.csv`
    """
    from hopscale_reproduction import exchange
    from hopscale_reproduction.store import Store

    with Store(_existing(out / STORE)) as store:
        rows = exchange.write(store, file)
    console().print(f"{rows:,} cells written to {file}")


@results_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="a .csv or .json file that was exported")],
    out: Out = Path("results"),
) -> None:
    """Put exported cells into a store; cells that it has already stay as they are.

    Example: `hopscale results import docs/results/paper.csv --out results`
    """
    from hopscale_reproduction import exchange
    from hopscale_reproduction.store import Store

    _existing(file)
    _make(out)
    with Store(out / STORE) as store:
        added = exchange.read(store, file)
    console().print(f"{added:,} cells added to {out / STORE}")


def _check_profile(profile: str) -> None:
    from hopscale_reproduction.experiments.plan import PROFILES

    if profile not in PROFILES:
        raise ValueError(f"--profile must be quick or paper; got {profile!r}.")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ValueError(f"--out must be a folder; {folder} is a file.") from error


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}.")
    return file
