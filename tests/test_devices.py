"""A run is the same on one device and on several."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

import hopscale as hs
import several_devices
from hopscale.runs import arguments
from runs import SETTINGS, TARGET, same

SAME = (
    "2 devices",
    "4 devices",
    "extended",
    "extended on fewer",
    "loaded and extended",
    "checkpoint of 4 finished by 1",
    "checkpoint of 1 finished by 4",
    "recorders and states",
    "sweeps",
    "tempering, a scale a chain",
    "invalid states",
)
DIFFERENT = ("numbers that begin again", "a tuner that sees its device alone")  # broken twins


def test_the_number_of_devices_does_not_show():
    """Cases in a process that has four devices; one test, so that the process is started once."""
    # Without any of LLVM's optimisations two programs that do the same may round otherwise.
    flags = os.environ.get("XLA_FLAGS", "").replace("optimization_level=0", "optimization_level=1")
    flags += f" --xla_force_host_platform_device_count={several_devices.COUNT}"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    command = [sys.executable, str(Path(several_devices.__file__))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert found.pop("loaded runs are on the default device") == "True"
    assert [found.pop(name)[:7] for name in DIFFERENT] == ["differs"] * len(DIFFERENT)
    assert found == dict.fromkeys(SAME, "same")


def test_one_device_is_one_however_it_is_given():
    here = jax.devices()[0]
    same(hs.sample(TARGET, devices=here, **SETTINGS), hs.sample(TARGET, devices=[here], **SETTINGS))


# -- What is refused; the devices here are not real. ----------------------------------------------


class Pretended(SimpleNamespace):
    """A device by its platform and number."""

    def __hash__(self):
        return hash((self.platform, self.id))


@pytest.fixture
def pretend(monkeypatch):
    monkeypatch.setattr(jax, "Device", Pretended)
    return lambda count, platform="cpu": [Pretended(platform=platform, id=i) for i in range(count)]


def test_devices_of_two_platforms_are_refused(pretend):
    with pytest.raises(ValueError, match=r"one platform; got cpu and gpu.*jax.devices\('gpu'\)"):
        arguments.devices(pretend(1) + pretend(1, "gpu"), chains=2)


@pytest.mark.parametrize(
    ("chains", "count", "advice"),
    [
        (10, 4, "got 10 chains for 4 devices. Use 8 or 12 chains, or 2 of the devices."),
        (3, 4, "got 3 chains for 4 devices. Use 4 chains, or 3 of the devices."),
        (7, 2, "got 7 chains for 2 devices. Use 6 or 8 chains, or 1 of the devices."),
    ],
)
def test_chains_must_divide_evenly(pretend, chains, count, advice):
    with pytest.raises(ValueError, match="chains must be a multiple") as raised:
        arguments.devices(pretend(count), chains)
    assert advice in str(raised.value)
    assert len(arguments.devices(pretend(count), 12)) == count
