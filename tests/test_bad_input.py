"""Arguments that cannot work are refused in words, before anything is compiled.

Generated: each argument of a kind is given everything that is not of that kind.
"""

# Wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp
import numpy as np
import pytest

import hopscale as hs
from hopscale import check, learn, paper, theory
from hopscale.learn import pictures
from refusals import arrays, choices, counts, keys, kinds, not_bits, numbers

P = np.full(6, 0.4)
TARGET = hs.Bernoulli(P)
RBM = hs.RBM(np.zeros((3, 6)), np.zeros(6), np.zeros(3))
BITS = np.zeros((9, 6), np.int8)
DATA = hs.data.DataSet("none", BITS, BITS, BITS)
MODEL = learn.EBM(learn.MLP((6,), 2), P)
LOG_Z = learn.LogZ(0.0, 0.1, 9.0, P, P, 0.5, 1.0, BITS, 1.0, 0.5)


def sample(**settings):
    return hs.sample(TARGET, progress=False, **settings)


def many(**settings):
    return hs.sample_many(TARGET, keys=[0, 1], progress=False, **settings)


def train(**settings):
    return learn.train_ebm(MODEL, BITS, progress=False, **settings)


COUNTS = {
    "sample chains": (lambda n: sample(chains=n), 1),
    "sample warmup": (lambda n: sample(warmup=n), 0),
    "sample draws": (lambda n: sample(draws=n), 1),
    "sample chunk": (lambda n: sample(chunk=n), 1),
    "sample_many chains": (lambda n: many(chains=n), 1),
    "sample_many draws": (lambda n: many(draws=n), 1),
    "sample_many chunk": (lambda n: many(chunk=n), 1),
    "BlockGibbs pairs": (lambda n: hs.BlockGibbs(n), 1),
    "gibbs steps": (lambda n: RBM.gibbs(0, BITS, n), 0),
    "invariance draws": (lambda n: check.invariance(TARGET, hs.LBP(), draws=n), 1000),
    "invariance steps": (lambda n: check.invariance(TARGET, hs.LBP(), steps=n), 1),
    "paper.bernoulli size": (lambda n: paper.bernoulli(n), 1),
    "paper.ising size": (lambda n: paper.ising(n), 1),
    "paper.fhmm size": (lambda n: paper.fhmm(n), 1),
    "paper.fhmm factors": (lambda n: paper.fhmm(9, factors=n), 1),
    "paper.identical size": (lambda n: paper.identical(n, 0.5), 1),
    "paper.nearly_fair size": (lambda n: paper.nearly_fair(n, 0.5), 1),
    "PCD steps": (lambda n: learn.PCD(steps=n), 1),
    "PCD batch": (lambda n: learn.PCD(batch=n), 1),
    "PCD buffer": (lambda n: learn.PCD(buffer=n), 1),
    "PCD warmup": (lambda n: learn.PCD(warmup=n), 0),
    "train_ebm iterations": (lambda n: train(iterations=n), 1),
    "train_ebm every": (lambda n: train(every=n), 1),
    "train_ebm chunk": (lambda n: train(chunk=n), 1),
    "log_z chains": (lambda n: hs.log_z(TARGET, chains=n), 2),
    "log_z repeats": (lambda n: hs.log_z(TARGET, repeats=n), 1),
    "log_likelihood batch": (lambda n: learn.log_likelihood(TARGET, BITS, LOG_Z, n), 1),
    "RBMRecipe hidden": (lambda n: learn.RBMRecipe(hidden=n), 1),
    "RBMRecipe cd": (lambda n: learn.RBMRecipe(cd=n), 1),
    "RBMRecipe batch": (lambda n: learn.RBMRecipe(batch=n), 1),
    "train_rbm epochs": (lambda n: learn.train_rbm(DATA, epochs=n), 1),
    "MLP channels": (lambda n: learn.MLP((2, 2), n), 1),
    "MLP depth": (lambda n: learn.MLP((2, 2), 4, depth=n), 1),
    "CNN channels": (lambda n: learn.CNN(n), 1),
    "ResNet channels": (lambda n: learn.ResNet(n), 1),
    "pictures.grid columns": (lambda n: pictures.grid(np.zeros((2, 2, 2)), n), 1),
    "pictures.filters number": (lambda n: pictures.filters(RBM, n), 1),
}

NUMBERS = {
    "Tuned rate": (lambda v: hs.Tuned(v), (0.0, 1.0, -1.0, 2.0)),
    "Tuned site_cost": (lambda v: hs.Tuned(site_cost=v), (-1.0, float("inf"))),
    "Adaptive rate": (lambda v: hs.Adaptive(v), (0.0, 1.0, -1.0, 2.0)),
    "FHMM bias": (lambda v: hs.FHMM(P, P, v, 1.0), (float("inf"),)),
    "FHMM sigma": (lambda v: hs.FHMM(P, P, 0.0, v), (0.0, -1.0, float("inf"))),
    "FHMM stay": (lambda v: hs.FHMM(P, P, 0.0, 1.0, stay=v), (0.0, 1.0, 2.0)),
    "FHMM first": (lambda v: hs.FHMM(P, P, 0.0, 1.0, first=v), (0.0, 1.0, -1.0)),
    "paper.identical p": (lambda v: paper.identical(4, v), (0.0, 1.0, 2.0)),
    "paper.nearly_fair beta": (lambda v: paper.nearly_fair(4, v), (-1.0, float("inf"))),
    "paper.nearly_fair epsilon": (lambda v: paper.nearly_fair(4, 0.1, epsilon=v), (0.0, 0.3)),
    "invariance false_alarm": (
        lambda v: check.invariance(TARGET, hs.LBP(), false_alarm=v),
        (0.0, 1.0, -1.0),
    ),
    "PCD rate": (lambda v: learn.PCD(rate=v), (0.0, -1.0, 2.0)),
    "PCD restart": (lambda v: learn.PCD(restart=v), (-0.1, 1.1)),
    "PCD clip": (lambda v: learn.PCD(clip=v), (-1.0,)),
    "PCD penalty": (lambda v: learn.PCD(penalty=v), (-1.0, float("inf"))),
    "PCD weight_decay": (lambda v: learn.PCD(weight_decay=v), (-1.0, 1.5)),
    "PCD average": (lambda v: learn.PCD(average=v), (-0.1, 1.0)),
    "PCD limit": (lambda v: learn.PCD(limit=v), (0.0, -1.0)),
    "RBMRecipe rate": (lambda v: learn.RBMRecipe(rate=v), (0.0, -1.0, float("inf"))),
    "base_of margin": (lambda v: learn.base_of(BITS, v), (0.0, 0.5, 1.0)),
    "log_z resample": (lambda v: hs.log_z(TARGET, resample=v), (-0.1, 1.1)),
    "theory.lambda_2 beta": (lambda v: theory.lambda_2(P, v), (float("inf"),)),
}

CHOICES = {
    "LBP path": (lambda v: hs.LBP(path=v), "reversed"),
    "LBP lengths": (lambda v: hs.LBP(lengths=v), "mixed"),
    "LBP implementation": (lambda v: hs.LBP(implementation=v), "reference"),
    "GWG repeats": (lambda v: hs.GWG(repeats=v), "parity"),
    "LBP balance": (lambda v: hs.LBP(v), "barker"),
    "Bernoulli ratios": (lambda v: hs.Bernoulli(P, ratios=v), "exact"),
    "Ising ratios": (lambda v: hs.Ising(P, 0.1, ratios=v), "exact"),
    "FHMM ratios": (lambda v: hs.FHMM(P, P, 0.0, 1.0, ratios=v), "exact"),
    "FHMM axis": (lambda v: hs.FHMM(P, P, 0.0, 1.0, axis=v), "time"),
    "RBM ratios": (lambda v: hs.RBM(np.zeros((3, 6)), P, np.zeros(3), v), "gradient"),
    "LogDensity ratios": (lambda v: hs.LogDensity(jnp.sum, 3, ratios=v), "gradient"),
    "paper.ising config": (lambda v: paper.ising(4, v), "C1"),
    "paper.ising sign": (lambda v: paper.ising(4, sign=v), "+"),
    "paper.ising disc": (lambda v: paper.ising(4, disc=v), "half"),
    "paper.bernoulli spacing": (lambda v: paper.bernoulli(4, spacing=v), "even"),
    "paper.fhmm variant": (lambda v: paper.fhmm(4, variant=v), "table"),
    "paper.rbm ratios": (lambda v: paper.rbm(100, v), "gradient"),
    "theory.lambda_1 path": (lambda v: theory.lambda_1(P, path=v), "reversed"),
    "theory.optimum sampler": (lambda v: theory.acceptance(2, P, v), "lbp"),
    "CNN precision": (lambda v: learn.CNN(4, 0, v), "bfloat16"),
    "data.images split": (lambda v: DATA.images(v), "valid"),
    "data.load data": (lambda v: hs.data.load(v), "digits"),
}

ARRAYS = {
    "Bernoulli p": hs.Bernoulli,
    "Ising field": lambda v: hs.Ising(v, 0.1),
    "Ising coupling": lambda v: hs.Ising(np.zeros(3), (v,)),
    "FHMM observations": lambda v: hs.FHMM(v, P, 0.0, 1.0),
    "FHMM weights": lambda v: hs.FHMM(P, v, 0.0, 1.0),
    "RBM weights": lambda v: hs.RBM(v, P, P),
    "RBM visible_bias": lambda v: hs.RBM(np.zeros((3, 2)), v, np.zeros(3)),
    "RBM hidden_bias": lambda v: hs.RBM(np.zeros((2, 3)), np.zeros(3), v),
    "EBM p": lambda v: learn.EBM(jnp.sum, v),
    "Tempered beta": lambda v: hs.Tempered(TARGET, TARGET, v),
}

DATA_OF_BITS = {
    "base_of data": (learn.base_of, (9, 6)),
    "train_ebm data": (lambda v: learn.train_ebm(MODEL, v), (9, 6)),
    "log_likelihood data": (lambda v: learn.log_likelihood(TARGET, v, LOG_Z), (9, 6)),
    "DataSet train": (lambda v: hs.data.DataSet("none", v, BITS, BITS), (9, 6)),
    "DataSet valid": (lambda v: hs.data.DataSet("none", BITS, v, BITS), (9, 6)),
    "DataSet test": (lambda v: hs.data.DataSet("none", BITS, BITS, v), (9, 6)),
    "gibbs x": (lambda v: RBM.gibbs(0, v), (6,)),
}

KEYS = {
    "sample key": lambda key: sample(key=key),
    "sample_many key": lambda key: hs.sample_many(TARGET, keys=[0, key]),
    "log_z key": lambda key: hs.log_z(TARGET, key=key),
    "train_ebm key": lambda key: train(key=key),
    "RBMRecipe key": lambda key: learn.RBMRecipe(seed=key),
    "MLP key": lambda key: learn.MLP((2, 2), 4, key),
    "gibbs key": lambda key: RBM.gibbs(key, BITS),
    "invariance key": lambda key: check.invariance(TARGET, hs.LBP(), key=key),
    "paper.ising key": lambda key: paper.ising(4, key=key),
}

KINDS = {
    "sample target": (hs.sample, "hs.LogDensity(fn, shape)", (None, jnp.sum, P, hs.Bernoulli)),
    "sample kernel": (lambda v: hs.sample(TARGET, v), "hs.LBP()", (hs.LBP, TARGET, jnp.sum)),
    "sample scale": (lambda v: sample(scale=v), "hs.Fixed(R)", (hs.Fixed, 2.5)),
    "log_z kernel": (lambda v: hs.log_z(TARGET, kernel=v), 'hs.LBP("sqrt")', (hs.LBP,)),
    "log_z scale": (lambda v: hs.log_z(TARGET, scale=v), "hs.Fixed(R)", (hs.Fixed,)),
    "log_z base": (lambda v: hs.log_z(TARGET, v), "hs.Bernoulli(p)", (P, hs.Bernoulli, RBM)),
    "train_ebm model": (lambda v: learn.train_ebm(v, BITS), "EBM(network, base)", (None, TARGET)),
    "train_ebm settings": (lambda v: train(settings=v), "hs.learn.PCD(steps=40)", (learn.PCD,)),
    "train_ebm kernel": (lambda v: train(kernel=v), 'hs.LBP("sqrt")', (hs.LBP,)),
    "train_ebm scale": (lambda v: train(scale=v), "hs.Fixed(R)", (hs.Adaptive, 2.5)),
    "train_rbm data": (learn.train_rbm, 'hs.data.load("digits")', (None, BITS)),
    "train_rbm recipe": (lambda v: learn.train_rbm(DATA, v), "RBMRecipe(hidden=400)", ()),
    "log_likelihood normalizer": (
        lambda v: learn.log_likelihood(TARGET, BITS, v),
        "hs.learn.log_z(target)",
        (None, -3.5),
    ),
}

CASES = {
    **dict(counts(COUNTS)),
    **dict(numbers(NUMBERS)),
    **dict(choices(CHOICES)),
    **dict(arrays(ARRAYS)),
    **dict(not_bits(DATA_OF_BITS)),
    **dict(keys(KEYS)),
    **dict(kinds(KINDS)),
}
for name in ("Adaptive rate=None", "Tuned rate=None"):
    del CASES[name]  # the best rate there is


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize("name", CASES)
def test_arguments_of_the_wrong_kind_are_refused(name, monkeypatch):
    for function in ("start", "advance"):
        monkeypatch.setattr(f"hopscale.runs.sampling.{function}", None)  # nothing is compiled
    CASES[name].check()
