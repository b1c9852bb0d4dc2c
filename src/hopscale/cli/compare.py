"""hopscale compare and hopscale optimize: the best sampler for a target, and its best state."""

import functools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from hopscale.cli.app import AsJson, app, console
from hopscale.cli.draw import Seed, as_plain, given, load_own_rbm
from hopscale.cli.options import chosen, parameters, with_options
from hopscale.cli.words import for_commands
from hopscale.tables import listed

SIZES = {"bernoulli": 800, "ising": 50, "fhmm": 1000}
OWN, FILE = "a function in a file", "a file of couplings"
OPTIONS = {  # of which targets
    "size": (*SIZES, "rbm"),
    "config": tuple(SIZES),
    "weights": ("rbm",),
    "model": ("ebm",),
    "sites": (OWN,),
    "states": (OWN,),
    "kind": (FILE,),
    "beta": (FILE,),
}

Where = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="bernoulli, ising, fhmm, rbm, ebm, a file of couplings, or my_model.py:log_density",
    ),
]
Size = Annotated[int | None, typer.Option(help="size of one of the paper's targets")]
Config = Annotated[
    str | None, typer.Option(help="one of the paper's targets: C1 (smooth), C2 or C3 (sharp) [C2]")
]
Weights = Annotated[
    Path | None, typer.Option(help="rbm: a file written by `hopscale train rbm` [a shipped one]")
]
Model = Annotated[
    Path | None, typer.Option(help="ebm: a checkpoint, or a folder of `hopscale train ebm`")
]
Sites = Annotated[
    str | None, typer.Option(help="your own density: number of sites, or a shape such as 28x28")
]
States = Annotated[
    str | None,
    typer.Option(help="your own density: number of values of a site; or one for each: 2,5,3 [2]"),
]
Kind = Annotated[str | None, typer.Option(help="a file: ising, maxcut or qubo")]
Beta = Annotated[float | None, typer.Option(help="a file: inverse temperature [1]")]


class Found(NamedTuple):
    """A target, and what its sites are called if that is not 0, 1, 2, ..."""

    target: Any
    names: np.ndarray | None = None


def find_target(
    where: Where,
    size: Size = None,
    config: Config = None,
    weights: Weights = None,
    model: Model = None,
    sites: Sites = None,
    states: States = None,
    kind: Kind = None,
    beta: Beta = None,
    seed: Seed = 0,
) -> Found:
    """The target named on the command line."""
    import hopscale as hs

    what = _what_is(where)
    options = given(
        size=size, config=config, weights=weights, model=model, sites=sites, states=states,
        kind=kind, beta=beta,
    )  # fmt: skip
    for name in options:
        if what not in OPTIONS[name]:
            raise ValueError(f"--{name} is an option of {listed(OPTIONS[name])}, not of {what}.")
    if what in SIZES:
        number = SIZES[what] if size is None else size
        return Found(getattr(hs.paper, what)(number, config=config or "C2", key=seed))
    if what == "rbm":
        if weights is None:
            return Found(hs.paper.rbm(400 if size is None else size))
        return Found(load_own_rbm(weights, size))
    if what == "ebm":
        if model is None:
            raise ValueError("ebm needs --model, a checkpoint or a folder of `hopscale train ebm`.")
        return Found(hs.learn.load_model(model))
    if what == OWN:
        from hopscale.cli.own import load_target

        return Found(load_target(where, sites, states, None))
    from hopscale.cli.problem import load_problem

    found = load_problem(Path(where), kind, 1.0 if beta is None else beta)
    return Found(found.target, found.names)


def _what_is(where: str) -> str:
    """The key of a target in `OPTIONS`."""
    if where in SIZES or where in ("rbm", "ebm"):
        return where
    if where.rpartition(":")[0].endswith(".py") or where.endswith(".py"):
        return OWN
    if Path(where).suffix or Path(where).exists():
        return FILE
    raise ValueError(
        f"a target is one of {', '.join(SIZES)}, rbm, ebm, a function as in "
        f"my_model.py:log_density, or a file; got {where!r}."
    )


def of_a_target(act: Callable) -> Callable:
    """A command that finds a target, passes it to `act`, and prints the result.

    If it was stopped, it prints what there is, and whether it was stopped.
    """
    where, own = parameters(find_target), parameters(act, skip=1)

    @functools.wraps(act)
    def command(**options: Any) -> None:
        from hopscale.runs.host import Interrupted

        found = find_target(**chosen(options, where))
        try:
            show(act(found, **chosen(options, own)), found, options["as_json"], False)
        except Interrupted as stopped:
            if stopped.partial is not None:
                show(stopped.partial, found, options["as_json"], True)
            raise

    def show(result: Any, found: Found, as_json: bool, interrupted: bool) -> None:
        if as_json:
            summary = {**result.summary(), "interrupted": interrupted}
            if "sentence" in summary:
                summary["sentence"] = for_commands(summary["sentence"])
            if "warnings" in summary:
                summary["warnings"] = [for_commands(said) for said in summary["warnings"]]
            if found.names is not None:
                summary["names"] = found.names.tolist()
            print(json.dumps(as_plain(summary)))
        else:
            console().print(result.shown(for_commands))

    return with_options(command, where, own)


@app.command()
@of_a_target
def compare(
    found: Found,
    seconds: Annotated[float, typer.Option(help="seconds for each sampler")] = 30.0,
    chains: Annotated[int, typer.Option(help="number of chains")] = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
):
    """Compare the samplers that could draw from a target, and say which to use.

    Example: `hopscale compare ising --size 50 --seconds 10`
    """
    import hopscale as hs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.ConvergenceWarning)
        return hs.compare(found.target, seconds, chains=chains, key=seed)


@app.command()
@of_a_target
def optimize(
    found: Found,
    seconds: Annotated[float, typer.Option(help="seconds to search")] = 60.0,
    chains: Annotated[int, typer.Option(help="number of chains")] = 32,
    seed: Seed = 0,
    save: Annotated[
        Path | None, typer.Option(help="write the state to this table: site, value")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace the --save file if it exists")
    ] = False,
    as_json: AsJson = False,
    progress: Annotated[bool, typer.Option(help="show a progress bar")] = True,
):
    """Search for the most probable state of a target.

    Example: `hopscale optimize G1.txt --kind maxcut --seconds 10 --save best.csv`
    """
    import hopscale as hs
    from hopscale.disk.files import check_writable

    if save is not None:
        check_writable(save, overwrite)
    shown = progress and not as_json
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hs.ConvergenceWarning)  # printed with the result
            best = hs.optimize(found.target, seconds, chains=chains, key=seed, progress=shown)
    except hs.Interrupted as stopped:
        _save(save, stopped.partial, found.names)
        raise
    _save(save, best, found.names)
    return best


def _save(path: Path | None, best: Any, names: np.ndarray | None) -> None:
    """Write a state as a table, with its sites as the file of the problem calls them."""
    from hopscale.disk.files import write_or_set_aside

    if path is None:
        return
    if names is None:
        shape = best.x.shape
        names = np.array(["x".join(map(str, place)) for place in np.ndindex(shape)])
    rows = [f"{name},{value}" for name, value in zip(names, best.x.ravel(), strict=True)]
    text = "\n".join(["site,value", *rows, ""])
    write_or_set_aside(path, lambda file: file.write(text.encode()))
