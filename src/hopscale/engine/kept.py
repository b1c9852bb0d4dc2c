"""Kept states of a run: those of some groups of draws on the device, all of them on the host."""

import jax
import numpy as np

from hopscale.engine import pages
from hopscale.target import Target

STATE_BYTES = 2**26  # of kept states on the device, at most


def room_on_device(target: Target, chains: int, runs: int, rows: int) -> jax.Array:
    """A buffer for the states of some groups of draws, with a place for states not kept."""
    size = chains * runs * target.num_sites * target.state_dtype.itemsize
    groups = min(max(STATE_BYTES // size, 1), rows)
    return pages.zeros((groups + 1, chains, *target.shape), target.state_dtype)


class KeptStates:
    """Every n-th state of runs side by side, in the shape users get: (runs, chains, kept, ...)."""

    def __init__(self, target: Target, runs: int, chains: int, draws: int, thin: int):
        self.thin = thin
        self._states = np.empty((runs, chains, draws // thin, *target.shape), target.state_dtype)

    def fetch(self, on_device: jax.Array, done: int, steps: int) -> None:
        """Copy the states of groups that `steps` steps, after the first `done`, completed."""
        begin, end = done // self.thin, (done + steps) // self.thin
        if end > begin:
            runs, chains, _, *shape = self._states.shape
            states = np.asarray(on_device).reshape(runs, -1, chains, *shape)
            self._states[:, :, begin:end] = np.swapaxes(states[:, : end - begin], 1, 2)

    def of(self, draws: int) -> np.ndarray:
        """The kept states of the first `draws` draws."""
        return self._states[:, :, : draws // self.thin]

    def take_up(self, states: np.ndarray) -> None:
        """Start with these states; later ones follow them."""
        self._states[:, :, : states.shape[2]] = states
