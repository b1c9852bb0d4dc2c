"""A user's own target, given by file and name."""

import contextlib
import importlib.util
import math
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np


def load_target(where: str, sites: str | None, states: str | None, ratios: str | None):
    """The target at FILE.py:NAME, where NAME is a target or a function of one state."""
    import hopscale as hs

    path, _, name = where.rpartition(":")
    if not path:
        path, name = where, ""
    module = load_module(Path(path))
    found = _named(module, path, name)
    if isinstance(found, hs.Target):
        for option, value in {"sites": sites, "states": states, "ratios": ratios}.items():
            if value is not None:
                raise ValueError(
                    f"{where} is a target, and knows its sites, values and ratios; leave "
                    f"--{option} out."
                )
        return found
    if not callable(found):
        raise TypeError(
            f"{where} must be a function of one state or a target; it is {type(found).__name__}."
        )
    if sites is None:
        raise ValueError(f"how many sites has a state of {where}? Give --sites 64, or 28x28.")
    shape = _shape(sites)
    num_states = _num_states(states or "2", shape)
    options = {} if ratios is None else {"ratios": ratios}
    try:
        return hs.LogDensity(found, shape, num_states, **options)
    except Exception as error:
        raise _in_file(error, path, where) from error


def load_module(path: Path) -> Any:
    """Run a Python file as a module, which can import the files beside it, then and later."""
    if not path.is_file():
        what = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give a Python file.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for the command's results
            spec.loader.exec_module(module)
    except SystemExit as end:
        raise ValueError(f"{path} ended the program: sys.exit({end.code!r}).") from end
    except Exception as error:
        raise _in_file(error, str(path), str(path)) from error
    return module


def _named(module: Any, path: str, name: str) -> Any:
    if name and hasattr(module, name):
        return getattr(module, name)
    names = [key for key, value in vars(module).items() if _own(module, key, value)]
    listed = f"it has {', '.join(names)}" if names else "it has no functions"
    missing = f"{path} has no {name}: " if name else ""
    raise ValueError(f"{missing}name a function of {path}, as in {path}:log_density; {listed}.")


def _own(module: Any, name: str, value: Any) -> bool:
    import hopscale as hs

    if name.startswith("_"):
        return False
    if isinstance(value, type):
        return False
    return isinstance(value, hs.Target) or getattr(value, "__module__", "") == module.__name__


def _in_file(error: Exception, path: str, where: str) -> ValueError:
    """The error, with the last line of the file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    here = Path(path).resolve()
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == here]
    line = f", line {lines[-1]}" if lines else ""
    return ValueError(f"{where}{line}: {type(error).__name__}: {error}")


def _shape(sites: str) -> tuple[int, ...]:
    parts = sites.lower().split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(
            f"--sites takes a number such as 64 or a shape such as 28x28; got {sites!r}."
        )
    return tuple(map(int, parts))


def _num_states(states: str, shape: tuple[int, ...]) -> int | np.ndarray:
    """One number for all sites, or one for each, row by row."""
    parts = states.split(",")
    numbers = all(part.strip().isdecimal() for part in parts)
    if not numbers or len(parts) not in (1, math.prod(shape)):
        raise ValueError(
            "--states takes a number such as 4, or one for each site such as 2,5,3; got "
            f"{states!r} for {math.prod(shape):,} sites."
        )
    each = [int(part) for part in parts]
    return each[0] if len(each) == 1 else np.reshape(each, shape)
