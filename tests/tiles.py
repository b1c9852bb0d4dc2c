"""What the CUDA kernel for residual networks computes, step by step in NumPy.

It reads the same weights in the same order, and shifts rows of the same tiles. So it tells whether
weights and shifts belong together, on machines without a GPU.
"""

import numpy as np

TOP, TILE, TAPS = 16, 64, [(tap // 3 - 1, tap % 3 - 1) for tap in range(9)]


def silu(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, s * (1 + x * (1 - s))


class Tiles:
    """One image through the kernel's steps."""

    def __init__(self, stream, vectors, image):
        self.blocks = iter(np.asarray(stream, np.float64))
        self.vectors = np.asarray(vectors, np.float64)
        self.image = np.asarray(image, np.float64)
        self.height, self.width = image.shape
        self.h1, self.w1 = (-(-side // 2) for side in image.shape)
        self.h2, self.w2 = (-(-side // 4) for side in image.shape)
        self.pitch = self.w2 + 1
        rows = np.arange(TILE)
        self.r, self.c = rows // self.pitch, rows % self.pitch
        self.inside = (self.r < self.h2) & (self.c < self.w2)

    def take(self):
        """The next block as a matrix: inputs x outputs."""
        return next(self.blocks).transpose(0, 2, 1).reshape(64, 64)

    def inside_phase(self, phase):
        return (
            self.inside
            & (2 * self.r + (phase >> 1) < self.h1)
            & (2 * self.c + (phase & 1) < self.w1)
        )

    def rows(self, maps, phase, down=0, right=0):
        first = TOP + phase * TILE + down * self.pitch + right
        return maps[first : first + TILE]

    def store(self, maps, phase, values, inside):
        maps[TOP + phase * TILE :][:TILE] = np.where(inside[:, None], values, 0)

    def convolve(self, maps, phase):
        return sum(self.rows(maps, phase, *tap) @ self.take() for tap in TAPS)

    def convolve_phases(self, maps, sums):
        for dy, dx in TAPS:
            weights = self.take()
            for phase in range(4):
                y, x = (phase >> 1) + dy, (phase & 1) + dx
                sums[phase] += self.rows(maps, (y & 1) * 2 + (x & 1), y >> 1, x >> 1) @ weights
        return sums

    def features(self):
        padded = np.pad(self.image, 2)
        found = np.zeros((4, TILE, 128))
        for phase in range(4):
            for row in np.flatnonzero(self.inside):
                y = 2 * (2 * self.r[row] + (phase >> 1))
                x = 2 * (2 * self.c[row] + (phase & 1))
                for tap, (dy, dx) in enumerate(TAPS):
                    if 0 <= y + dy < self.height and 0 <= x + dx < self.width:
                        around = padded[y + dy + 1 :, x + dx + 1 :][:3, :3]
                        found[phase, row, 10 * tap : 10 * tap + 9] = around.ravel()
                        found[phase, row, 10 * tap + 9] = 1
        return found

    def run(self):
        a, b = (np.zeros((TOP + 5 * TILE, 64)) for _ in range(2))
        slopes, vectors = {}, self.vectors
        seen = self.features()
        entering = np.concatenate([self.take(), self.take()])
        for phase in range(4):
            value, slopes["phase m", phase] = silu(seen[phase] @ entering + vectors[0])
            self.store(a, phase, value, self.inside_phase(phase))
        skip = self.take()
        sums = self.convolve_phases(a, [seen[phase][:, :64] @ skip for phase in range(4)])
        for phase in range(4):
            value, slopes["phase b", phase] = silu(sums[phase] + vectors[1])
            self.store(b, phase, value, self.inside_phase(phase))

        total = 0
        for dy, dx in TAPS:
            shifted = self.rows(b, (dy & 1) * 2 + (dx & 1), dy >> 1, dx >> 1)
            total = total + shifted @ self.take()
        value, slopes["m", "1"] = silu(total + vectors[2])
        self.store(a, 0, value, self.inside)
        total = self.rows(b, 0) @ self.take()
        kept, slopes["b", "1"] = silu(total + self.convolve(a, 0) + vectors[3])
        self.store(a, 2, kept, self.inside)
        for block in range(2, 8):
            value, slopes["m", block] = silu(self.convolve(a, 2) + vectors[2 * block])
            self.store(a, 0, value, self.inside)
            total = self.convolve(a, 0) + vectors[2 * block + 1] + kept
            kept, slopes["b", block] = silu(total)
            self.store(a, 2, kept, self.inside)
        share = 1 / (self.h2 * self.w2)
        energy = np.sum((kept @ vectors[16])[self.inside]) * share + vectors[17, 0]

        kept = slopes["b", 7] * vectors[16] * share
        self.store(b, 0, kept, self.inside)
        for block in range(7, 1, -1):
            self.store(b, 2, self.convolve(b, 0) * slopes["m", block], self.inside)
            before = slopes["b", block - 1 if block > 2 else "1"]
            kept = (self.convolve(b, 2) + kept) * before
            self.store(b, 0, kept, self.inside)
        self.store(b, 2, self.convolve(b, 0) * slopes["m", "1"], self.inside)
        sums = [np.zeros((TILE, 64)) for _ in range(4)]
        for dy, dx in TAPS:
            shifted = self.rows(b, 2, int(dy < 0), int(dx < 0))
            sums[(dy & 1) * 2 + (dx & 1)] += shifted @ self.take()
        sums[0] += self.rows(b, 0) @ self.take()
        for phase in range(4):
            self.store(a, phase, sums[phase] * slopes["phase b", phase], self.inside_phase(phase))
        sums = self.convolve_phases(a, [np.zeros((TILE, 64)) for _ in range(4)])
        for phase in range(4):
            self.store(b, phase, sums[phase] * slopes["phase m", phase], self.inside_phase(phase))
        low, high, skip = self.take(), self.take(), self.take()
        by_feature = np.stack(
            [
                np.concatenate(
                    [self.rows(b, p) @ low + self.rows(a, p) @ skip, self.rows(b, p) @ high], axis=1
                )
                for p in range(4)
            ]
        )
        assert next(self.blocks, None) is None
        return energy, self.gathered(by_feature)

    def gathered(self, by_feature):
        gradient = np.zeros((self.height + 2, self.width + 2))
        for phase in range(4):
            for row in np.flatnonzero(self.inside_phase(phase)):
                y = 2 * (2 * self.r[row] + (phase >> 1))
                x = 2 * (2 * self.c[row] + (phase & 1))
                for tap, (dy, dx) in enumerate(TAPS):
                    if 0 <= y + dy < self.height and 0 <= x + dx < self.width:
                        part = by_feature[phase, row, 10 * tap : 10 * tap + 9].reshape(3, 3)
                        gradient[y + dy :, x + dx :][:3, :3] += part
        return gradient[1:-1, 1:-1]
