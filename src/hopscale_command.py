"""The `hopscale` command, outside the package, so that Ctrl-C while JAX loads is caught too."""

import os
import signal
import sys
from typing import Any, NoReturn


def main() -> None:
    """Load the library, which takes a second, and run a command."""
    usual = signal.default_int_handler
    ours = signal.getsignal(signal.SIGINT) is usual  # not where the shell has Ctrl-C ignored
    if ours:
        signal.signal(signal.SIGINT, _leave)
    from hopscale import cli

    if ours:
        signal.signal(signal.SIGINT, usual)
    cli.main()


def _leave(*_: Any) -> NoReturn:
    """End the process; extensions that load turn a KeyboardInterrupt into an ImportError."""
    os.write(sys.stderr.fileno(), b"hopscale: stopped\n")
    os._exit(130)
