"""What a step of adaptive LBP costs on a deep energy-based model, and how fast one learns.

Run: python benchmarks/ebm.py [--channels 64 --size 28 --batch 100 --steps 100 --repeats 10
                               --precision default,bfloat16 --learn 15,40 --seconds 10 --out FILE]

For each precision: a walk of K steps against the K + 1 value-and-gradients of the network that it
contains, chains side by side, in one compiled loop each; and, for each number of steps in
--learn, iterations a second of persistent contrastive divergence.
On a CPU: python benchmarks/ebm.py --channels 8 --size 8 --steps 20 --seconds 2 --learn 5
"""

import argparse
import json
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.learn import EBM, PCD, ResNet, pcd
from hopscale.learn.health import RECORDED


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in (("channels", 64), ("size", 28), ("batch", 100), ("steps", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--precision", default="default,bfloat16")
    parser.add_argument("--balance", default="sqrt")
    parser.add_argument("--learn", default="15,40")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def timed(function) -> float:
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def seconds_of(functions, repeats: int) -> tuple[list[float], list[float]]:
    """The best timing of each function, taken in turns, and what the first calls took."""
    first = [timed(function) for function in functions]
    times = [[timed(function) for function in functions] for _ in range(repeats)]
    return np.min(times, axis=0).tolist(), first


def evaluations(model: EBM, x, number: int):
    """`number` value-and-gradients, one after the other: each state depends on the last result."""

    def once(_, x):
        found = jax.vmap(model.evaluate)(x)
        assert found.log_ratios is not None
        never = found.log_ratios > 1e30 + found.log_prob[:, None, None]
        return x ^ never.astype(x.dtype)

    return jax.lax.fori_loop(0, number, once, x)


def training_of(options, model: EBM, data, settings: PCD) -> pcd.Training:
    kernel = hs.LBP(options.balance)
    return pcd.Training.of(jax.random.key(0), model, data, kernel, hs.Adaptive(), settings)


def step_cost(options, precision: str, data) -> dict:
    """A walk against the passes through the network in it."""
    settings = PCD(steps=options.steps, batch=options.batch, buffer=options.batch)
    model = EBM(ResNet(options.channels, 0, precision), hs.learn.base_of(data))
    training = training_of(options, model, data, settings)
    x = jnp.asarray(data[: options.batch])
    tuner = pcd.start(training, model, jax.random.key(0)).tuner

    @eqx.filter_jit
    def walk(training, model, x, tuner):
        return pcd.walk(jax.random.key(1), training, model, x, tuner)

    passes = eqx.filter_jit(evaluations)
    number = options.steps + 1
    both = (lambda: passes(model, x, number), lambda: walk(training, model, x, tuner))
    (alone, whole), first = seconds_of(both, options.repeats)
    _, tuned, acceptance = walk(training, model, x, tuner)
    return {
        "precision": precision,
        "pass_ms": 1e3 * alone / number,
        "step_ms": 1e3 * whole / number,
        "ratio": whole / alone,
        "acceptance": float(acceptance),
        "scale": float(tuned.scale),
        "first_call_s": first,
    }


def learning_speed(options, precision: str, data, steps: int) -> dict:
    """Iterations a second, after compiling."""
    settings = PCD(steps=steps, batch=options.batch)
    model = EBM(ResNet(options.channels, 0, precision), hs.learn.base_of(data))
    training = training_of(options, model, data, settings)
    state = pcd.start(training, model, jax.random.key(0))
    records = jnp.zeros((4096, len(RECORDED)))
    began = time.perf_counter()
    state, records, _, _ = pcd.advance((training, jnp.asarray(1)), state, records)
    jax.block_until_ready(records)
    compiled, done = time.perf_counter() - began, 0
    began, number = time.perf_counter(), 1
    while time.perf_counter() - began < options.seconds:
        state, records, _, diverged = pcd.advance((training, jnp.asarray(number)), state, records)
        assert not diverged, "training diverged"
        done, number = done + number, min(2 * number, 64)
    took = time.perf_counter() - began
    return {
        "precision": precision,
        "steps": steps,
        "iterations_per_second": done / took,
        "ms_per_step": 1e3 * took / done / (steps + 1),
        "first_call_s": compiled,
    }


def main() -> None:
    options = arguments()
    rng = np.random.default_rng(0)
    means = rng.uniform(0.02, 0.5, (options.size, options.size))
    number = max(1000, options.batch)
    data = (rng.random((number, options.size, options.size)) < means).astype(np.int8)
    device = jax.devices()[0].device_kind
    shared = {"device": device, "channels": options.channels, "batch": options.batch}
    lines = []

    def say(kind: str, result: dict) -> None:
        lines.append(json.dumps({"kind": kind, **shared, **result}))
        print(lines[-1], flush=True)
        if options.out:
            options.out.write_text("\n".join(lines) + "\n")

    for precision in options.precision.split(","):
        say("step", step_cost(options, precision, data))
    for precision in options.precision.split(","):
        for steps in options.learn.split(","):
            say("learn", learning_speed(options, precision, data, int(steps)))


if __name__ == "__main__":
    main()
