"""The command line: the only place that parses arguments and prints. A command is a module."""

import sys

from hopscale.cli import bench, ebm, reproduce, sample, train
from hopscale.cli.app import app

__all__ = ["app", "bench", "ebm", "main", "reproduce", "sample", "train"]


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
