"""The time of a step: kernels against the plain JAX reference, with the machine's limits.

All times are of whole steps of `sample`, without compilation, and of one run: compare them as
ratios, not across machines or days.
"""

import csv
import dataclasses
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from hopscale import native, paper
from hopscale.disk import files
from hopscale.engine import loop
from hopscale.kernels import GWG, LBP, RWM, Kernel, Metropolis
from hopscale.runs.host import drive
from hopscale.runs.plan import Plan
from hopscale.target import Target
from hopscale.tune import Fixed

SIZES = {
    "quick": {"bernoulli": (100, 800), "ising": (20, 50), "fhmm": (200,)},
    "full": {"bernoulli": (100, 800, 6400), "ising": (20, 50, 100), "fhmm": (200, 1000)},
}
# Approximately where tuning ends on configuration C2: R = factor * N^(2/3).
FACTOR = {"bernoulli": 1.77, "ising": 0.9, "fhmm": 1.5}
SECONDS = 0.4  # of steps, for each time
COPIED = 2**26  # numbers, far more than caches hold


class Cell(NamedTuple):
    """A row of the table: the time of a step of all chains, with kernels and by the reference."""

    target: str
    size: int
    sites: int
    chains: int
    sampler: str
    scale: int
    milliseconds: float
    reference_milliseconds: float

    @property
    def site_updates(self) -> float:
        """Sites per second, over all chains."""
        return self.sites * self.chains / self.milliseconds * 1e3


class Roofline(NamedTuple):
    """The machine's limits: bytes copied and random words drawn per second."""

    bytes_copied: float
    words_by_jax: float
    words_by_kernel: float


def measure(profile: str, chains: Iterable[int], console: Console) -> tuple[list[Cell], Roofline]:
    """Time every sampler on every target of the profile."""
    jobs = [
        (name, size, count)
        for name, sizes in SIZES[profile].items()
        for size in sizes
        for count in chains
    ]
    cells = []
    for name, size, count in track(
        jobs, "timing", console=console, transient=True, disable=not console.is_terminal
    ):
        target = getattr(paper, name)(size, "C2")
        scale = max(1, min(target.num_sites, round(FACTOR[name] * target.num_sites ** (2 / 3))))
        for sampler, r in ((LBP(), scale), (GWG(), max(1, scale // 3)), (RWM(), 1)):
            cells.append(
                Cell(
                    target=name,
                    size=size,
                    sites=target.num_sites,
                    chains=count,
                    sampler=f"{type(sampler).__name__}-{r}" if r == 1 else type(sampler).__name__,
                    scale=r,
                    milliseconds=step_milliseconds(target, sampler, r, count),
                    reference_milliseconds=_by_reference(target, sampler, r, count),
                )
            )
    return cells, roofline()


def step_milliseconds(
    target: Target, kernel: Kernel, scale: int, chains: int, most: int = 4096
) -> float:
    """The shortest time of a step in three runs, each long enough to outweigh a call's overhead."""
    plan = Plan.of([target], kernel, [0], [Fixed(scale)], chains, 0, most)

    def seconds(steps: int) -> float:
        job = dataclasses.replace(plan, draws=steps).begin()
        if drive(job, chunk=steps, progress=False) == "interrupted":
            raise KeyboardInterrupt
        return job.run_seconds

    steps = min(loop.NOISE_STEPS, most)
    seconds(steps)  # compiles
    first = seconds(steps)
    while steps < most and first < SECONDS / 12:
        steps = min(4 * steps, most)
        first = seconds(steps)
    return min(first, seconds(steps), seconds(steps)) / steps * 1e3


def site_cost(target: Target, kernel: Kernel | None = None, chains: int = 100) -> float:
    """The time that a site adds to a step, in units of a step that moves none.

    Pass it to `Tuned(site_cost=...)`, which then maximises distance per second. It is found from a
    line through the times at the smallest and the largest scale.
    """
    kernel = LBP() if kernel is None else kernel
    scales = kernel.scale_range(target)
    if scales is None:
        raise ValueError(f"{type(kernel).__name__} has no scale, and so no cost of a site.")
    low, high = int(scales.low), int(scales.tuned_high)
    if high <= low:
        return 0.0
    first, last = (step_milliseconds(target, kernel, scale, chains) for scale in (low, high))
    by_site = max(last - first, 0.0) / (high - low)
    return by_site / max(first - by_site * low, 1e-3 * first)


def _by_reference(target: Target, kernel: Metropolis, scale: int, chains: int) -> float:
    most = 2 if jax.default_backend() == "cpu" and target.num_sites * chains > 10**5 else 512
    plain = dataclasses.replace(kernel, implementation="reference")
    return step_milliseconds(target, plain, scale, chains, most)


def roofline() -> Roofline:
    """Measure copy bandwidth and the rate of random words, on arrays far larger than caches."""
    array = jnp.zeros(COPIED, jnp.float32)
    # In place; otherwise this would measure the allocation of memory.
    add = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    array = add(array)
    best = np.inf
    for _ in range(5):
        began = time.perf_counter()
        array = jax.block_until_ready(add(array))
        best = min(best, time.perf_counter() - began)
    seconds = float(best)
    key = jax.random.key(0)
    by_jax = _seconds(jax.jit(lambda k: jax.random.bits(k, (2**22,), jnp.uint32)), key)
    keys = jax.random.split(key, 256)
    draw = jax.jit(jax.vmap(lambda k: native.call("uniform", k, jnp.int32(1), n=2**14)[0][0]))
    by_kernel = _seconds(draw, keys)
    return Roofline(8 * COPIED / seconds, 2**22 / by_jax, 2**22 / by_kernel)


def _seconds(function, argument) -> float:
    jax.block_until_ready(function(argument))
    best = np.inf
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(function(argument))
        best = min(best, time.perf_counter() - began)
    return float(best)


def hardware() -> str:
    """A description of the device."""
    device = jax.devices()[0]
    kind = device.device_kind
    if device.platform == "cpu":
        cpuinfo = Path("/proc/cpuinfo")
        names = [
            line.split(":")[1].strip()
            for line in (cpuinfo.read_text().splitlines() if cpuinfo.exists() else [])
            if line.startswith("model name")
        ]
        kind = f"{names[0]}, {len(names)} cores" if names else platform.processor()
    return f"{kind}; JAX {jax.__version__}, Python {platform.python_version()}"


def table(cells: list[Cell], limits: Roofline) -> Table:
    """The cells as a readable table."""
    table = Table(
        title=f"Cost of a step on {hardware()}",
        caption=(
            f"copying {limits.bytes_copied / 1e9:,.1f} GB/s; random words: kernels "
            f"{limits.words_by_kernel / 1e9:.2f}, JAX {limits.words_by_jax / 1e9:.2f} G/s"
        ),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for column in ("target", "sampler"):
        table.add_column(column, no_wrap=True)
    for column in ("chains", "R", "ms/step", "steps/s", "M sites/s", "vs walk", "plain ms", "x"):
        table.add_column(column, justify="right")
    walks = {(c.target, c.size, c.chains): c for c in cells if c.sampler == "RWM-1"}
    for c in cells:
        walk = walks[c.target, c.size, c.chains]
        slow = c.reference_milliseconds
        table.add_row(
            f"{c.target} {c.size}",
            c.sampler,
            f"{c.chains:,}",
            str(c.scale),
            f"{c.milliseconds:.3f}",
            f"{1e3 / c.milliseconds:,.0f}",
            f"{c.site_updates / 1e6:,.0f}",
            f"{c.milliseconds / walk.milliseconds:.2f}",
            f"{slow:.4g}",
            f"{slow / c.milliseconds:.0f}",
            end_section=c.sampler == "RWM-1",
        )
    return table


def save(out: Path, cells: list[Cell], limits: Roofline) -> None:
    """Write bench.csv and bench.png."""
    files.make_folder(out)
    with (out / "bench.csv").open("w", newline="") as file:
        file.write(f"# {hardware()}\n")
        for name, value in limits._asdict().items():
            file.write(f"# {name} per second: {value:.4g}\n")
        writer = csv.writer(file)
        writer.writerow(Cell._fields)
        writer.writerows(cells)
    figure(out / "bench.png", cells, limits)


def figure(path: Path, cells: list[Cell], limits: Roofline) -> None:
    """Plot the time of a step against the number of sites, with the machine's limits."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    chains = max(c.chains for c in cells)
    names = list(dict.fromkeys(c.target for c in cells))
    drawn, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.4), sharey=True)
    lines = {"LBP": ("#d1622b", "o"), "GWG": ("#4c72b0", "s"), "RWM-1": ("#7a7a7a", "^")}
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        for sampler, (color, mark) in lines.items():
            points = [
                c for c in cells if (c.target, c.sampler, c.chains) == (name, sampler, chains)
            ]
            n = [c.sites for c in points]
            axis.plot(n, [c.milliseconds for c in points], mark + "-", color=color, label=sampler)
            slow = [c.reference_milliseconds for c in points]
            axis.plot(n, slow, mark + ":", color=color, mfc="none", lw=1)
        ends = np.array([min(c.sites for c in cells), max(c.sites for c in cells)])
        words = ends * chains / limits.words_by_kernel * 1e3
        # The least traffic of a step: read a log-ratio and a bit, and write them again.
        moved = ends * chains * 10 / limits.bytes_copied * 1e3
        axis.plot(ends, words, "-", color="#bbbbbb", lw=1, label="a random word a site")
        axis.plot(ends, moved, "--", color="#bbbbbb", lw=1, label="10 bytes a site")
        axis.set(xscale="log", yscale="log", title=name, xlabel="sites N")
        axis.spines[["top", "right"]].set_visible(False)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel(f"ms a step, {chains} chains")
    first.plot([], [], "k:", lw=1, label="by the reference")
    drawn.suptitle(hardware(), fontsize=8, color="#777777", x=0.01, ha="left")
    drawn.tight_layout(rect=(0, 0.07, 1, 1))
    handles, labels = first.get_legend_handles_labels()
    drawn.legend(handles, labels, frameon=False, fontsize=8, ncol=6, loc="lower center")
    drawn.savefig(path, dpi=160)
    plt.close(drawn)
