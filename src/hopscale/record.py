"""What is kept of a run, in memory that does not grow with its length.

The compiled loop writes a few numbers a step and chain into buffers of fixed size; after each
chunk of steps the buffers are folded into the recorders here. They fold in pages of a fixed
number of steps, so that a result does not depend on how the run was cut into chunks.
"""

import numpy as np

PAGE = 256


class Moments:
    """Mean and variance over steps, chain by chain."""

    def __init__(self, chains: int):
        self._folded = (0, np.zeros(chains), np.zeros(chains))
        self._loose = np.zeros((0, chains))

    def add(self, values: np.ndarray) -> None:
        """Fold in values of shape (steps, chains)."""
        rows = np.concatenate([self._loose, values.astype(np.float64)])
        whole = len(rows) // PAGE * PAGE
        for start in range(0, whole, PAGE):
            self._folded = _merge(self._folded, rows[start : start + PAGE])
        self._loose = rows[whole:]

    def _all(self) -> tuple[int, np.ndarray, np.ndarray]:
        return _merge(self._folded, self._loose) if len(self._loose) else self._folded

    @property
    def count(self) -> int:
        return self._folded[0] + len(self._loose)

    @property
    def mean(self) -> np.ndarray:
        """One mean for each chain; NaN before the first step."""
        count, mean, _ = self._all()
        return mean if count else np.full_like(mean, np.nan)

    @property
    def variance(self) -> np.ndarray:
        """One variance (over n, not n - 1) for each chain."""
        count, _, squares = self._all()
        return squares / count if count else np.full_like(squares, np.nan)


def _merge(folded: tuple[int, np.ndarray, np.ndarray], rows: np.ndarray):
    """Count, mean and sum of squared deviations, with more rows (Chan, Golub and LeVeque)."""
    count, mean, squares = folded
    more, added = len(rows), rows.mean(axis=0)
    gap, total = added - mean, count + more
    spread = ((rows - added) ** 2).sum(axis=0) + gap**2 * (count * more / total)
    return total, mean + gap * (more / total), squares + spread


class Trace:
    """A statistic's history, in at most `capacity` blocks of equal length.

    While the run is short a block is one step. When the blocks run out, neighbours are averaged
    and blocks become twice as long. Averages of blocks carry the same information on the
    variance of the mean, so the effective sample size can still be had from them.
    """

    def __init__(self, chains: int, capacity: int | None = None):
        self.block = 1
        if capacity is None:  # 64 MiB for many chains, which need less of each
            capacity = min(16_384, max(1024, 2**23 // chains))
        self._capacity = capacity + capacity % 2
        self._blocks = np.zeros((self._capacity, chains))
        self._filled = 0
        self._loose = np.zeros((0, chains))

    def add(self, values: np.ndarray) -> None:
        """Fold in values of shape (steps, chains)."""
        loose = np.concatenate([self._loose, values.astype(np.float64)])
        while len(loose) >= self.block:
            room = (self._capacity - self._filled) * self.block
            whole = min(len(loose) // self.block * self.block, room)
            blocks = _averaged(loose[:whole], self.block)
            self._blocks[self._filled : self._filled + len(blocks)] = blocks
            self._filled += len(blocks)
            loose = loose[whole:]
            if self._filled == self._capacity:
                self._filled //= 2
                self._blocks[: self._filled] = _averaged(self._blocks, 2)
                self.block *= 2
        self._loose = loose

    @property
    def values(self) -> np.ndarray:
        """Block averages, of shape (chains, blocks)."""
        return self._blocks[: self._filled].T.copy()


def _averaged(rows: np.ndarray, width: int) -> np.ndarray:
    """Averages over `width` rows (a power of two), by halving: the same tree however they came."""
    while width > 1:
        rows, width = 0.5 * (rows[0::2] + rows[1::2]), width // 2
    return rows
