"""The paper's own experiments, by name."""

from hopscale.paper.instances import bernoulli, fhmm, ising, rbm

__all__ = ["bernoulli", "fhmm", "ising", "rbm"]
