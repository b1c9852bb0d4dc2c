"""hopscale bench and hopscale info: how fast steps are, and what they run on."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hopscale.cli.app import AsJson, app, console


@app.command()
def bench(
    profile: Annotated[str, typer.Option(help="quick or full")] = "full",
    chains: Annotated[str, typer.Option(help="numbers of chains, separated by commas")] = "10,100",
    out: Annotated[Path, typer.Option(help="folder for bench.csv and bench.png")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Time a step of each sampler on each target, with kernels and with the plain JAX reference.

    Prints a table, and saves it with a figure of cost against size. The profile `full` takes a few
    minutes.
    """
    from hopscale import bench as benchmark
    from hopscale.disk import files

    if profile not in benchmark.SIZES:
        raise ValueError(f"--profile must be quick or full; got {profile!r}.")
    counts = chains.split(",")
    if not all(count.strip().isdigit() and int(count) > 0 for count in counts):
        raise ValueError(f"--chains takes positive numbers with commas, 10,100; got {chains!r}.")
    screen = Console(stderr=True) if as_json else console()
    written = out / "bench.csv", out / "bench.png"
    with files.folder_for(out):
        for file in written:  # refused before minutes of timing, not after
            files.check_writable(file, overwrite=True)
        cells, limits = benchmark.measure(profile, [int(c) for c in counts], screen)
        if as_json:
            print(json.dumps([cell._asdict() for cell in cells]))
        else:
            screen.print(benchmark.table(cells, limits))
        benchmark.save(out, cells, limits)
    screen.print(f"saved {written[0]} and {written[1]}")


@app.command()
def info(as_json: AsJson = False) -> None:
    """Show the versions, devices and kernels in use."""
    import platform

    import jax

    import hopscale as hs
    from hopscale import native

    rows = {
        "hopscale": hs.__version__,
        "Python": platform.python_version(),
        "JAX": jax.__version__,
        "device": ", ".join(str(d.device_kind) for d in jax.devices()),
    }
    for kernels in native.status():
        use = "kernels" if kernels.ready else "plain JAX"
        rows[f"on {kernels.platform}"] = f"{use} ({kernels.reason})"
    if as_json:
        print(json.dumps(rows))
        return
    for name, value in rows.items():
        print(f"{name:10} {value}")
