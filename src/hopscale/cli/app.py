"""The application object, and what all commands share."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

PANELS = {
    "Sampling": ("sample", "compare", "optimize"),
    "Learning": ("train", "evaluate"),
    "The paper": ("reproduce", "report", "results"),
    "This installation": ("info", "bench"),
}


STOPPED = 130  # the exit code after Ctrl-C


class Commands(TyperGroup):
    """The commands by panel, in this order; those of other packages come last."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        named = [(name, panel) for panel, names in PANELS.items() for name in names]
        for name, panel in reversed([(n, p) for n, p in named if n in self.commands]):
            command = self.commands.pop(name)
            command.rich_help_panel = panel  # type: ignore[attr-defined]
            self.commands = {name: command, **self.commands}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; one that was stopped, and did not say so itself, is said to be."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            said = getattr(stopped, "message", str(stopped)) or "stopped"
            print(f"hopscale: {said}", file=sys.stderr)
            raise typer.Exit(STOPPED) from None


app = typer.Typer(
    name="hopscale",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]


def _version(wanted: bool) -> None:
    if wanted:
        import hopscale

        print(f"hopscale {hopscale.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="show the traceback of an error, of any command")
    ] = False,
) -> None:
    """Sample from discrete distributions, tuning how many sites change at each step.

    **hopscale sample my_model.py:log_density --sites 64** draws from your own distribution and
    prints how well the run went. **hopscale sample ising --size 50** draws from one of the paper's
    targets. **hopscale reproduce** runs the paper's experiments and writes a report that puts its
    numbers beside ours. **hopscale train** trains a model on images, and **hopscale evaluate**
    estimates the likelihood of an energy-based one. **hopscale bench** times a step.
    **hopscale info** shows the versions, devices and kernels in use.

    In Python: `import hopscale as hs; run = hs.sample(hs.Bernoulli(p)); print(run)`.
    """


def console() -> Console:
    """A console for tables, with a fixed width if there is no terminal."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=110)
