"""Runs as files: saved, loaded, and continued bit for bit.

A file holds everything that changes during a run, and the parts of the run. Targets, kernels,
tuners and recorders of the library are stored in full. The user's functions, which no file can
hold, are stored by their identity.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hopscale import validate
from hopscale.disk import files, storage
from hopscale.disk.identity import differences, identity
from hopscale.disk.storage import FileError, Stored
from hopscale.kernels.kernel import Kernel
from hopscale.results.run import Run
from hopscale.runs.plan import Plan, split_record
from hopscale.runs.run import make_runs
from hopscale.runs.sampling import Sampling
from hopscale.target import Target

KIND = "a run"
PARTS = ("target", "kernel", "tuner", "functions", "recorders", "init")


def save(run: Run, path: str | Path, overwrite: bool = False) -> None:
    """Write a run to a file, complete or not at all."""
    if run.resumable is None:
        raise ValueError(
            "this run cannot be saved: it is one of several that ran side by side. Save its "
            "numbers, run.summary()."
        )
    files.check_writable(path, overwrite)
    _write(path, *run.resumable, interrupted=run.interrupted)


def load(
    path: str | Path,
    target: Target | None = None,
    *,
    kernel: Any = None,
    record: Any = None,
) -> Run:
    """Read a run written by `run.save` or `checkpoint=`; `run.extend` continues it.

    Args:
        path: the file.
        target: needed if the target was made from a function, which a file cannot hold. It is
            compared with the one that was used.
        kernel: likewise, for a kernel of your own.
        record: likewise, as it was given to `hs.sample`.

    Raises:
        FileNotFoundError: there is no such file.
        FileError: the file is damaged, is not a run, or is of another target, kernel or record.
    """
    if target is not None:
        validate.instance("target", target, Target, "hs.LogDensity(fn, shape)")
    if kernel is not None:
        validate.instance("kernel", kernel, Kernel, "hs.LBP()")
    stored = storage.read(path, KIND)
    given = _parts(_given(stored, target, kernel, record))
    _refuse_other(path, stored.about["parts"], {n: identity(given[n]) for n in PARTS})
    plan = given["plan"]
    job = plan.begin(compiled=False)
    job.restore(stored.about["counters"], _tree(stored, job))
    (run,) = make_runs(job, plan, interrupted=bool(stored.about["interrupted"]))
    return run


def enter(path: str | Path, plan: Plan, resumed: Any) -> tuple[Any, Callable[[Sampling], None]]:
    """Use a file for the checkpoints of a run: returns where to continue, and how to save."""
    path = Path(path)
    if path.exists():
        stored = storage.read(path, KIND)
        needed, found = _description(plan), dict(stored.about["settings"])
        _refuse_other(path, stored.about["parts"], needed["parts"])
        if resumed is not None:  # the run is to be longer than in the file
            found["draws"] = plan.draws
        _refuse_other(path, found, needed["settings"])
        if resumed is None:
            job = plan.begin(compiled=False)
            resumed = (stored.about["counters"], _tree(stored, job))
    files.check_writable(path, overwrite=True)

    def write(job: Sampling) -> None:
        unfinished = job.room() > 0  # first: it may enter the next phase, and donate the arrays
        _write(path, plan, job.counters(), job.arrays(), interrupted=unfinished)

    return resumed, write


def resume(path: str | Path, plan: Plan, draws: int | None, progress: bool = True) -> Run:
    """Continue the run in a file: to its end if it was stopped, else for `plan.draws` more.

    A run that was stopped refuses another number of `draws`, if one is given.
    """
    from hopscale.runs.run import run_plan

    stored = storage.read(path, KIND)
    needed, settings = _description(plan), dict(stored.about["settings"])
    planned, counters = settings["draws"], stored.about["counters"]
    _refuse_other(path, {**settings, "draws": plan.draws}, needed["settings"])
    _refuse_other(path, stored.about["parts"], needed["parts"])
    done = counters["done"] if counters["phase"] == "draws" else 0
    if done < planned and draws not in (None, planned):
        raise ValueError(
            f"{path} has {done:,} of {planned:,} draws, and goes on to all of them first: give "
            f"--draws {planned}, or leave it out; after that, --draws adds more."
        )
    job = plan.begin(compiled=False)
    found = (counters, _tree(stored, job))
    total = planned if done < planned else done + plan.draws
    return run_plan(dataclasses.replace(plan, draws=total), found, progress, None, path)


def _write(path, plan: Plan, counters: Mapping, arrays: Mapping, interrupted: bool) -> None:
    description = _description(plan)
    about = {**description, "counters": counters, "interrupted": interrupted, "modules": {}}
    about |= {"ratios": plan.targets[0].ratios, "cautions": list(plan.cautions)}
    about["reason"] = plan.reason
    packed = storage.pack(arrays)
    for name, part in _plan_parts(plan).items():
        spec, leaves = _spec(part)
        about["modules"][name] = spec
        packed |= {f"{name}/{place}": np.asarray(leaf) for place, leaf in leaves.items()}
    storage.write(path, KIND, about, packed)


def _description(plan: Plan) -> dict[str, Any]:
    """The identity of the run, for comparison."""
    return {
        "parts": {name: identity(part) for name, part in _plan_parts(plan).items()},
        "settings": {
            "key": np.asarray(jax.random.key_data(plan.keys[0])).tolist(),
            "chains": plan.chains,
            "warmup": plan.warmup,
            "draws": plan.draws,
            "keep": plan.keep,
        },
    }


def _plan_parts(plan: Plan) -> dict[str, Any]:
    return {
        "target": plan.targets[0],
        "kernel": plan.kernel,
        "tuner": plan.tuners[0],
        "functions": dict(plan.functions[0]),
        "recorders": dict(plan.recorders),
        "init": None if plan.init is None else np.asarray(plan.init),
    }


def _refuse_other(path, found: Any, needed: Any) -> None:
    differ = differences(_with_seed(found), _with_seed(needed))
    if differ:
        raise FileError(
            f"{path} is of another run: {'; '.join(differ[:4])}. Give the settings it was made "
            "with, or another file."
        )


def _with_seed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with a key that is just a seed as that number, in front."""
    if settings.get("key", [1])[0] != 0:
        return settings
    return {"seed": settings["key"][-1]} | {n: v for n, v in settings.items() if n != "key"}


# -- The parts of a run, rebuilt from its file. ---------------------------------------------------


def _given(stored: Stored, target, kernel, record) -> dict[str, Any]:
    """The parts of a run: those that were passed, and the others from the file."""

    functions, recorders = split_record(record)
    passed = {"target": target, "kernel": kernel}
    if record is not None:
        passed |= {"functions": functions, "recorders": recorders}
    parts = {}
    for name in PARTS:
        if passed.get(name) is not None:
            parts[name] = passed[name]
            continue
        leaves = {
            place.removeprefix(f"{name}/"): array
            for place, array in stored.arrays.items()
            if place.startswith(f"{name}/")
        }
        try:
            parts[name] = _rebuilt(stored.about["modules"][name], leaves)
        except _NotHeldError as error:
            needed = name if name in ("target", "kernel") else "record"
            raise FileError(
                f"{stored.path} cannot hold {error}, of the run's {needed}: pass it, "
                f"hs.load(path, {needed}=...)."
            ) from error
    parts["target"] = parts["target"].decided(stored.about.get("ratios", "gradient"))
    settings = {**stored.about["settings"], "cautions": stored.about.get("cautions", [])}
    settings["reason"] = stored.about.get("reason", "")
    return {**parts, "settings": settings}


def _parts(found: dict[str, Any]) -> dict[str, Any]:
    settings = found.pop("settings")
    plan = Plan(
        targets=(found["target"],),
        kernel=found["kernel"],
        keys=(jax.random.wrap_key_data(jnp.asarray(settings["key"], jnp.uint32)),),
        tuners=(found["tuner"],),
        functions=(found["functions"],),
        recorders=found["recorders"],
        chains=settings["chains"],
        warmup=settings["warmup"],
        draws=settings["draws"],
        init=found["init"],
        keep=settings["keep"],
        cautions=tuple(settings["cautions"]),
        reason=settings["reason"],
    )
    return {**found, "plan": plan}


class _NotHeldError(TypeError):
    """Something that a file cannot hold."""


def _spec(value: Any, place: str = "") -> tuple[Any, dict[str, Any]]:
    """A value as JSON, and its arrays by place. The user's own objects are only named."""
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}, {}
    if isinstance(value, jax.Array | np.ndarray):
        return {"array": isinstance(value, jax.Array)}, {place: value}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}, {}
    items: dict[str, Any] | None = None
    if isinstance(value, eqx.Module) and type(value).__module__.startswith("hopscale."):
        items = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        kind = {"module": type(value).__module__, "class": type(value).__qualname__}
    elif isinstance(value, dict):
        items, kind = value, {"dict": True}
    elif isinstance(value, tuple | list):
        items, kind = {str(i): v for i, v in enumerate(value)}, {"tuple": len(value)}
    elif _is_library_function(value):
        return {"function": value.__qualname__, "module": value.__module__}, {}
    else:
        return {"missing": f"a {type(value).__name__} of yours"}, {}
    specs, arrays = {}, {}
    for name, item in items.items():
        specs[name], more = _spec(item, f"{place}.{name}")
        arrays |= more
    return {**kind, "fields": specs}, arrays


def _is_library_function(value: Any) -> bool:
    module = getattr(value, "__module__", "") or ""
    return module.startswith("hopscale.") and callable(value) and hasattr(value, "__qualname__")


def _rebuilt(spec: dict[str, Any], arrays: Mapping[str, np.ndarray], place: str = "") -> Any:
    """The value that a spec describes. Classes and functions are looked up only in hopscale."""
    if "missing" in spec:
        raise _NotHeldError(spec["missing"])
    if "value" in spec:
        return spec["value"]
    if "array" in spec:
        return jnp.asarray(arrays[place]) if spec["array"] else arrays[place]
    if "dtype" in spec:
        return jnp.dtype(spec["dtype"])
    if "function" in spec:
        return _found(spec["module"], spec["function"])
    items = {n: _rebuilt(s, arrays, f"{place}.{n}") for n, s in spec["fields"].items()}
    if "dict" in spec:
        return items
    if "tuple" in spec:
        return tuple(items.values())
    cls = _found(spec["module"], spec["class"])
    if items.keys() != {field.name for field in dataclasses.fields(cls)}:
        raise FileError(
            f"the file is of another version of hopscale, with another {spec['class']}: read it "
            "with that version, or run it again."
        )
    module = object.__new__(cls)
    for name, item in items.items():
        object.__setattr__(module, name, item)
    return module


def _found(module: str, name: str) -> Any:
    if not module.startswith("hopscale."):
        raise FileError(f"the file names {module}.{name}, which is not hopscale's.")
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


# -- What changes during a run. -------------------------------------------------------------------


def _tree(stored: Stored, job: Sampling) -> dict[str, Any]:
    """The arrays of a stored run, in the form of a job that has not begun."""
    arrays, counters = stored.arrays, stored.about["counters"]
    like = job.shapes(counters["phase"])
    tree = {
        name: storage.unpack(arrays, like[name], f"['{name}']", stored.path)
        for name in ("chains", "memories")
    }
    tree["numbers"] = arrays["['numbers']"]
    for name in ("moments", "trace", "history", "warmup_history"):
        prefix = f"['{name}']['"
        found = {
            place.removeprefix(prefix)[:-2]: array
            for place, array in arrays.items()
            if place.startswith(prefix)
        }
        tree[name] = found or None
    tree["offender"] = arrays.get("['offender']")
    tree["kept"] = arrays.get("['kept']")
    return tree
