"""Interfaces of other packages around hopscale's kernels and runs.

Each module is imported when it is first used (`hs.blackjax`, `hs.numpyro`, `run.to_arviz()`). If
its package is missing, the error says which extra to install.
"""

import importlib
from types import ModuleType


def require(package: str, extra: str, what: str) -> ModuleType:
    """The package, or an ImportError that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {package}: pip install 'hopscale[{extra}]'. ({error})"
        ) from error
