"""The initial weights of a deep EBM, and the errors of its first-order log-ratios in training.

Run: python benchmarks/ebm_start.py --work FOLDER [--channels 16 --iterations 3000 --looks 6
         --seeds 0,1,2 --starts he,uniform --precision highest,default,bfloat16 --out FILE]
     python benchmarks/ebm_start.py --draw FILE --out ebm-start.png

For each initialisation (start) and precision, a ResNet is trained on the embedded digits. At a few
points of training (looks) and at states of the replay buffer, the log-ratios of all single flips to
first order, in the precision of training, are compared with the exact ones in single precision. The
effect of rounding alone on both is measured too. The output is one JSON object per line.
"""

import argparse
import itertools
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hopscale as hs
from hopscale.learn import EBM, PCD, TrainingError, networks, train_ebm


def with_precision(model: EBM, network: str, channels: int, precision: str) -> EBM:
    """The same weights with convolutions of another precision."""
    other = networks.by_name(network, model.shape, channels, 0, precision)
    arrays, rest = eqx.partition(other, eqx.is_array)
    leaves = jax.tree.leaves(eqx.filter(model.network, eqx.is_array))
    filled = jax.tree.unflatten(jax.tree.structure(arrays), leaves)
    return EBM(eqx.combine(filled, rest), model.base)


@eqx.filter_jit
def exact_ratios(model: EBM, x):
    """The log-ratios of all single flips of one state, by evaluating each."""
    flips = jnp.eye(model.num_sites, dtype=x.dtype).reshape(-1, *model.shape)
    there = jax.lax.map(model.log_prob, x[None] ^ flips, batch_size=256)
    return there - model.log_prob(x)


@eqx.filter_jit
def first_ratios(model: EBM, x):
    return model.log_ratios(x).reshape(-1)


def ratio_errors(model: EBM, precise: EBM, states) -> dict[str, float]:
    """Errors of log-ratios, averaged over flips by the weights that sqrt(t) gives them."""
    columns = {"correlation": [], "first_order": [], "rounding_first": [], "rounding_exact": []}
    for x in jnp.asarray(states):
        exact, first = exact_ratios(precise, x), first_ratios(precise, x)
        used, rounded = first_ratios(model, x), exact_ratios(model, x)
        weights = jax.nn.softmax(used / 2)
        mean = lambda error, weights=weights: float(jnp.sum(weights * jnp.abs(error)))  # noqa: E731
        columns["correlation"].append(float(np.corrcoef(exact, used)[0, 1]))
        columns["first_order"].append(mean(first - exact))
        columns["rounding_first"].append(mean(used - first))
        columns["rounding_exact"].append(mean(rounded - exact))
    return {name: float(np.mean(values)) for name, values in columns.items()}


def learn(options, data, start: str, precision: str, seed: int):
    """Train a model; yield a result for each look."""
    network = networks.ResNet(options.channels, seed, precision, start)
    model = EBM(network, hs.learn.base_of(data))
    settings = PCD(
        steps=options.steps,
        batch=options.batch,
        rate=options.rate,
        warmup=options.warmup,
        buffer=options.buffer,
    )
    about = {"start": start, "precision": precision, "seed": seed, "channels": options.channels}
    folder = options.work / f"{start}-{precision}-{seed}"
    for look in range(1, options.looks + 1):
        iterations = options.iterations * look // options.looks
        try:
            trained = train_ebm(
                model,
                data,
                iterations=iterations,
                settings=settings,
                key=seed,
                directory=folder,
                resume=look > 1,
                progress=False,
            )
        except TrainingError as error:
            yield {**about, "iteration": error.iteration, "reason": error.reason}
            return
        last = {name: float(np.mean(v[-200:])) for name, v in trained.history.items()}
        precise = with_precision(trained.last, "resnet", options.channels, "highest")
        errors = ratio_errors(trained.last, precise, trained.samples[: options.states])
        crises = [list(crisis) for crisis in trained.crises]
        yield {**about, "iteration": iterations, **last, **errors, "crises": crises}


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in (
        ("channels", 16), ("iterations", 3_000), ("looks", 6), ("steps", 10), ("buffer", 1_000),
        ("warmup", 1_000), ("states", 10), ("batch", 100),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--starts", default="he,uniform")
    parser.add_argument("--precision", default="highest,default,bfloat16")
    parser.add_argument("--work", type=Path, help="a folder for checkpoints")
    parser.add_argument("--draw", type=Path, help="a figure of these results instead")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


PANELS = {
    "scale": "R",
    "first_order": "error of first-order log-ratios, nats",
    "rounding_first": "of that, rounding, nats",
    "rounding_exact": "rounding of exact log-ratios, nats",
}
STYLES = {"highest": "-", "default": "--", "bfloat16": ":"}
COLORS = {"he": "#d55e00", "uniform": "#0072b2"}


def draw(source: Path, file: Path) -> None:
    """Means over seeds against iterations, and their range."""
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in source.read_text().splitlines()]
    rows = [row for row in rows if "scale" in row]
    figure = Figure(figsize=(11, 3), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
        for start, precision in sorted({(row["start"], row["precision"]) for row in rows}):
            own = [r for r in rows if (r["start"], r["precision"]) == (start, precision)]
            at = sorted({row["iteration"] for row in own})
            values = [[row[name] for row in own if row["iteration"] == i] for i in at]
            low, high = [min(v) for v in values], [max(v) for v in values]
            if name == "rounding_first" and precision == "highest":
                continue  # it is zero
            label = f"{start}, {precision}"
            mean = [float(np.mean(v)) for v in values]
            axis.plot(at, mean, STYLES[precision], color=COLORS[start], label=label)
            axis.fill_between(at, low, high, color=COLORS[start], alpha=0.08, linewidth=0)
        axis.set(title=title, xlabel="iterations", yscale="log")
        axis.title.set_fontsize(9)
    axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(file, dpi=150)


def main() -> None:
    options = arguments()
    if options.draw:
        draw(options.draw, options.out)
        return
    data = hs.data.load("digits").train
    lines = []
    names = (options.seeds, options.starts, options.precision)
    for seed, start, precision in itertools.product(*(text.split(",") for text in names)):
        for result in learn(options, data, start, precision, int(seed)):
            lines.append(json.dumps(result))
            print(lines[-1], flush=True)
            if options.out:
                options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
