"""hopscale compare and hopscale optimize: the best sampler for a target, and its best state."""

import functools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hopscale.cli.app import AsJson, app, console
from hopscale.cli.draw import Seed
from hopscale.cli.options import chosen, parameters, with_options

SIZES = {"bernoulli": 800, "ising": 50, "fhmm": 1000}

Where = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="bernoulli, ising, fhmm, rbm, a file of couplings, or my_model.py:log_density",
    ),
]
Size = Annotated[int | None, typer.Option(help="size of one of the paper's targets")]
Config = Annotated[
    str, typer.Option(help="one of the paper's targets: C1 (smooth), C2 or C3 (sharp)")
]
Sites = Annotated[
    str | None, typer.Option(help="your own density: number of sites, or a shape such as 28x28")
]
States = Annotated[
    str, typer.Option(help="your own density: number of values of a site; or one for each: 2,5,3")
]
Kind = Annotated[str | None, typer.Option(help="a file: ising, maxcut or qubo")]
Beta = Annotated[float, typer.Option(help="a file: inverse temperature")]


def find_target(
    where: Where,
    size: Size = None,
    config: Config = "C2",
    sites: Sites = None,
    states: States = "2",
    kind: Kind = None,
    beta: Beta = 1.0,
    seed: Seed = 0,
) -> Any:
    """The target named on the command line."""
    import hopscale as hs

    if where in SIZES:
        number = SIZES[where] if size is None else size
        return getattr(hs.paper, where)(number, config=config, key=seed)
    if where == "rbm":
        return hs.paper.rbm(400 if size is None else size)
    if where.partition(":")[0].endswith(".py"):
        from hopscale.cli.own import load_target

        return load_target(where, sites, states, None)
    if Path(where).suffix or Path(where).exists():
        from hopscale.cli.problem import load_problem

        return load_problem(Path(where), kind, beta)[0]
    raise ValueError(
        f"a target is one of {', '.join(SIZES)}, rbm, a function as in my_model.py:log_density, "
        f"or a file; got {where!r}."
    )


def of_a_target(act: Callable) -> Callable:
    """A command that finds a target, passes it to `act`, and prints the result."""
    where, own = parameters(find_target), parameters(act, skip=1)

    @functools.wraps(act)
    def command(**options: Any) -> None:
        found = act(find_target(**chosen(options, where)), **chosen(options, own))
        print(json.dumps(found.summary())) if options["as_json"] else console().print(found)

    return with_options(command, where, own)


@app.command()
@of_a_target
def compare(
    target: Any,
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
        return hs.compare(target, seconds, chains=chains, key=seed)


@app.command()
@of_a_target
def optimize(
    target: Any,
    seconds: Annotated[float, typer.Option(help="seconds to search")] = 60.0,
    chains: Annotated[int, typer.Option(help="number of chains")] = 64,
    seed: Seed = 0,
    as_json: AsJson = False,
    progress: Annotated[bool, typer.Option(help="show a progress bar")] = True,
):
    """Search for the most probable state of a target.

    Example: `hopscale optimize G1.txt --kind maxcut --seconds 10`
    """
    import hopscale as hs

    return hs.optimize(target, seconds, chains=chains, key=seed, progress=progress and not as_json)
