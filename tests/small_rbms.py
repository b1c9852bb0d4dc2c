"""RBMs of a second's training, for the tests of training, files and commands."""

import jax
import numpy as np

import hopscale as hs
from hopscale.learn import RBMRecipe, train_rbm

DIGITS = hs.data.load("digits")
SMALL = RBMRecipe(hidden=16, cd=2, batch=100, rate=1e-2)


def train(recipe=SMALL, data=DIGITS, **settings):
    return train_rbm(data, recipe, progress=False, **settings)


def parameters(rbm):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(rbm)]


def same(one, other):
    return all(map(np.array_equal, parameters(one), parameters(other)))
