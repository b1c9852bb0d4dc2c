"""Settings of persistent contrastive divergence, checked."""

import dataclasses

from hopscale.learn.health import CLOSING_ITERATIONS
from hopscale.validate import count, number


@dataclasses.dataclass(frozen=True)
class PCD:
    r"""Settings of persistent contrastive divergence.

    An iteration minimises, over a batch of data $x_i$ and chains $y_i$,

    $$\frac1B \sum_i f_\theta(x_i) - f_\theta(y_i) + \lambda (f_\theta(x_i)^2 + f_\theta(y_i)^2).$$

    Attributes:
        steps: Metropolis-Hastings steps of each chain in an iteration.
        batch: B, the number of states of the data, and of chains, in an iteration.
        rate: Adam's learning rate, reached linearly over the first `warmup` iterations.
        buffer: chains in the replay buffer.
        restart: the probability that a chain restarts from the base when it is taken.
        clip: the largest norm of a gradient; larger ones are scaled down to it. 0: no clipping.
        penalty: $\lambda$, the weight of the squared energies.
        weight_decay: of AdamW.
        average: the decay of the moving average of the weights that becomes the model.
        crisis: a crisis begins when |mean f(data) - mean f(samples)|, averaged over 10 iterations,
            exceeds this, in nats.
        patience: training has diverged when a crisis is not over after this many iterations, at
            least 100.
        limit: training has diverged when |mean f(data) - mean f(samples)| exceeds this. Beyond the
            default, 2^24, energies in single precision differ by more than one nat or not at all.

    `hopscale.learn.health` defines these words. The defaults are those of Grathwohl et al.
    (2021), for images of 28 x 28 and 50,000 iterations.
    """

    steps: int = 40
    batch: int = 100
    rate: float = 1e-4
    warmup: int = 10_000
    buffer: int = 10_000
    restart: float = 0.0
    clip: float = 0.0
    penalty: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.999
    crisis: float = 100.0
    patience: int = 5_000
    limit: float = 2.0**24

    def __post_init__(self):
        for name in ("steps", "batch", "buffer"):
            count(name, getattr(self, name), minimum=1)
        count("warmup", self.warmup, minimum=0)
        count("patience", self.patience, minimum=1)
        if self.patience < CLOSING_ITERATIONS:
            raise ValueError(
                f"patience must be at least {CLOSING_ITERATIONS} iterations, which a crisis takes "
                f"to end; got {self.patience}. To stop training at a wide gap, give a lower limit."
            )
        if self.buffer < self.batch:
            raise ValueError(
                f"the buffer must hold at least a batch of {self.batch} chains; got {self.buffer}."
            )
        for name, low, high, ends in _RANGES:
            number(name, getattr(self, name), low, high, ends)


_RANGES = (
    ("rate", 0.0, 1.0, "(]"),
    ("restart", 0.0, 1.0, "[]"),
    ("clip", 0.0, float("inf"), "[]"),
    ("penalty", 0.0, float("inf"), "[)"),
    ("weight_decay", 0.0, 1.0, "[]"),
    ("average", 0.0, 1.0, "[)"),
    ("crisis", 0.0, float("inf"), "(]"),
    ("limit", 0.0, float("inf"), "(]"),
)
