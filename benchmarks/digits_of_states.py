"""Which digits the states of the shipped RBM show: do chains visit all ten classes?

    python benchmarks/tempering.py rbm --levels 36 --chains 64 --draws 24000 --save rbm.npz
    python benchmarks/digits_of_states.py rbm.npz MNIST_FOLDER [--most 4000]

Each state is assigned the digit that most of its five nearest training images show, by the number
of pixels that differ. It is also assigned the digit of the nearest class mean, which is cruder. The
share of test images that the first method classifies correctly, in the same bits, is printed.
MNIST_FOLDER has the four files of the data set.
"""

import argparse
import gzip
from pathlib import Path

import numpy as np

NEAREST = 5


def read(path: Path) -> np.ndarray:
    """The numbers of a file in MNIST's format."""
    data = gzip.decompress(path.read_bytes())
    axes = data[3]
    shape = np.frombuffer(data, ">i4", axes, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def images(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Bits of images, row by row, and the digits they show."""
    bits = read(folder / f"{part}-images-idx3-ubyte.gz").reshape(-1, 784) > 127
    return bits.astype(np.float32), read(folder / f"{part}-labels-idx1-ubyte.gz")


def nearest_digits(states: np.ndarray, bits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    found = []
    squares = bits.sum(axis=1)
    for some in np.array_split(states, max(1, len(states) // 250)):
        distance = squares[None, :] - 2.0 * (some @ bits.T)  # without the state's own square
        near = np.argpartition(distance, NEAREST, axis=1)[:, :NEAREST]
        votes = np.stack([np.bincount(row, minlength=10) for row in labels[near]])
        found.append(votes.argmax(axis=1))
    return np.concatenate(found)


def digits_by_means(states: np.ndarray, bits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    means = np.stack([bits[labels == digit].mean(axis=0) for digit in range(10)])
    return np.argmin((means**2).sum(axis=1)[None, :] - 2.0 * states @ means.T, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("states", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=4_000)
    asked = parser.parse_args()
    draws = np.load(asked.states)["draws"]
    chains = draws.shape[0]
    states = draws.reshape(chains, -1, 784).astype(np.float32)
    print(f"{states.shape[1]} states of each of {chains} chains")
    bits, labels = images(asked.folder, "train")
    test, truth = images(asked.folder, "t10k")
    right = np.mean(nearest_digits(test[:1000], bits, labels) == truth[:1000])
    print(f"test images classified rightly by the nearest: {right:.1%}")
    every = states.transpose(1, 0, 2).reshape(-1, 784)
    some = every[np.linspace(0, len(every) - 1, min(asked.most, len(every))).astype(int)]
    for name, classify in (("nearest", nearest_digits), ("means", digits_by_means)):
        counts = np.bincount(classify(some, bits, labels), minlength=10)
        print(f"{name}: {', '.join(map(str, counts))} of the digits 0 to 9, {counts.sum()} states")


if __name__ == "__main__":
    main()
