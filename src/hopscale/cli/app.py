"""The application object, and what all commands share."""

from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    name="hopscale",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]


@app.callback()
def about(
    debug: Annotated[
        bool, typer.Option("--debug", help="show the traceback of an error, of any command")
    ] = False,
) -> None:
    """Sample from discrete distributions; the number of sites changed at a step tunes itself.

    **hopscale sample my_model.py:log_density --sites 64** draws from your own distribution and
    prints how well it went, **hopscale sample ising --size 50** from one of the paper's.
    **hopscale reproduce** runs the paper's experiments and leaves a report with its
    numbers beside ours. **hopscale train** and **evaluate** are for models that learn.
    **hopscale bench** times a step. **hopscale info** says what it runs on.

    In Python: `import hopscale as hs; run = hs.sample(hs.Bernoulli(p)); print(run)`.
    """


def console() -> Console:
    """Tables keep their columns where no terminal says how wide it is."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=110)
