"""The identity of settings as plain data, to tell whether a file and a run belong together.

Equinox modules are compared by their class and fields, arrays by their content, and functions by
their code and everything that it refers to. How a value is displayed plays no part.
"""

import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import json
import math
import sys
import sysconfig
import types
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import default_registry

_DIGITS = 16


def identity(value: Any) -> Any:
    """The identity of a value, in strings, numbers, lists and dictionaries that JSON can hold.

    The same value gives the same identity in any process with the same version of Python. Classes
    and Python modules are identified by name. A function is identified by its code, default
    arguments, closure and the globals it uses, recursively. Functions of hopscale and of installed
    packages, such as JAX, are identified by name.

    Raises:
        TypeError: for a value that has no identity of this kind; the message gives its place.
    """
    return _Identifier().of(value, "")


class _Identifier:
    """One traversal of a value, which may return to a function that it is still inside."""

    def __init__(self):
        self._inside: list[Any] = []

    def of(self, value: Any, place: str) -> Any:
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            return _of_array(value, place)
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:  # NaN is not equal to itself
            return value if math.isfinite(value) else {"is": "float", "value": repr(value)}
        for kinds, answer in _ANSWERS:
            if isinstance(value, kinds):
                return answer(self, value, place)
        if type(value).__module__ == "equinox._jit" and callable(value):
            return _of_callable(self, value, place)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._of_fields(value, names, place)
        if callable(value) and (known := _of_callable(self, value, place)) is not None:
            return known
        node = default_registry.flatten_one_level(value)
        if node is not None:
            children, rest = node
            parts = {"children": list(children), "rest": rest}
            return {**_class(value), "fields": self._of_dict(parts, place)}
        raise TypeError(
            f"{place.lstrip('.') or 'this'} cannot be told apart from others of its kind in a "
            f"file: {value!r:.80} is of {type(value).__qualname__}. Use numbers, strings, arrays, "
            "functions and frozen dataclasses of these."
        )

    def _of_fields(self, value: Any, names: list[str], place: str) -> Any:
        fields = {name: self.of(getattr(value, name), f"{place}.{name}") for name in names}
        return {**_class(value), "fields": fields}

    def _of_dict(self, value: dict, place: str) -> Any:
        if all(isinstance(name, str) for name in value):
            return {name: self.of(v, f"{place}.{name}") for name, v in sorted(value.items())}
        pairs = [[self.of(k, place), self.of(v, f"{place}[{k!r}]")] for k, v in value.items()]
        return {"is": "dict", "pairs": sorted(pairs, key=json.dumps)}

    def _of_sequence(self, value: Any, place: str) -> Any:
        if hasattr(value, "_fields"):
            return self._of_fields(value, list(value._fields), place)
        return [self.of(item, f"{place}[{i}]") for i, item in enumerate(value)]

    def _of_set(self, value: Any, place: str) -> Any:
        # The order of a set of strings differs from process to process.
        items = [self.of(item, place) for item in value]
        return {"is": "set", "items": sorted(items, key=json.dumps)}

    def _of_function(self, function: types.FunctionType, place: str) -> Any:
        if known := _library_name(function):
            return {"is": "function", "name": known}
        if function in self._inside:
            return {"is": "function", "inside": self._inside.index(function)}
        self._inside.append(function)
        text = json.dumps(self._of_parts(function, f"{place}.{function.__name__}"), sort_keys=True)
        self._inside.pop()
        return {"is": "function", "name": function.__name__, "sha256": _digest(text.encode())}

    def _of_parts(self, function: types.FunctionType, place: str) -> Any:
        """Everything that determines what a function does."""
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        parts = {
            "code": self._of_code(function.__code__, place),
            "defaults": [function.__defaults__, function.__kwdefaults__],
            "closure": {name: _content(cell) for name, cell in cells},
            "globals": {
                name: function.__globals__[name]
                for name in sorted(_global_names(function.__code__))
                if name in function.__globals__ and not _is_library(function.__module__)
            },
        }
        return self._of_dict(parts, place)

    def _of_code(self, code: types.CodeType, place: str) -> Any:
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return [
            *numbers,
            *map(_digest, (code.co_code, code.co_exceptiontable)),
            [self.of(constant, place) for constant in code.co_consts],
            *map(list, (code.co_names, code.co_freevars)),
        ]

    def _of_partial(self, value: functools.partial, place: str) -> Any:
        return {"is": "partial", "of": self.of([value.func, value.args, value.keywords], place)}

    def _of_method(self, value: types.MethodType, place: str) -> Any:
        owner = self.of(value.__self__, place)
        return {"is": "method", "name": value.__func__.__name__, "of": owner}


def _of_array(value: Any, place: str) -> Any:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(value))
        return {"is": "key", "name": str(jax.random.key_impl(value)), "value": data.tolist()}
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"{place.lstrip('.')} must be an array of numbers; got {value!r:.80}.")
    form = f"{array.dtype.name}{list(array.shape)}"
    if array.ndim == 0:  # readable in a message
        return {"is": "array", "name": form, "value": repr(array.item())}
    return {"is": "array", "name": form, "sha256": _digest(array.tobytes())}


def _of_callable(walk: _Identifier, value: Any, place: str) -> Any:
    """The identity of a callable that is not a Python function; None if it has none."""
    if _is_dtype(value):
        return {"is": "dtype", "name": np.dtype(value).name}
    if isinstance(value, type):
        return {"is": "type", "name": f"{value.__module__}.{value.__qualname__}"}
    if known := _library_name(value):
        return {"is": "function", "name": known}
    inner = getattr(value, "__wrapped__", None)  # jax.jit, jax.custom_jvp and the like
    if inner is None:
        return None
    return {"is": "wrapped", "name": type(value).__qualname__, "of": walk.of(inner, place)}


def _class(value: Any) -> dict[str, str]:
    return {"is": "class", "name": type(value).__qualname__}


def _is_dtype(value: Any) -> bool:
    return isinstance(getattr(value, "dtype", None), np.dtype) or (
        isinstance(value, type) and issubclass(value, np.generic)
    )


def _library_name(value: Any) -> str | None:
    """The full name of a library's function; None if that name does not lead to it."""
    module = getattr(value, "__module__", None)
    if module is None and isinstance(value, np.ufunc):
        module = "numpy"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or name is None or not _is_library(module):
        return None
    try:
        found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return f"{module}.{name}" if found is value else None


@functools.cache
def _is_library(module: str | None) -> bool:
    """Whether a module is installed, so that its functions are identified by name alone."""
    root = (module or "__main__").split(".")[0]
    if root == "hopscale" or root in sys.builtin_module_names:
        return True
    paths = getattr(sys.modules.get(root), "__path__", None)
    file = paths[0] if paths else getattr(sys.modules.get(root), "__file__", None)
    if file is None:
        return False
    places = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return any(Path(file).resolve().is_relative_to(Path(place).resolve()) for place in places)


def _global_names(code: types.CodeType) -> set[str]:
    """The globals that code, and the code nested in it, refers to."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _global_names(constant)
    return found


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty: the function is being defined
        return "empty"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _plain(kind: str, say: Callable[[Any], Any]) -> Callable[[_Identifier, Any, str], Any]:
    return lambda walk, value, place: {"is": kind, "name": say(value)}


_ANSWERS: list[tuple[Any, Callable[[_Identifier, Any, str], Any]]] = [
    (np.dtype, _plain("dtype", lambda v: v.name)),
    (enum.Enum, _plain("enum", lambda v: f"{type(v).__qualname__}.{v.name}")),
    (complex, _plain("complex", repr)),
    (bytes, _plain("bytes", _digest)),
    (PurePath, _plain("path", str)),
    (types.ModuleType, _plain("module", lambda v: v.__name__)),
    (types.EllipsisType, _plain("ellipsis", repr)),
    (
        slice | range,
        lambda w, v, p: {"is": type(v).__name__, "of": w.of([v.start, v.stop, v.step], p)},
    ),
    (dict | types.MappingProxyType, _Identifier._of_dict),
    (tuple | list, _Identifier._of_sequence),
    (set | frozenset, _Identifier._of_set),
    (types.CodeType, _Identifier._of_code),
    (types.FunctionType, _Identifier._of_function),
    (functools.partial, _Identifier._of_partial),
    (types.MethodType, _Identifier._of_method),
]


def differences(found: Any, needed: Any, place: str = "") -> list[str]:
    """Short phrases that name what differs between two identities: "scale 2.0, not 3.0".

    Either may have been read from a file. Dictionaries are compared name by name.
    """
    if _is_module(found) and _is_module(needed) and found["name"] == needed["name"]:
        return differences(found["fields"], needed["fields"], place)
    if _is_open(found) and _is_open(needed):
        return [
            phrase
            for name in sorted({*found, *needed})
            for phrase in differences(
                found.get(name), needed.get(name), f"{place}.{name}" if place else name
            )
        ]
    if json.dumps(found, sort_keys=True) == json.dumps(needed, sort_keys=True):
        return []
    name, was, should = place or "it", _shown(found), _shown(needed)
    if was == should:
        return [f"{name} another {was}"]
    return [f"{name} {was}, not {should}"]


def _is_module(value: Any) -> bool:
    return isinstance(value, dict) and value.get("is") == "class"


def _is_open(value: Any) -> bool:
    """Whether a dictionary holds named parts, and does not itself stand for a value."""
    return isinstance(value, dict) and "is" not in value


def _shown(value: Any) -> str:
    """A value as shown in a message."""
    if isinstance(value, dict) and "is" in value:
        value = value.get("value", value.get("name", value["is"]))
        if isinstance(value, str):
            return value
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
