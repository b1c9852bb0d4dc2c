"""How the weights of a deep EBM start, and how good its first-order log-ratios are as it learns.

Run: python benchmarks/ebm_start.py [--channels 16 --iterations 3000 --looks 3 --seeds 0
                                     --starts he,uniform --precision highest,bfloat16 --out FILE]

For each start and precision a ResNet learns the embedded digits. At a few looks on the way, at
states of the replay buffer: the log-ratios of all single flips to first order, in the precision of
training, against the exact ones in single precision; and what rounding alone does to either.
One JSON object a line.
"""

import argparse
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
    """Of all single flips of one state, by evaluating each."""
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
    """A line for each look at a model that learns."""
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
        ("channels", 16), ("iterations", 3_000), ("looks", 3), ("steps", 10), ("buffer", 1_000),
        ("warmup", 1_000), ("states", 10), ("batch", 100),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--starts", default="he,uniform")
    parser.add_argument("--precision", default="highest,bfloat16")
    parser.add_argument("--work", type=Path, required=True, help="a folder for checkpoints")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    data = hs.data.load("digits").train
    lines = []
    for start in options.starts.split(","):
        for precision in options.precision.split(","):
            for seed in map(int, options.seeds.split(",")):
                for result in learn(options, data, start, precision, seed):
                    lines.append(json.dumps(result))
                    print(lines[-1], flush=True)
                    if options.out:
                        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
