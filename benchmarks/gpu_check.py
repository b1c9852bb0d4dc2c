"""Whether the GPU kernels agree with `reference`: PASS or FAIL for each case.

Run: python benchmarks/gpu_check.py [k/n] [word]

With k/n, it runs every n-th case from the k-th on, so that n processes can compile side by side.
With a word, such as sweeps or network, it runs only cases that have it in their name.
"""

import sys
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gpu import attempt, begin, case, chains_of, say, shared
from pairwise import max_cut, spin_glass

import hopscale as hs
from hopscale import native
from hopscale.learn import ResNet
from hopscale.native import gpu, reference
from hopscale.native.cuda import residual

ONE = jnp.float32(1.0)  # sweeps have no scale


def near(a, b) -> bool:
    a, b = np.asarray(a, float), np.asarray(b, float)
    return bool(np.all(np.abs(a - b) <= 2e-4 + 2e-5 * np.abs(b)))


def same_choice(ours, theirs, lengths) -> bool:
    """Whether both choices are the same, except for ties within rounding.

    Among thousands of draws from thousands of columns there are some ties. Then one site is chosen
    for another, and everything is different in the rounds after it. So for long paths, the first
    quarter is compared, as a set.
    """
    most = max(lengths)
    if most <= 1000:
        return float(np.mean(np.all(np.asarray(ours == theirs)[:, :most], axis=1))) >= 0.9
    first = most // 4
    sets = [[set(row[:first].tolist()) for row in np.asarray(sites)] for sites in (ours, theirs)]
    return all(len(a & b) >= 0.99 * first for a, b in zip(*sets, strict=True))


def check(chains: int, n: int, length: int, balance) -> None:
    keys, x, lengths = case(chains, n, length)
    sites, chosen, p = chains_of(gpu.race, balance=balance)(keys, x, lengths)
    theirs = chains_of(reference.race, balance=balance)(keys, x, lengths)
    path = x, sites, chosen, lengths
    # A draw that ties within rounding changes everything after it.
    results = {"sites": same_choice(sites, theirs[0], lengths.tolist())}
    in_order = jnp.arange(n)[None, :] < lengths[:, None]
    results["flags"] = bool(jnp.all(jax.vmap(reference.flags)(sites, lengths) == chosen))
    results["all different"] = bool(jnp.all(jnp.sum(chosen, axis=1) == lengths))
    for back in (False, True):
        settings = {"balance": balance, "backwards": back}
        expected = chains_of(reference.order_log_prob, **settings)(*path)
        results[f"back={back}"] = near(chains_of(gpu.order_log_prob, **settings)(*path), expected)
        if not back:
            results["log_prob"] = near(p, expected)
    sites, chosen = chains_of(gpu.uniform, n=n)(keys, lengths)
    expected, flags = chains_of(reference.uniform, n=n)(keys, lengths)
    results["uniform"] = bool(jnp.all((sites == expected)[:, :length]) & jnp.all(chosen == flags))
    sites, chosen, p = chains_of(gpu.repeated, balance=balance)(keys, x, lengths)
    theirs = chains_of(reference.repeated, balance=balance)(keys, x, lengths)
    results["repeated"] = float(jnp.mean((sites == theirs[0])[in_order])) >= 0.99
    scored = chains_of(reference.repeated_log_prob, balance=balance)(x, sites, lengths)
    results["its log_prob"] = near(p, scored)
    odd = chains_of(gpu.odd)(sites, lengths)
    results["odd"] = bool(jnp.all(odd == jax.vmap(reference.odd)(sites, lengths)))
    wrong = [name for name, right in results.items() if not right]
    say(f"check {chains}x{n} R={length} {balance}: {'FAIL ' + str(wrong) if wrong else 'PASS'}")


def check_values(chains: int, n: int, length: int, values: int) -> None:
    """Sites with several values: the sites, the values drawn, and the log-probability of both."""
    keys, x, lengths = case(chains, n * values, length)
    ratios, settings = x.reshape(chains, n, values), {"balance": "barker"}
    here = jax.random.randint(jax.random.key(2), (chains, n), 0, values).astype(jnp.int8)
    sites, chosen, drawn, p = chains_of(gpu.race_values, **settings)(keys, ratios, here, lengths)
    totals = chains_of(reference.value_totals, **settings)(ratios, here)
    theirs = chains_of(reference.race, balance=None)(keys, totals, lengths)
    given = keys, ratios, here, sites, lengths
    also = chains_of(reference.draw_values, **settings)(*given)
    order = chains_of(reference.order_log_prob, balance=None, backwards=False)
    of_values = chains_of(reference.values_log_prob, **settings)
    expected = order(totals, sites, chosen, lengths) + of_values(
        ratios, here, totals, drawn, chosen
    )
    results = {
        "sites": same_choice(sites, theirs[0], lengths.tolist()),
        "values": float(jnp.mean((drawn == also)[chosen])) >= 0.999,
        "log_prob": near(p, expected),
    }
    wrong = [name for name, right in results.items() if not right]
    say(f"check {chains}x{n} R={length} K={values}: {'FAIL ' + str(wrong) if wrong else 'PASS'}")


def check_extremes(balance, offset: float) -> None:
    """Weights that underflow or overflow in the unit 1; sites without weight; and NaN."""
    keys, x, _ = case(3, 1000, 1)
    x, lengths = (15.0 * x + offset).at[:, :5].set(-jnp.inf), jnp.asarray([400, 40, 0], jnp.int32)
    sites, chosen, p = chains_of(gpu.race, balance=balance)(keys, x, lengths)
    settings = {"balance": balance, "backwards": False}
    expected = chains_of(reference.order_log_prob, **settings)(x, sites, chosen, lengths)
    spoilt = chains_of(gpu.race, balance=balance)(keys, x.at[:, 7].set(jnp.nan), lengths)
    results = {
        "all different": bool(jnp.all(jnp.sum(chosen, axis=1) == lengths)),
        "log_prob": bool(jnp.all(jnp.abs(p - expected) <= 1e-3 * (1.0 + jnp.abs(expected)))),
        "none without weight": balance == "max" or not bool(jnp.any(chosen[:, :5])),
        "NaN": bool(jnp.all(jnp.isnan(spoilt[2][:2]))),
    }
    wrong = [name for name, right in results.items() if not right]
    say(f"check extremes {offset:g} {balance}: {'FAIL ' + str(wrong) if wrong else 'PASS'}")


def check_sweeps(target: hs.Pairwise | hs.Potts, chains: int) -> None:
    """Sweeps by kernels and by plain JAX, from the same keys.

    A random number that ties with a probability within rounding changes what follows it, so some
    sites of some chains may differ.
    """
    x = jax.random.randint(jax.random.key(3), (chains, *target.shape), 0, target.num_states)
    keys, x = jax.random.split(jax.random.key(4), chains), x.astype(target.state_dtype)
    found = []
    for implementation in ("auto", "reference"):
        kernel = hs.Gibbs(rule="metropolis", sweeps=3, implementation=implementation)
        state = jax.vmap(partial(kernel.init, target))(x)
        step = jax.jit(jax.vmap(lambda k, s, kernel=kernel: kernel.step(k, target, s, ONE)[0]))
        found.append(step(keys, state))
    ours, theirs = found
    alike = np.all(np.asarray(ours.x == theirs.x).reshape(chains, -1), axis=1)
    results = {
        "states": float(np.mean(ours.x == theirs.x)) >= 0.999,
        "log_prob": near(ours.log_prob[alike], theirs.log_prob[alike]),
        "moved": bool(np.any(ours.x != x)),
    }
    wrong = [name for name, right in results.items() if not right]
    name = f"{type(target).__name__} {chains}x{target.num_sites}"
    say(f"check sweeps {name}: {'FAIL ' + str(wrong) if wrong else 'PASS'}")


def check_network(height: int, width: int) -> None:
    """A residual network's energies and gradients by kernels and XLA, against full precision."""
    x = jax.random.bernoulli(jax.random.key(2), 0.3, (100, height, width)).astype(jnp.float32)

    def network(precision: str) -> ResNet:
        start = ResNet(64, 1, precision, "uniform")
        return jax.tree.map(lambda a: 2.0 * a, start)  # else all images have the same energy

    kernels = jax.jit(jax.vmap(network("bfloat16").value_and_slope))(x)
    by_xla = jax.jit(jax.vmap(jax.value_and_grad(network("bfloat16"))))(x)
    truth = jax.jit(jax.vmap(jax.value_and_grad(network("highest"))))(x)
    errors = [
        [float(jnp.linalg.norm(found[k] - truth[k]) / jnp.linalg.norm(truth[k])) for k in (0, 1)]
        for found in (kernels, by_xla)
    ]
    wrong = [name for name, k in (("energies", 0), ("gradients", 1))
             if not errors[0][k] <= 2.0 * errors[1][k] + 1e-6]  # fmt: skip
    wrong += [] if native.has_cuda() and residual.loads(height, width) else ["no kernel"]
    wrong += [] if same_in_one_program(network("bfloat16"), x[:33]) else ["models side by side"]
    shown = ", ".join(f"{e:.1e} and {g:.1e}" for e, g in errors)
    outcome = f"FAIL {wrong}" if wrong else "PASS"
    say(f"check network {height}x{width}: {outcome} {shown} by XLA")


def same_in_one_program(net: ResNet, x) -> bool:
    """Whether models in one program find what each finds by itself, but for rounding.

    Models differ in all weights, or in the last bias alone; images are the same for all models,
    in one or two axes around them, or one for each.
    """
    factors = jnp.asarray([1.0, 0.9, 1.1])
    all_of = lambda factor: jax.tree.map(lambda a: factor * a, net)  # noqa: E731
    bias = lambda factor: eqx.tree_at(lambda n: n.leave.bias, net, factor)  # noqa: E731
    errors = []
    for model in (all_of, bias):
        one = lambda factor, image, model=model: model(factor).value_and_slope(image)  # noqa: E731
        images = jax.vmap(one, (None, 0))
        models = jax.vmap(images, (0, None))
        batches = jax.vmap(models, (None, 0))
        alone = jax.jit(lambda x, images=images: [images(factor, x) for factor in factors])(x)
        alone = [jnp.stack(parts) for parts in zip(*alone, strict=True)]
        pairs = [(jax.jit(models)(factors, x), alone)]
        halves = jnp.stack([x, x[::-1]])
        pairs += [(jax.jit(batches)(factors, halves), [jnp.stack([a, a[:, ::-1]]) for a in alone])]
        each = jax.jit(jax.vmap(one))(factors, x[:3])
        pairs += [(each, [jnp.stack([a[i, i] for i in range(3)]) for a in alone])]
        for found, expected in pairs:
            errors += [
                float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))
                for a, b in zip(found, expected, strict=True)
            ]
    say("models side by side:", *(f"{error:.1e}" for error in errors))
    return all(error < 0.02 for error in errors)


def checks():
    """What to check, as functions without arguments, by name."""
    for chains, n, length in [
        (3, 1, 1), (3, 7, 7), (10, 100, 20), (10, 1000, 100), (100, 10_000, 464),
        (4, 10_000, 10_000), (4, 16_384, 645), (3, 4097, 2), (4, 65_536, 1625),
        (3, 200_000, 3400), (2, 200_000, 150_000),
    ]:  # fmt: skip
        for balance in ("barker", None) if n != 1000 else ("barker", None, "sqrt", "min", "max"):
            yield f"{n} {length}", partial(check, chains, n, length, balance)
    for chains, n, length, values in [(4, 7, 7, 3), (100, 2500, 166, 8), (4, 300, 300, 5)]:
        yield f"{n} {length} {values}", partial(check_values, chains, n, length, values)
    for balance, offset in [("barker", -400), ("sqrt", 400), (None, 0), ("max", -400)]:
        yield f"extremes {balance}", partial(check_extremes, balance, float(offset))
    for side, chains in [(3, 2), (64, 100), (64, 1024), (1000, 2)]:
        for target in (spin_glass(side), hs.Potts.lattice((side, side), 5, 0.9)):
            yield f"sweeps {side} {chains}", partial(check_sweeps, target, chains)
    for side in ((28, 28), (13, 22), (8, 8)):
        yield f"network {side}", partial(check_network, *side)
    for chains in (5, 1024):
        yield f"sweeps like G1 {chains}", partial(check_sweeps, max_cut(None)[1], chains)


def main(share: str = "0/1", word: str = "") -> None:
    begin()
    for name, function in shared((c for c in checks() if word in c[0]), share):
        attempt(f"check {name}", function)


if __name__ == "__main__":
    main(*sys.argv[1:])
