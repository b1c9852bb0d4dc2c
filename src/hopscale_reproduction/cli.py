"""hopscale reproduce, report and results: run the paper's experiments, report their results."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

STORE = "results.sqlite"

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Out = Annotated[Path, typer.Option(help="folder of the results and the report")]
ProfileName = Annotated[
    str, typer.Option("--profile", help="quick (minutes) or paper (the full grid)")
]

results_app = typer.Typer(no_args_is_help=True, help="Export results from a store, or import them.")


def register(app: typer.Typer) -> None:
    """Add the commands to an application; the entry-point group `hopscale.commands` names it."""
    app.command()(reproduce)
    app.command()(report)
    app.add_typer(results_app, name="results")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1, bernoulli, ising, fhmm, rbm, order, readings, instances, lengths, "
            "weights, jumps, near-fair, finite, figures, table2, all, default [default: all; "
            "with --profile paper all but rbm and table2]",
            show_default=False,
        ),
    ] = None,
    profile: ProfileName = "quick",
    out: Out = Path("results"),
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="stop after this many minutes; the same command continues"),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of the data sets, for table2 in the paper profile")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments and write a report that compares its numbers with ours.

    Each cell is stored in results.sqlite when it is done, and never run twice. Stop with Ctrl-C
    (or by any other means) and give the same command again to continue.

    Examples: `hopscale reproduce`, `hopscale reproduce ising order --profile paper`
    """
    from hopscale_reproduction.experiments import named
    from hopscale_reproduction.runner import Runner
    from hopscale_reproduction.store import Store

    _check_profile(profile)
    wanted = named(names or ["default"], profile)
    _make(out)
    with Store(out / STORE) as store:
        runner = Runner(store, profile, minutes, data_dir=data_dir)
        outcomes = runner.run(wanted)
        for experiment in wanted:
            if experiment.summary is not None and not as_json:
                _console().print(experiment.summary(profile, runner.find))
        found = _write(out, store, profile)
    found = {"cells": sum(outcome.ran for outcome in outcomes), **found}
    _say("{cells:,} cells run; the report is {report}, or {markdown}", found, as_json)
    if not all(outcome.complete for outcome in outcomes):
        print("hopscale: stopped before the end; the same command goes on", file=sys.stderr)
        raise typer.Exit(130 if runner.stopped else 0)
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    if problems:
        raise ArithmeticError(" ".join(problems))


def report(
    profile: ProfileName = "quick", out: Out = Path("results"), as_json: AsJson = False
) -> None:
    """Write the report of what is in the store, without running anything."""
    from hopscale_reproduction.store import Store

    _check_profile(profile)
    with Store(_store_in(out)) as store:
        _say("the report is {report}", _write(out, store, profile), as_json)


@results_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="the .csv or .json file to write")],
    out: Out = Path("results"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace the file if it exists")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write every cell with its settings, results, versions and hardware.

    Example: `hopscale results export cells.csv`
    """
    from hopscale_reproduction import exchange
    from hopscale_reproduction.files import check_writable
    from hopscale_reproduction.store import Store

    found = _store_in(out)
    check_writable(file, overwrite)
    with Store(found) as store:
        rows = exchange.write(store, file)
        _name_damaged(store)
    _say("{cells:,} cells written to {file}", {"cells": rows, "file": str(file)}, as_json)


@results_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="an exported .csv or .json file")],
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Add exported cells to a store; cells that it already has stay unchanged.

    Every row is checked first; if one is wrong, nothing is added.

    Example: `hopscale results import docs/results/paper.csv --out results`
    """
    from hopscale_reproduction import exchange
    from hopscale_reproduction.store import Store

    rows = exchange.rows_in(_existing(file))
    _make(out)
    with Store(out / STORE) as store:
        added = exchange.add(store, rows)
    _say("{cells:,} cells added to {store}", {"cells": added, "store": str(out / STORE)}, as_json)


def _write(out: Path, store: Any, profile: str) -> dict[str, Any]:
    """Write the report; return where it is, and its verdicts on the paper's claims."""
    from hopscale_reproduction.report import writing
    from hopscale_reproduction.snapshot import Snapshot

    page = writing.write(out, store, profile)
    _name_damaged(store)
    claims = [claim._asdict() for claim in writing.claims(Snapshot(store, profile))]
    return {"report": str(page), "markdown": str(out / "report.md"), "claims": claims}


def _console():
    from hopscale.cli.app import console  # not at the top: it loads this module for its commands

    return console()


def _say(sentence: str, found: dict[str, Any], as_json: bool) -> None:
    """Print one JSON object, or a sentence with its values."""
    print(json.dumps(found)) if as_json else _console().print(sentence.format(**found))


def _name_damaged(store) -> None:
    """Print which rows of a store were left out."""
    for where, what in store.damaged.items():
        print(f"hopscale: {store.path}: {where} is damaged ({what}) and left out", file=sys.stderr)


def _check_profile(profile: str) -> None:
    from hopscale_reproduction.experiment import PROFILES

    if profile not in PROFILES:
        raise ValueError(f"--profile must be quick or paper; got {profile!r}.")


def _make(folder: Path) -> None:
    from hopscale.disk.files import make_folder

    make_folder(folder)


def _store_in(out: Path) -> Path:
    if not (out / STORE).is_file():
        raise FileNotFoundError(
            f"there is no {out / STORE}: `hopscale reproduce` or `hopscale results import` with "
            f"--out {out} makes it."
        )
    return out / STORE


def _existing(file: Path) -> Path:
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder: name an exported .csv or .json file.")
    if not file.exists():
        raise FileNotFoundError(f"there is no {file}.")
    return file
