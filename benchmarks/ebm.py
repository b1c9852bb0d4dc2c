"""The cost of a step of adaptive LBP on a deep energy-based model, and the speed of training.

Run: python benchmarks/ebm.py [--channels 64 --size 28 --batch 100 --steps 100 --repeats 10
                               --precision default,bfloat16 --learn 15,40 --seconds 10
                               --model CHECKPOINT --lock FILE --out FILE]

For each precision, with everything compiled with CUDA graphs where these exist, it times:

- pass: a value-and-gradient of the network at all chains' states; by XLA: the same without kernels;
  gradient: that of an iteration, with respect to the weights, at twice as many states;
- walk: K steps as in training, divided by the K + 1 passes in them;
- sample: steps of `hs.sample`, divided by as many passes;
- many: a pass of each of --models models in one program;
- learn, for each number of steps in --learn: an iteration of persistent contrastive divergence,
  divided by its lower bound, which is steps + 1 passes and a gradient.

Processes with the same --lock measure in turn. XLA_FLAGS are part of the output; on an NVIDIA GPU,
compare with --xla_gpu_force_conv_nhwc=true.
On a CPU: python benchmarks/ebm.py --channels 8 --size 8 --steps 20 --seconds 2 --learn 5
"""

import argparse
import contextlib
import fcntl
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.engine import loop
from hopscale.engine.compiling import compiled
from hopscale.learn import EBM, PCD, ResNet, checkpoint, packing, pcd
from hopscale.learn.health import RECORDED


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in (("channels", 64), ("size", 28), ("batch", 100), ("steps", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--precision", default="default,bfloat16")
    parser.add_argument("--balance", default="sqrt")
    parser.add_argument("--learn", default="15,40")
    parser.add_argument("--draws", type=int, default=4_000, help="of hs.sample")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--models", type=int, default=0, help="side by side in one program")
    parser.add_argument("--model", type=Path, help="whose weights to use, instead of random ones")
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


@contextlib.contextmanager
def turn(options):
    """Hold the lock, so that no other process with the same lock measures meanwhile."""
    if options.lock is None:
        yield
        return
    with options.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def timed(function) -> float:
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def seconds_of(options, functions) -> tuple[list[float], list[float]]:
    """The best time of each function, with functions in turn, and the times of the first calls."""
    first = [timed(function) for function in functions]
    with turn(options):
        times = [[timed(function) for function in functions] for _ in range(options.repeats)]
    return np.min(times, axis=0).tolist(), first


def _evaluations(model: EBM, x, number):
    """`number` value-and-gradients, one after the other: each state depends on the last result."""
    model = loop.prepared(model)

    def once(_, x):
        found = jax.vmap(model.evaluate)(x)
        assert found.log_ratios is not None
        never = found.log_ratios > 1e30 + found.log_prob[:, None, None]
        return x ^ never.astype(x.dtype)

    return jax.lax.fori_loop(0, number, once, x)


evaluations = compiled()(_evaluations)


@compiled()
def evaluations_of_many(models: EBM, x, number):
    """The same for models side by side in one program, with the same states."""
    each = eqx.if_array(0)
    return eqx.filter_vmap(_evaluations, in_axes=(each, None, None))(models, x, number)


@compiled()
def gradients(network, base, x, number):
    """`number` gradients with respect to the weights, one after the other, of a batch and x."""
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)

    def once(_, arrays):
        energies = lambda arrays: pcd._objective(eqx.combine(arrays, rest), base, x, 1 - x, 0.0)[0]  # noqa: E731
        slope = jax.grad(energies)(arrays)
        return jax.tree.map(lambda a, b: a - 1e-30 * b, arrays, slope)

    return jax.lax.fori_loop(0, number, once, arrays)


class WithoutKernels(eqx.Module):
    """A network whose gradient is left to JAX."""

    network: Callable

    def __call__(self, x):
        return self.network(x)


def model_of(options, precision: str, data) -> EBM:
    network = ResNet(options.channels, 0, precision)
    if options.model is None:
        return EBM(network, hs.learn.base_of(data))
    found = checkpoint.find(options.model)
    return EBM(packing.load_weights(found, network), found.arrays["base"])


def data_of(options) -> np.ndarray:
    """Samples of the model, or independent bits."""
    shape = (options.size, options.size)
    if options.model is not None:
        return packing.load_samples(checkpoint.find(options.model), shape)
    rng = np.random.default_rng(0)
    means = rng.uniform(0.02, 0.5, shape)
    return (rng.random((max(1000, options.batch), *shape)) < means).astype(np.int8)


def training_of(options, model: EBM, data, settings: PCD) -> pcd.Training:
    kernel = hs.LBP(options.balance)
    return pcd.Training.of(jax.random.key(0), model, data, kernel, hs.Adaptive(), settings)


def step_cost(options, precision: str, data) -> dict:
    """The time of a walk against that of the network passes in it, and that of a gradient."""
    settings = PCD(steps=options.steps, batch=options.batch, buffer=options.batch)
    model = model_of(options, precision, data)
    training = training_of(options, model, data, settings)
    x = jnp.asarray(data[: options.batch])
    tuner = pcd.start(training, model, jax.random.key(0)).tuner

    @compiled()
    def walk(training, model, x, tuner):
        return pcd.walk(jax.random.key(1), training, model, x, tuner)

    passes, few = options.steps + 1, 20
    plain = EBM(WithoutKernels(model.network), model.base)
    (alone, by_xla, walked, learnt), first = seconds_of(
        options,
        (
            lambda: evaluations(model, x, passes),
            lambda: evaluations(plain, x, passes),
            lambda: walk(training, model, x, tuner),
            lambda: gradients(model.network, model.base, x, few),
        ),
    )
    _, tuned, (acceptance, _) = walk(training, model, x, tuner)
    return {
        "precision": precision,
        "pass_ms": 1e3 * alone / passes,
        "pass_by_xla_ms": 1e3 * by_xla / passes,
        "step_ms": 1e3 * walked / passes,
        "ratio": walked / alone,
        "gradient_ms": 1e3 * learnt / few,
        "acceptance": float(acceptance),
        "scale": float(tuned.scale),
        "first_call_s": first,
    }


def sampling_cost(options, precision: str, data) -> dict:
    """The time of a step of `hs.sample` against that of a pass, without the overhead of a call.

    Also left out is the time to compute at the end whether chains agree. Both are timed in turn.
    """
    model = model_of(options, precision, data)
    init = data[: options.batch]
    x, draws = jnp.asarray(init), (options.draws, 3 * options.draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws say nothing about the model
        run = hs.sample(model, hs.LBP(options.balance), chains=options.batch, init=init,
                        warmup=64, draws=64, progress=False)  # fmt: skip

        def steps(number: int) -> float:
            return run.extend(number, progress=False).run_seconds - run.run_seconds

        def passes(number: int) -> float:
            return timed(lambda: evaluations(model, x, number))

        each = [(measure, number) for measure in (steps, passes) for number in draws]
        for measure, number in each:
            measure(number)  # compiles
        with turn(options):
            times = [[measure(number) for measure, number in each] for _ in range(options.repeats)]
    few, many, few_passes, many_passes = np.min(times, axis=0).tolist()
    step, alone = (
        (b - a) / (2 * options.draws) for a, b in ((few, many), (few_passes, many_passes))
    )
    return {
        "precision": precision,
        "step_ms": 1e3 * step,
        "pass_ms": 1e3 * alone,
        "ratio": step / alone,
        "scale": float(np.mean(run.scale)),
        "acceptance": float(np.mean(run.acceptance)),
    }


def side_by_side(options, precision: str, data) -> dict:
    """A pass of each of several models in one program."""
    model, x = model_of(options, precision, data), jnp.asarray(data[: options.batch])
    arrays, rest = eqx.partition(model, eqx.is_array)
    stacked = jax.tree.map(lambda a: jnp.stack([a] * options.models), arrays)
    models, passes = eqx.combine(stacked, rest), 20
    run = lambda: evaluations_of_many(models, x, passes)  # noqa: E731
    (seconds,), first = seconds_of(options, (run,))
    each = 1e3 * seconds / passes / options.models
    return {"precision": precision, "models": options.models, "pass_ms": each, "first": first}


def learning_cost(options, precision: str, data, steps: int, costs: dict) -> dict:
    """The time of an iteration, without compilation, against its lower bound."""
    settings = PCD(steps=steps, batch=options.batch)
    model = model_of(options, precision, data)
    training = training_of(options, model, data, settings)
    state = pcd.start(training, model, jax.random.key(0))
    records = jnp.zeros((4096, len(RECORDED)))
    began = time.perf_counter()
    state, records, _, _ = pcd.advance((training, jnp.asarray(1)), state, records)
    jax.block_until_ready(records)
    compiled_in, done = time.perf_counter() - began, 0
    with turn(options):
        began, number = time.perf_counter(), 1
        while time.perf_counter() - began < options.seconds:
            fixed = (training, jnp.asarray(number))
            state, records, _, diverged = pcd.advance(fixed, state, records)
            assert not diverged, "training diverged"
            done, number = done + number, min(2 * number, 64)
        took = time.perf_counter() - began
    floor = (steps + 1) * costs["pass_ms"] + costs["gradient_ms"]
    return {
        "precision": precision,
        "steps": steps,
        "iteration_ms": 1e3 * took / done,
        "floor_ms": floor,
        "ratio": 1e3 * took / done / floor,
        "first_call_s": compiled_in,
    }


def main() -> None:
    options = arguments()
    data = data_of(options)
    shared = {
        "device": jax.devices()[0].device_kind,
        "flags": os.environ.get("XLA_FLAGS", ""),
        "channels": options.channels,
        "batch": options.batch,
    }
    lines = []

    def say(kind: str, result: dict) -> None:
        lines.append(json.dumps({"kind": kind, **shared, **result}))
        print(lines[-1], flush=True)
        if options.out:
            options.out.write_text("\n".join(lines) + "\n")

    for precision in options.precision.split(","):
        costs = step_cost(options, precision, data)
        say("step", costs)
        for steps in filter(None, options.learn.split(",")):
            say("learn", learning_cost(options, precision, data, int(steps), costs))
        if options.models:
            say("many", side_by_side(options, precision, data))
        if options.draws:
            say("sample", sampling_cost(options, precision, data))


if __name__ == "__main__":
    main()
