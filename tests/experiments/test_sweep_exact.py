"""Exact errors of a sweep: those of the curve, and those of many runs."""

import time

import numpy as np
import pytest

import gainbias as gb
from gainbias.experiments import inspection

pytestmark = pytest.mark.slow  # they share one long sweep

CHOICES = {
    "tasks": [{"id": "garnet", "num_states": 10, "num_features": 3}],
    "algorithms": [
        {"id": "implicit-td", "params": {"radius": [5.0, np.inf]}},
        "single-chain",
        "double-chain",
    ],
    "step_size": [0.05, 0.2],
    "num_steps": 200,
    "checkpoints": [20, 200],
    "sampling": "iid",
    "metrics": ["quotient paper", "centred bias stationary"],
    "exact": True,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    study = gb.Study(**CHOICES, instances=[3], seeds=200)
    return gb.sweep(study, tmp_path_factory.mktemp("exact") / "results", workers=1).to_frame()


def test_they_are_those_of_the_curve(runs):
    task = gb.task("garnet", seed=3, num_states=10, num_features=3)
    curve = gb.exact_curve("double-chain", task, 200, 0.2, sampling="iid", checkpoints=[20, 200])
    for kind, target, norm in (("quotient", "paper", "euclidean"), ("centred", "bias", "stationary")):
        found = runs.query(f"algorithm == 'double-chain' and a == 0.2 and seed == 7 and kind == '{kind}'")
        expected = curve.errors(kind, target=target, norm=norm)
        np.testing.assert_allclose(found.sort_values("step")["exact"], expected, rtol=1e-12)


def test_many_runs_have_them_in_the_mean(runs):
    affine = runs[(runs.algorithm == "double-chain") | (runs.radius == np.inf)]
    groups = affine.assign(square=affine.error**2).groupby(["algorithm", "a", "kind", "step"])
    off = (groups.square.mean() - groups.exact.first() ** 2) / (groups.square.std() / np.sqrt(200))
    assert len(off) == 16
    assert off.abs().max() < 4.5


def test_only_affine_lanes_have_them(runs):
    known = runs.groupby(["algorithm", runs.radius.fillna(-1.0)]).exact.agg(lambda own: own.notna().mean())
    assert known.to_dict() == {
        ("double-chain", -1.0): 1.0,
        ("implicit-td", 5.0): 0.0,
        ("implicit-td", np.inf): 1.0,
        ("single-chain", -1.0): 0.0,
    }


def test_a_study_without_them_has_no_column(tmp_path):
    choices = {**CHOICES, "exact": False, "instances": 1}
    assert "exact" not in gb.sweep(gb.Study(**choices), tmp_path / "results", workers=1).to_frame()


def test_a_dry_run_counts_them(monkeypatch):
    monkeypatch.setattr(inspection, "exact_errors", lambda *_: time.sleep(0.3))
    study = gb.Study(**CHOICES, instances=5)
    assert inspection.estimate(study, 1).seconds >= 0.3 * study.count_lanes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": "markov"}, "^exact: takes minutes for each lane along a chain"),
        ({"exact": "yes"}, "^exact: must be true or false, found 'yes'"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        gb.Study(**{**CHOICES, **changes})
