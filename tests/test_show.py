"""What results look like: printed, in a notebook, as pictures."""

import dataclasses
import sys
import types

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import hopscale as hs
from hopscale import tables
from hopscale.runs import host, notebook

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def run():
    record = {"best": hs.record.BestState(), "means": hs.record.SiteMeans()}
    target = hs.Bernoulli(np.full((5, 8), 0.3))
    options = {"chains": 3, "warmup": 40, "draws": 60, "keep": 20, "progress": False}
    return hs.sample(target, hs.LBP(), record=record, **options)


def test_results_print_as_few_lines(run):
    shown = [run, *run.statistics.values(), *run.recorded.values()]
    assert all(len(str(one).splitlines()) < 20 and len(repr(one)) < 2_000 for one in shown)
    assert "R-hat" in repr(run.statistics["log_prob"])
    assert "array of shape (5, 8)" in repr(run.recorded["best"])


def test_a_title_longer_than_its_table_stays_on_a_line():
    title = "The best of Ising (12 x 12) by Gibbs(order='auto', rule='metropolis', sweeps=1)"
    assert tables.text(tables.table(title, [("beta", "1")])).splitlines()[0] == title


def test_tempering_prints_as_a_table():
    from hopscale.results.tempering import TemperingResult

    numbers = np.linspace(0, 1, 40)
    found = TemperingResult(numbers, numbers, numbers[1:] * 0.5, 3.5, 120, -70.25, 0.04)
    assert len(repr(found).splitlines()) < 10
    assert "120" in str(found)
    assert "-70.2500 ± 0.04" in found._repr_html_()


def test_a_run_is_html_in_a_notebook(run):
    html = run._repr_html_()
    assert html.startswith("<pre")
    assert "jump distance" in html
    assert "Bernoulli (5 x 8)" in html


def test_pictures_of_a_run_and_of_states(run, tmp_path):
    figure = run.plot()
    assert len(figure.axes) == 4
    figure.savefig(tmp_path / "run.png")
    swept = dataclasses.replace(run, kernel=hs.Gibbs(), scale=None)
    assert len(swept.plot().axes) == 2  # there is no scale to show
    assert len(hs.plot.states(run.draws, columns=4).axes) == 12  # 9 pictures, 3 empty places
    assert len(hs.plot.states(run.last.reshape(3, -1)).axes) == 1
    with pytest.raises(ValueError, match="at least one axis"):
        hs.plot.states(3)


class Shown:
    """What IPython's display returns, remembering what it was given."""

    def __init__(self):
        self.pages = []

    def update(self, page):
        self.pages.append(page)


def test_progress_moves_in_a_notebook(monkeypatch):
    shown = Shown()
    shell = types.SimpleNamespace(kernel=object())
    display = types.SimpleNamespace(HTML=str, display=lambda page, display_id: shown)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    assert notebook.in_notebook()
    with host.watch(True, {"warm-up": 10, "draws": 20}) as watched:
        watched.show("warm-up", 10, lambda: {"scale": 3.0})
        watched.show("draws", 20, lambda: {"scale": 4.0})
    assert len(shown.pages) == 3
    assert "20/20" in shown.pages[-1]
    assert "scale 4" in shown.pages[-1]
    shell.__dict__.pop("kernel")
    assert not notebook.in_notebook()


def test_old_names_work_for_one_version_with_a_warning(run):
    from hopscale import kernels

    with pytest.warns(DeprecationWarning, match=r"hopscale.kernels now; the old name goes"):
        assert hs.samplers is kernels
    with pytest.warns(DeprecationWarning, match="hopscale.tune now"):
        assert hs.scale.Adaptive is hs.Adaptive
    with pytest.warns(DeprecationWarning, match="statistics"):
        assert run.trace is run.statistics["hamming"].trace
    with pytest.warns(DeprecationWarning, match="run.block"):
        assert run.block == 1
    with pytest.warns(DeprecationWarning, match="run.ess_by_chain"):
        assert run.ess_by_chain.mean() == run.ess
    with pytest.warns(DeprecationWarning, match=r"hopscale.record now"):
        from hopscale import observe  # pyright: ignore[reportAttributeAccessIssue]
    assert observe is hs.record
    with pytest.raises(AttributeError, match="no attribute 'smapler'"):
        hs.smapler  # noqa: B018


def test_old_arguments_work_for_one_version_with_a_warning():
    target = hs.Bernoulli(np.array([0.2, 0.6]))
    with pytest.warns(DeprecationWarning, match="the argument sampler is called kernel now"):
        matrix = hs.check.transition_matrix(target, sampler=hs.RWM(), scale=1)  # pyright: ignore
    np.testing.assert_array_equal(matrix, hs.check.transition_matrix(target, hs.RWM(), 1))
    with pytest.raises(TypeError, match="give one of them"):
        hs.check.transition_matrix(target, kernel=hs.RWM(), sampler=hs.RWM(), scale=1)  # pyright: ignore
    with pytest.warns(DeprecationWarning, match="the argument statistic is called record now"):
        run = hs.sample(target, chains=2, warmup=5, draws=5, statistic=jnp.sum, progress=False)  # pyright: ignore
    assert run.statistics["statistic"].trace.shape == (2, 5)
