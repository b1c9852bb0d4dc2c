"""hopscale sample: draw from a target and print how well it went; one subcommand per target."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hopscale.cli.app import app
from hopscale.cli.draw import Seed, draws_from, given, load_own_rbm

Option = typer.Option


class TargetGroup(TyperGroup):
    """Subcommands by name; a function or a file stands for the user's own target."""

    def resolve_command(self, ctx, args):
        name = args[0]
        if name not in self.commands:
            path = name.rpartition(":")[0] or name
            if path.endswith(".py"):
                args = ["density", *args]
            elif Path(path).suffix or Path(path).exists():
                args = ["problem", *args]
            else:
                raise ValueError(
                    f"a target is one of {', '.join(self.commands)}, a function as in "
                    f"my_model.py:log_density, or a file; got {name!r}."
                )
        return super().resolve_command(ctx, args)


sample_app = typer.Typer(cls=TargetGroup, no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(sample_app, name="sample")


@sample_app.callback()
def about() -> None:
    """Draw from a target and print how well the run went.

    Your own target: `hopscale sample my_model.py:log_density --sites 64` draws from any
    differentiable JAX function of a state. `hopscale sample problem.txt` reads couplings from a
    file: a list of edges, a MatrixMarket file or a QUBO.

    One of the paper's: `hopscale sample ising --size 50 --config C2 --sampler lbp --chains 100`.

    With `--checkpoint`, a run can be stopped at any time, and `--resume` continues it, bit for bit.
    If the run had finished, `--resume` adds `--draws` more draws.
    """


Config = Annotated[str, Option(help="C1 (smooth), C2 or C3 (sharp)")]


@sample_app.command()
@draws_from
def bernoulli(
    size: Annotated[int, Option(help="number of bits")] = 800,
    config: Config = "C2",
    spacing: Annotated[
        str | None, Option(help="how the probabilities p are spaced: random or even")
    ] = None,
    seed: Seed = 0,
):
    """Independent bits."""
    return _of_the_paper("bernoulli", size, config, seed, spacing=spacing)


@sample_app.command()
@draws_from
def ising(
    size: Annotated[int, Option(help="side of the lattice")] = 50,
    config: Config = "C2",
    sign: Annotated[
        str | None,
        Option(help="sign of the coupling: '+' as in the paper's tables, '-' as in its text"),
    ] = None,
    disc: Annotated[
        str | None, Option(help="the disc: half of the lattice, or text (its stated radius)")
    ] = None,
    seed: Seed = 0,
):
    """Spins on an open lattice, with a field that is positive in a disc."""
    return _of_the_paper("ising", size, config, seed, sign=sign, disc=disc)


@sample_app.command()
@draws_from
def fhmm(
    size: Annotated[int, Option(help="length of the sequence")] = 1000,
    config: Config = "C2",
    variant: Annotated[str | None, Option(help="form of the model: written or table")] = None,
    axis: Annotated[str | None, Option(help="which axis is the chain: time or factor")] = None,
    factors: Annotated[int | None, Option(help="number of chains K")] = None,
    seed: Seed = 0,
):
    """A factorial hidden Markov model."""
    options = {"variant": variant, "axis": axis, "factors": factors}
    return _of_the_paper("fhmm", size, config, seed, **options)


def _of_the_paper(name: str, size: int, config: str, seed: int, **readings: Any):
    import hopscale as hs

    target = getattr(hs.paper, name)(size, config=config, key=seed, **given(**readings))
    return target, {"target": name, "size": size, "config": config, "own": False}


@sample_app.command()
@draws_from
def rbm(
    size: Annotated[
        int | None, Option(help="number of hidden units of a shipped RBM [400]")
    ] = None,
    ratios: Annotated[str, Option(help="log-ratios: gradient or exact")] = "gradient",
    weights: Annotated[Path | None, Option(help="an RBM written by `hopscale train rbm`")] = None,
):
    """A restricted Boltzmann machine, shipped with hopscale or trained by `hopscale train rbm`."""
    import hopscale as hs

    if weights is None:
        target = hs.paper.rbm(400 if size is None else size, ratios)
    else:
        target = load_own_rbm(weights, size, ratios)
    return target, {"target": "rbm", "size": target.num_hidden, "config": None, "own": False}


@sample_app.command()
@draws_from
def ebm(
    model: Annotated[Path, Option(help="a checkpoint, or a folder of `hopscale train ebm`")],
):
    """A deep energy-based model trained by `hopscale train ebm`."""
    import hopscale as hs

    target = hs.learn.load_model(model)
    return target, {"target": "ebm", "size": target.num_sites, "config": None, "own": False}


@sample_app.command()
@draws_from
def density(
    where: Annotated[
        str,
        typer.Argument(metavar="FILE.py:NAME", help="a log-density or a target in a Python file"),
    ],
    sites: Annotated[str | None, Option(help="number of sites, or a shape such as 28x28")] = None,
    states: Annotated[
        str | None,
        Option(help="number of values of a site; or one number for each site: 2,5,3 [2]"),
    ] = None,
    ratios: Annotated[
        str | None, Option(help="log-ratios: gradient, or exact (evaluates all neighbours)")
    ] = None,
):
    """Your own log-density: `hopscale sample my_model.py:log_density --sites 64`.

    NAME is a differentiable JAX function of one state: an array of floats 0 and 1 or, with more
    `--states`, of one-hot codes. NAME may also be a hopscale target made in the file.
    """
    from hopscale.cli.own import load_target

    target = load_target(where, sites, states, ratios)
    return target, {"target": where, "size": target.num_sites, "config": None, "own": True}


@sample_app.command()
@draws_from
def problem(
    file: Annotated[Path, typer.Argument(help="edges (i j weight), MatrixMarket .mtx, or .qubo")],
    kind: Annotated[
        str | None, Option(help="ising, maxcut or qubo [qubo for .qubo and .coo, else ising]")
    ] = None,
    beta: Annotated[float, Option(help="inverse temperature")] = 1.0,
):
    """Couplings in a file: `hopscale sample problem.txt`.

    In a list of edges, a line has two sites and a weight w, 1 if omitted. With spins s and bits x,
    the log-density is beta times the sum of w s s (`--kind ising`), beta times the weight that is
    cut (`maxcut`), or minus beta times the sum of w x x (`qubo`). A symmetric matrix in
    MatrixMarket form counts each pair once.
    """
    from hopscale.cli.problem import load_problem

    target, found, _ = load_problem(file, kind, beta)
    return target, {"target": str(file), "size": target.num_sites, "config": found, "own": True}
