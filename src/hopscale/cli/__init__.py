"""The command line: the only place that parses arguments and prints. A command is a module.

Other packages add commands by an entry point of the group `hopscale.commands`: a function that is
given the application. The reproduction of the paper is one.
"""

import sys
from importlib.metadata import entry_points

from hopscale.cli import bench, ebm, sample, train
from hopscale.cli.app import app

__all__ = ["app", "bench", "ebm", "main", "sample", "train"]

COMMANDS = "hopscale.commands"  # the entry-point group


def load_commands() -> None:
    """Add the commands of installed packages; one that cannot be loaded is named and left out."""
    for entry in entry_points(group=COMMANDS):
        try:
            entry.load()(app)
        except Exception as error:  # a broken package must not take the other commands with it
            print(f"hopscale: {entry.value} adds no commands: {error}", file=sys.stderr)


load_commands()


def main() -> None:
    """Run a command; errors of the user's making are one line, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, ArithmeticError, OSError) as error:
        print(f"hopscale: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("hopscale: stopped", file=sys.stderr)
        sys.exit(130)
