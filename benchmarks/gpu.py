"""Time the GPU kernels and whole steps.

Run: python benchmarks/gpu.py [choose] [time] [steps] [tuners] [profile] [table[:k/n]] [sweep]

choose: a choice of sites beside the reference's, and whether it is the same. time: the kernels
alone. steps: whole steps of samplers. tuners: steps with a scale that is fixed, or tuned and
frozen. profile: the parts of a step, by the clock of the device. table: the rows of `h200.csv`,
which are steps of LBP, also from 10^2 to 10^6 sites at a fixed number of sites in all chains. With
k/n, every n-th row from the k-th on is measured; n processes compile side by side and measure one
after the other. sweep: other settings of the kernels. Without an argument, the first three are run.
`gpu_check.py` checks whether the kernels are right.
"""

import fcntl
import gzip
import itertools
import json
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.bench import step_milliseconds
from hopscale.native import gpu, reference
from hopscale.runs.plan import Plan

SHAPES = [(100, 800), (100, 2500), (100, 5000), (100, 10_000), (4000, 10_000)]
CHOICES = [(100, 800), (100, 10_000), (4000, 10_000), (100, 65_536), (4, 10**6)]


def say(*words) -> None:
    print(*words, flush=True)


def attempt(name: str, f) -> None:
    """Run f; an error is printed, and the rest continues."""
    try:
        f()
    except Exception as error:
        say(f"{name}: FAIL {type(error).__name__}: {str(error)[:600]}")
        traceback.print_exc(limit=-3)


def case(chains: int, n: int, length: int):
    keys = jax.random.split(jax.random.key(0), chains)
    x = 2.0 * jax.random.normal(jax.random.key(1), (chains, n))
    return keys, x, jnp.full(chains, length, jnp.int32)


def chains_of(function, **settings):
    return jax.jit(jax.vmap(partial(function, **settings)))


def same_chains(ours, theirs, lengths) -> float:
    """The share of chains with the same sites in the same order, and the same flags."""
    counted = jnp.arange(ours[0].shape[1])[None, :] < lengths[:, None]
    same = jnp.all((ours[0] == theirs[0]) | ~counted, axis=1) & jnp.all(
        ours[1] == theirs[1], axis=1
    )
    return float(jnp.mean(same))


def clock(f, *args, iterations: int) -> float:
    """Microseconds per call of f(i, *args) -> scalar, in a compiled loop."""

    @jax.jit
    def loop(*args):
        return jax.lax.fori_loop(
            0, iterations, lambda i, total: total + f(i, *args), jnp.float32(0.0)
        )

    jax.block_until_ready(loop(*args))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(loop(*args))
        best = min(best, time.perf_counter() - start)
    return best / iterations * 1e6


def race_loop(race, **settings):
    def f(i, keys, x, lengths):
        # The input changes with i, so that the compiler cannot move the call out of the loop.
        x = x + i.astype(jnp.float32) * 1e-3
        sites, chosen, p = jax.vmap(partial(race, balance="barker", **settings))(keys, x, lengths)
        return jnp.sum(p) + sites[0, 0] + chosen[0, 0]

    return f


def choice(chains: int, n: int) -> None:
    """Time a choice of sites beside the reference's."""
    length = round(n ** (2 / 3))
    arrays = case(chains, n, length)
    iterations = 200 if chains * n < 10**7 else 20
    ours = chains_of(gpu.race, balance="barker")(*arrays)
    few = 8  # chains for the reference
    part = [x[:few] for x in arrays]
    same = same_chains(
        [x[:few] for x in ours], chains_of(reference.race, balance="barker")(*part), part[2]
    )
    new = clock(race_loop(gpu.race), *arrays, iterations=iterations)
    old = clock(race_loop(reference.race), *arrays, iterations=5)
    say(
        f"choose {chains}x{n} R={length}: {new:.1f} us, by the reference "
        f"{old:.1f} us, ratio {old / new:.2f}; chains as the reference's: {same:.3f} "
        f"{'PASS' if same >= 0.85 else 'FAIL'}"
    )


def path_loop(implementation, **settings):
    def f(i, x, sites, chosen, lengths):
        x = x + i.astype(jnp.float32) * 1e-3
        one = partial(implementation.order_log_prob, balance="barker", backwards=True, **settings)
        return jnp.sum(jax.vmap(one)(x, sites, chosen, lengths))

    return f


def argsort(i, keys, x, lengths):
    return jnp.argsort(x + i.astype(jnp.float32), axis=1)[0, 0].astype(jnp.float32)


def timed(chains: int, n: int, sweep: bool) -> None:
    length = round(n ** (2 / 3))
    iterations = 200 if chains * n < 10**7 else 20
    race = case(chains, n, length)
    head = f"{chains}x{n} R={length}"

    def line(name, f, *args):
        run = lambda: say(f"{head} {name}: {clock(f, *args, iterations=iterations):.1f} us")  # noqa: E731
        attempt(f"{head} {name}", run)

    keys, x, lengths = race
    sites, chosen, _ = chains_of(gpu.race, balance="barker")(*race)
    path = x, sites, chosen, lengths
    if not sweep:
        line("race", race_loop(gpu.race), *race)
        line("race, R=1 (all but the draws)", race_loop(gpu.race), keys, x, lengths * 0 + 1)
        line("order_log_prob", path_loop(gpu), *path)
        line("jnp.argsort", argsort, *race)
        line("reference.race", race_loop(reference.race), *race)
        line("reference.order_log_prob", path_loop(reference), *path)
        return
    for warps in (4, 8, 16, 32):
        knobs = gpu.Knobs(warps=warps)
        line(f"race {warps=}", race_loop(gpu.race, knobs=knobs), keys, x, lengths * 0 + 1)
        line(f"order_log_prob {warps=}", path_loop(gpu, knobs=knobs), *path)
    for stride, block in ((1024, 1024), (2048, 512), (8192, 1024), (4096, 512), (4096, 256)):
        knobs = gpu.Knobs(stride=stride, block=block)
        line(f"order_log_prob {stride=} {block=}", path_loop(gpu, knobs=knobs), *path)
    for draws in (128, 256, 1024):
        knobs = gpu.Knobs(draws=draws)
        line(f"race {draws=}", race_loop(gpu.race, knobs=knobs), *race)


def problems():
    """Name, target, scale and chains of what is timed."""
    yield "Bernoulli 800", hs.paper.bernoulli(800, "C2"), 152, 100
    yield "Ising 50", hs.paper.ising(50, "C2"), 165, 100
    yield "Ising 100", hs.paper.ising(100, "C2"), 420, 100
    yield "FHMM 1000", hs.paper.fhmm(1000, "C2", variant="table"), 440, 100
    yield "Ising 100", hs.paper.ising(100, "C2"), 420, 4000


def kernels_of(folder: Path) -> list[tuple[str, float, float]]:
    """Name, start and duration in us of all that ran on the device, from a profiler's trace."""
    (trace,) = folder.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    devices = {
        e["pid"] for e in events
        if e.get("name") == "process_name" and "/device:" in e["args"]["name"]
    }  # fmt: skip
    return sorted(
        ((e["name"], e["ts"], e["dur"]) for e in events
         if e.get("ph") == "X" and e["pid"] in devices and "dur" in e),
        key=lambda event: event[1],
    )  # fmt: skip


def profile() -> None:
    """Print microseconds per step: from first to last kernel, in all kernels, and in each."""
    for name, target, scale, chains in problems():
        count = 256
        plan = Plan.of([target], hs.LBP(), [0], [hs.Fixed(scale)], chains, 0, 4 * count)
        job = plan.begin()
        job.advance(count)
        jax.block_until_ready(job.chains)
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder, create_perfetto_trace=True):
                job.advance(count)
                jax.block_until_ready(job.chains)
            found = kernels_of(Path(folder))
        took: dict[str, list[float]] = {}
        for kernel, _, duration in found:
            took.setdefault(kernel.rstrip("_0123456789"), []).append(duration)
        span = (found[-1][1] + found[-1][2] - found[0][1]) / count if found else float("nan")
        busy = sum(sum(d) for d in took.values()) / count
        say(f"profile {name} x {chains}: {span:.1f} us a step from first to last, {busy:.1f} busy")
        for kernel, all_of_it in sorted(took.items(), key=lambda item: -sum(item[1]))[:14]:
            each, number = np.mean(all_of_it), len(all_of_it) / count
            say(f"    {kernel[:48]:48} {number:5.2f} a step of {each:6.2f} us")


def rows():
    """Name, size, target, scale and chains of the rows of `h200.csv`."""
    fhmm = partial(hs.paper.fhmm, variant="table")
    for name, size, make, scale, chains in (
        ("bernoulli", 800, hs.paper.bernoulli, 153, 100),
        ("ising", 50, hs.paper.ising, 166, 100),
        ("ising", 100, hs.paper.ising, 418, 100),
        ("fhmm", 1000, fhmm, 439, 100),
        ("ising", 100, hs.paper.ising, 418, 4000),
        ("ising", 100, hs.paper.ising, 418, 1),
        ("ising", 182, hs.paper.ising, 928, 100),
        ("ising", 256, hs.paper.ising, 1463, 100),
        ("ising", 1000, hs.paper.ising, 9000, 4),
    ):
        yield name, size, make(size, "C2"), scale, chains
    yield "potts of 8 values", 50, hs.Potts.lattice((50, 50), 8, 0.4), 166, 100
    for side in (10, 20, 40, 80, 160, 320, 640, 1000):
        lattice = hs.Ising(np.zeros((side, side), np.float32), 0.3)
        scale = max(1, round(0.9 * lattice.num_sites ** (2 / 3)))
        yield "lattice", side, lattice, scale, max(1, 10**6 // side**2)


def shared(things, share: str):
    """Every n-th of some things from the k-th on, for "k/n"."""
    k, n = map(int, share.split("/"))
    return itertools.islice(things, k, None, n)


def table(share: str) -> None:
    """Print rows of `h200.csv`: the shortest time of a step in four runs."""
    with (Path(tempfile.gettempdir()) / "hopscale-gpu.lock").open("w") as alone:
        for name, size, target, scale, chains in shared(rows(), share):
            count = 512 if target.num_sites * chains < 10**7 else 128
            plan = Plan.of([target], hs.LBP(), [0], [hs.Fixed(scale)], chains, 0, 8 * count)
            job = plan.begin()
            job.advance(count)  # compiles
            fcntl.flock(alone, fcntl.LOCK_EX)
            took = min(seconds(job, count) for _ in range(4)) / count
            fcntl.flock(alone, fcntl.LOCK_UN)
            say(f"{name},{size},{target.num_sites},{chains},LBP,{scale},{took * 1e3:.4f}")


def seconds(job, count: int) -> float:
    jax.block_until_ready(job.chains)
    start = time.perf_counter()
    job.advance(count)
    jax.block_until_ready(job.chains)
    return time.perf_counter() - start


def steps() -> None:
    for name, target, scale, chains in problems():
        count = 1024 if chains == 100 else 256
        lbp = step_milliseconds(target, hs.LBP(), scale, chains, count)
        walk = step_milliseconds(target, hs.RWM(), 1, chains, count)
        gwg = step_milliseconds(target, hs.GWG(), scale // 3, chains, count)
        say(
            f"{name} x {chains} chains: LBP {lbp:.4f} ms a step, GWG {gwg:.4f}, RWM-1 {walk:.4f}, "
            f"LBP / RWM-1 {lbp / walk:.2f}"
        )


def tuners() -> None:
    """A frozen tuner costs time on a GPU, which computes its update and discards it."""
    for name, target, scale, chains in problems():
        found = []
        for tuner in (hs.Fixed(scale), hs.Adaptive(), hs.Tuned()):
            count = 512 if chains == 100 else 128
            job = Plan.of([target], hs.LBP(), [0], [tuner], chains, 0, 8 * count).begin()
            state = job.chains.tuner
            frozen = state._replace(scale=jnp.full_like(state.scale, scale))
            job.chains = job.chains._replace(tuner=frozen)
            job.advance(count)
            took = min(seconds(job, count) for _ in range(4)) / count
            found.append(f"{type(tuner).__name__} {took * 1e3:.4f}")
        say(f"{name} x {chains} chains: ms a step by tuner: {', '.join(found)}")


def begin() -> None:
    """Print the devices, or exit with the reason why the kernels cannot run."""
    ready, reason = gpu.ready()
    if not ready:
        sys.exit(f"The kernels for GPUs cannot run here: {reason}.")
    say("jax", jax.__version__, jax.devices(), reason)


def main(parts: list[str]) -> None:
    begin()
    parts = parts or ["choose", "time", "steps"]
    if "choose" in parts:
        for chains, n in CHOICES:
            attempt(f"choose {chains}x{n}", partial(choice, chains, n))
    for part in ("time", "sweep"):
        if part in parts:
            for chains, n in SHAPES:
                attempt(f"{chains}x{n}", partial(timed, chains, n, part == "sweep"))
    if "steps" in parts:
        attempt("steps", steps)
    if "tuners" in parts:
        attempt("tuners", tuners)
    if "profile" in parts:
        attempt("profile", profile)
    for part in parts:
        if part.startswith("table"):
            attempt(part, partial(table, part.partition(":")[2] or "0/1"))


if __name__ == "__main__":
    main(sys.argv[1:])
