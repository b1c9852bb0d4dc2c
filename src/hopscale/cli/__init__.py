"""The command line: the only place that parses arguments and prints.

Other packages add commands through an entry point in the group `hopscale.commands`: a function
that receives the application. The reproduction of the paper does so.
"""

import contextlib
import os
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path

from hopscale.cli import bench, compare, ebm, evaluate, sample, train
from hopscale.cli.app import STOPPED, app
from hopscale.cli.words import for_commands

__all__ = ["app", "bench", "compare", "ebm", "evaluate", "main", "sample", "train"]

COMMANDS = "hopscale.commands"  # the entry-point group


def load_commands() -> None:
    """Add the commands of installed packages; report and skip those that cannot be loaded."""
    for entry in entry_points(group=COMMANDS):
        try:
            entry.load()(app)
        except Exception as error:  # a broken package must not disable the other commands
            print(f"hopscale: {entry.value} adds no commands: {error}", file=sys.stderr)


load_commands()


def main() -> None:
    """Run a command; a user's error prints one line, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may lack some of the characters in tables
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    debug = "--debug" in sys.argv or "HOPSCALE_DEBUG" in os.environ
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, prog_name="hopscale")
    except SystemExit as end:
        if end.code == STOPPED:
            _leave_at_once()
        raise
    except Exception as error:
        expected = of_the_user(error)
        if debug or not expected:
            traceback.print_exc()
        if not expected:
            print(
                "hopscale: this is an error of the program, not of the command; please report it "
                "with the lines above.",
                file=sys.stderr,
            )
            sys.exit(1)
        print(f"hopscale: {for_commands(str(error))}", file=sys.stderr)
        sys.exit(2)


def _leave_at_once() -> None:
    """End the process; XLA crashes in the usual way out if Ctrl-C came while it compiled."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(STOPPED)


def of_the_user(error: Exception) -> bool:
    """Whether an error is the user's to fix: hopscale raised it on purpose, or the system did.

    An error that Python or another library raised inside hopscale is a bug in hopscale.
    """
    if isinstance(error, OSError):
        return True
    if not isinstance(error, ValueError | TypeError | ArithmeticError | MemoryError | ImportError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    ours = Path(last.filename).parent.parts
    raised = (last.line or "").lstrip().startswith("raise")
    return raised and any(part.startswith("hopscale") for part in ours)
