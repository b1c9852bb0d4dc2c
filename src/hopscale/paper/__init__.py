"""The paper's own experiments, by name."""

from hopscale.paper.instances import bernoulli, fhmm, ising

__all__ = ["bernoulli", "fhmm", "ising"]
