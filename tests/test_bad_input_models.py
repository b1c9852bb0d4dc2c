"""What graphs, clamped targets, swaps, sweeps and optimisation refuse, case by case."""

# Wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import hopscale as hs
from refusals import Refused, choices, counts, keys, kinds, numbers

P = np.full(6, 0.4)
TARGET = hs.Bernoulli(P)
FOUR = hs.LogDensity(lambda x: jnp.sum(x[:, 0]), (6,), num_states=4)
SETTINGS: dict[str, Any] = {"chains": 5, "warmup": 40, "draws": 60, "progress": False}


def sample(kernel, target=TARGET, **settings):
    return lambda: hs.sample(target, kernel, **{**SETTINGS, **settings})


def pairwise(couplings, *arguments, **settings):
    return lambda: hs.Pairwise(couplings, *arguments, **settings)


def potts(couplings, *arguments, **settings):
    return lambda: hs.Potts(couplings, *arguments, **settings)


def clamp(sites, values, target=TARGET):
    return lambda: hs.clamp(target, sites, values)


ASYMMETRIC = np.array([[0.0, 1.0], [2.0, 0.0]])

GRAPHS = {
    "text": Refused(pairwise("k3"), TypeError, "couplings must be .*got str"),
    "nothing": Refused(pairwise(None), TypeError, "couplings must be .*got NoneType"),
    "a number": Refused(pairwise(0.5), TypeError, "couplings must be .*got float"),
    "no pairs": Refused(pairwise([]), ValueError, "site"),
    "not square": Refused(pairwise(np.zeros((2, 4))), ValueError, r"square; got shape \(2, 4\)"),
    "rows of half a site": Refused(
        pairwise(np.array([[0.5, 1, 1], [1, 2, 1]])), TypeError, "sites are integers"
    ),
    "three rows of three": Refused(
        pairwise([[0, 1, 1.0], [1, 2, 1.0], [0, 2, 1.0]]), ValueError, "list of tuples"
    ),
    "two rows of two": Refused(pairwise([[0, 1], [1, 2]]), ValueError, "list of tuples"),
    "three axes": Refused(pairwise(np.zeros((2, 2, 2))), ValueError, "square"),
    "not symmetric": Refused(pairwise(ASYMMETRIC), ValueError, "symmetric"),
    "a diagonal": Refused(pairwise(np.eye(3)), ValueError, "coupled to itself"),
    "NaN": Refused(pairwise([(0, 1, np.nan)]), ValueError, "finite"),
    "infinity": Refused(pairwise(np.array([[0, np.inf], [np.inf, 0]])), ValueError, "finite"),
    "complex": Refused(pairwise([(0, 1, 1j)]), TypeError, "real numbers"),
    "booleans": Refused(pairwise(np.eye(3, dtype=bool)), TypeError, "real numbers"),
    "words as couplings": Refused(pairwise([(0, 1, "strong")]), TypeError, "real numbers"),
    "words as sites": Refused(pairwise([("a", "b", 1.0)]), TypeError, "sites are integers"),
    "half a site": Refused(pairwise([(0.5, 1, 1.0)]), TypeError, "sites are integers"),
    "site -1": Refused(pairwise([(-1, 1, 1.0)]), ValueError, r"sites from -1 to 1"),
    "pairs of two and three": Refused(
        pairwise([(0, 1), (1, 2, 0.5)]), ValueError, r"a pair is \(i, j, J\)"
    ),
    "a pair twice": Refused(pairwise([(0, 1, 1.0), (1, 0, 1.0)]), ValueError, "0.*1"),
    "lengths": Refused(
        pairwise((np.arange(2), np.arange(3), np.zeros(2))), ValueError, "of one length"
    ),
    "a short field": Refused(pairwise([(0, 3, 1.0)], np.zeros(2)), ValueError, r"0 \.\.\. 1"),
    "a field of text": Refused(pairwise([(0, 1, 1.0)], "up"), TypeError, "field must be"),
    "a field of NaN": Refused(pairwise([(0, 1, 1.0)], [np.nan, 0]), ValueError, "field .*finite"),
    "bits of 1": Refused(pairwise([(0, 1, 1.0)], bits=1), TypeError, "bits must be True or False"),
    "sparse, not square": Refused(
        pairwise(scipy.sparse.coo_array(np.zeros((2, 4)))), ValueError, "square"
    ),
    "Potts of text": Refused(potts("k3", 3), TypeError, "couplings must be"),
    "Potts of a diagonal": Refused(potts(np.eye(3), 3), ValueError, "itself|diagonal"),
    "Potts of another field": Refused(
        potts([(0, 1, 1.0)], 3, np.zeros(2)), ValueError, "num_states = 3"
    ),
    "Potts of a field of NaN": Refused(
        potts([(0, 1, 1.0)], 3, np.full(3, np.nan)), ValueError, "finite"
    ),
    "Potts of words": Refused(potts([("a", "b", 1.0)], 3), TypeError, "sites are integers"),
}

CLAMPED = {
    "no target": Refused(clamp([0], 1, P), TypeError, "hopscale target; got ndarray"),
    "no sites": Refused(clamp([], 1), ValueError, "some sites to clamp"),
    "all sites": Refused(clamp(np.ones(6, bool), 1), ValueError, "some to leave free"),
    "site 6": Refused(clamp([6], 1), ValueError, r"0 \.\.\. 5"),
    "site -1": Refused(clamp([-1], 1), ValueError, r"0 \.\.\. 5"),
    "a site twice": Refused(clamp([0, 0], 1), ValueError, "named twice"),
    "half a site": Refused(clamp([0.5], 1), TypeError, "numbers of sites"),
    "words": Refused(clamp("first", 1), TypeError, "numbers of sites"),
    "a mask of five": Refused(clamp(np.zeros(5, bool), 1), ValueError, r"\(6,\); got \(5,\)"),
    "value 2": Refused(clamp([0], 2), ValueError, r"0 \.\.\. 1; got"),
    "value -1": Refused(clamp([0], -1), ValueError, "Spins"),
    "value 0.5": Refused(clamp([0], 0.5), TypeError, "astype"),
    "value None": Refused(clamp([0], None), TypeError, "values must be integers"),
    "two values of one": Refused(clamp([0], [0, 1]), ValueError, "one for each of 1"),
}

KERNELS = {
    "no number of ones": Refused(sample(hs.Swap()), ValueError, r"hs.Swap\(ones=k\)"),
    "seven ones of six": Refused(sample(hs.Swap(ones=7)), ValueError, "between 0 and"),
    "minus one": Refused(lambda: hs.sample(TARGET, hs.Swap(ones=-1)), ValueError, "ones must"),
    "half a one": Refused(lambda: hs.Swap(ones=0.5), ValueError, "ones must"),
    "ones in words": Refused(lambda: hs.Swap(ones="two"), ValueError, "ones must"),
    "ones True": Refused(lambda: hs.Swap(ones=True), ValueError, "ones must"),
    "two ones for one group": Refused(lambda: hs.Swap(ones=[1, 2]), ValueError, "ones must"),
    "five labels of six": Refused(
        sample(hs.Swap(np.zeros(5, int), 1)), ValueError, "each of 6 sites; got 5"
    ),
    "labels of halves": Refused(lambda: hs.Swap([0.5, 1.5]), TypeError, "groups must"),
    "categories": Refused(sample(hs.Swap(ones=1), FOUR), TypeError, "4 values a site"),
    "other starts": Refused(
        sample(hs.Swap(ones=2), init=np.ones(6, int)), ValueError, r"start with \[2\] ones"
    ),
    "nothing to swap": Refused(
        sample(hs.Swap(), init=np.zeros(6, int)), ValueError, "nothing to swap"
    ),
    "coloured sweeps of no graph": Refused(
        sample(hs.Gibbs(order="coloured"), hs.LogDensity(jnp.sum, (6,))), TypeError, "colour"
    ),
    "a scale of sweeps": Refused(
        sample(hs.Gibbs(), scale=hs.Fixed(1)), ValueError, "no scale to tune or fix"
    ),
    "no kernels": Refused(lambda: hs.compare(TARGET, kernels=[]), ValueError, "got none"),
    "tempered tempering": Refused(
        lambda: hs.Tempering(kernel=hs.Tempering(kernel=hs.LBP())), ValueError, "tempered already"
    ),
    "tempering alone": Refused(sample(hs.Tempering()), ValueError, "needs a kernel"),
    "tempered swaps": Refused(
        sample(hs.Swap(ones=2), temper=hs.Tempering()), TypeError, "leave temper out"
    ),
    "betas that fall": Refused(
        lambda: hs.optimize(TARGET, betas=(2.0, 1.0)), ValueError, "0 < first <= last"
    ),
    "a beta of 0": Refused(lambda: hs.optimize(TARGET, betas=(0, 1)), ValueError, "0 < first"),
    "one beta": Refused(lambda: hs.optimize(TARGET, betas=1.0), (TypeError, ValueError), "betas"),
    "betas in words": Refused(
        lambda: hs.optimize(TARGET, betas="ab"), (TypeError, ValueError), "betas"
    ),
}

CASES = {
    **{f"graph: {name}": case for name, case in GRAPHS.items()},
    **{f"clamp: {name}": case for name, case in CLAMPED.items()},
    **{f"kernel: {name}": case for name, case in KERNELS.items()},
    **dict(
        counts(
            {
                "Gibbs sweeps": (lambda n: hs.Gibbs(sweeps=n), 1),
                "optimize chains": (lambda n: hs.optimize(TARGET, chains=n), 1),
                "compare chains": (lambda n: hs.compare(TARGET, 1.0, chains=n), 1),
                "Tempering levels": (lambda n: hs.Tempering(n), 2),
            }
        )
    ),
    **dict(
        numbers(
            {
                "optimize seconds": (lambda v: hs.optimize(TARGET, v), (0.0, -1.0)),
                "compare seconds": (lambda v: hs.compare(TARGET, v), (0.0, -1.0)),
            }
        )
    ),
    **dict(
        choices(
            {
                "Gibbs order": (lambda v: hs.Gibbs(order=v), "coloured"),
                "Gibbs rule": (lambda v: hs.Gibbs(rule=v), "metropolis"),
                "Tempering reference": (lambda v: hs.Tempering(reference=v), "uniform"),
                "Swap lengths": (lambda v: hs.Swap(ones=1, lengths=v), "mixed"),
            }
        )
    ),
    **dict(
        keys(
            {
                "optimize key": lambda key: hs.optimize(TARGET, key=key),
                "compare key": lambda key: hs.compare(TARGET, 1.0, key=key),
            }
        )
    ),
    **dict(
        kinds(
            {
                "sample temper": (
                    lambda v: hs.sample(TARGET, temper=v),
                    "hs.Tempering()",
                    (hs.Tempering, True, hs.LBP()),
                ),
                "compare target": (hs.compare, "hs.Bernoulli(p)", (None, jnp.sum)),
                "compare kernels": (
                    lambda v: hs.compare(TARGET, kernels=v),
                    "[hs.LBP(), hs.Gibbs()]",
                    ([hs.LBP], [3], hs.LBP(), [hs.LBP(), "rwm"]),
                ),
                "optimize target": (hs.optimize, "hs.Pairwise(couplings)", (None, jnp.sum)),
                "optimize kernel": (
                    lambda v: hs.optimize(TARGET, kernel=v),
                    "hs.LBP()",
                    (hs.LBP, hs.Fixed(1)),
                ),
            }
        )
    ),
}


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize("name", CASES)
def test_what_cannot_work_is_refused(name, monkeypatch):
    for function in ("runs.sampling.start", "runs.sampling.advance", "engine.loop.scan"):
        monkeypatch.setattr(f"hopscale.{function}", None)  # nothing is compiled
    CASES[name].check()


def test_ctrl_c_stops_a_comparison(monkeypatch):
    from hopscale.runs import comparison

    monkeypatch.setattr(comparison.host, "drive", lambda *_, **__: "interrupted")
    monkeypatch.setattr(comparison.Plan, "begin", lambda plan: plan)
    with pytest.raises(hs.Interrupted, match=r"after 0 of 6 kernels$"):
        hs.compare(TARGET, 0.1)
