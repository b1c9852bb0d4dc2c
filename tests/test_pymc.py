"""The step method against PyMC itself, in a process of its own: PyMC turns on double precision."""

import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from test_adapters import POINTS, SIGMAS, truth_of_mixture
from test_pages import DOCS

pytestmark = pytest.mark.skipif(
    find_spec("pymc") is None, reason="PyMC is not installed: pip install 'hopscale[pymc]'"
)

MIXTURE = f"""
import numpy as np, pymc as pm, hopscale as hs
points = np.array({POINTS.tolist()})
with pm.Model() as model:
    mu = pm.Normal("mu", 1.0, 2.0)
    side = pm.Categorical("side", [0.3, 0.5, 0.2])
    which = pm.Bernoulli("which", 0.4, shape=10)
    other = pm.Poisson("other", 1.0)
    shift = pm.math.stack([0.0, 0.4, -0.3])[side]
    pm.Normal("obs", which * mu + shift, 0.7, observed=points)
    try:
        hs.pymc.LBP([other])
    except TypeError as error:
        print(error)
    step = hs.pymc.LBP([side, which], moves=3)
    drawn = pm.sample(
        2_000, tune=300, step=step, chains=1, cores=1, random_seed=1, progressbar=False,
        compute_convergence_checks=False,
    )
posterior = drawn["posterior"]
names = [posterior["mu"].values[..., None], posterior["side"].values[..., None]]
np.save("rows.npy", np.concatenate([*names, posterior["which"].values], axis=2)[0])
np.save("scales.npy", drawn["sample_stats"]["scale"].values)
"""


def run(code: str, folder) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_discrete_variables_next_to_nuts(tmp_path):
    assert "other is neither" in run(MIXTURE, tmp_path)
    rows = np.load(tmp_path / "rows.npy")
    mu, side, which = truth_of_mixture()
    batches = rows.reshape(40, 50, 12).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    off = np.abs(rows.mean(axis=0) - np.array([mu, side, *which]))
    assert np.all(off < 2 * SIGMAS * error + 1e-3), off / error
    scales = np.load(tmp_path / "scales.npy")
    assert np.all(scales == scales[0, 0])  # frozen after tuning


def test_the_example_of_the_page_runs(tmp_path):
    text = (DOCS / "coming-from.md").read_text()
    (example,) = re.findall(r"```py\n(import numpy.*?pymc.*?)```", text, re.DOTALL)
    run(example, tmp_path)
