"""The paper's target distributions, by name."""

from hopscale.paper.instances import bernoulli, fhmm, identical, ising, nearly_fair, rbm

__all__ = ["bernoulli", "fhmm", "identical", "ising", "nearly_fair", "rbm"]
