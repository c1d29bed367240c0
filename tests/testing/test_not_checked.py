"""An algorithm that declares too little never gets a report that reads as a clean pass."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gainbias as gb
from gainbias import axpy, dot
from gainbias.testing import CHECKS, NotCheckedWarning

from .own import DOUBLE, SINGLE, TD, begin, declaring, td_begin

POWERFUL = {
    "rate_holds",
    "mean_field_is_true",
    "sample_field_is_true",
    "moments_are_exact",
    "paths_average_to_the_exact_mean",
    "runs_approach_the_limit",
    "parameters_matter",
    "seeds_decide",
}


@pytest.fixture
def few_checks(monkeypatch):
    """Only the checks that matter here: the others take long, and pass whatever is declared."""
    chosen = [check for check in CHECKS if check.name in POWERFUL]
    monkeypatch.setattr("gainbias.testing.suite.CHECKS", chosen)


def wrong_sign(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    excess = move.reward - state.gain[0]
    axpy(rows, move.here, step_size * (excess - after - here), state.weights)
    state.gain[0] += step_size * excess


class OldGain(NamedTuple):
    weights: np.ndarray
    gain: np.ndarray
    first_gain: np.ndarray


def old_gain_begin(setting, params):
    return OldGain(setting.weights.copy(), setting.zeros(), setting.zeros())


def old_gain(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (move.reward - state.first_gain[0] + after - here), state.weights)
    state.gain[0] += step_size * (move.reward - state.gain[0])


def wrong_discount(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    excess = move.reward - state.gain[0]
    axpy(rows, move.here, step_size * (excess + 0.5 * after - here), state.weights)
    state.gain[0] += step_size * excess


def dropped_reward(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (after - here), state.weights)
    state.gain[0] += step_size * (move.reward - state.gain[0])


MUTANTS = {
    "wrong-sign": (td_begin, wrong_sign),
    "old-gain": (old_gain_begin, old_gain),
    "wrong-discount": (td_begin, wrong_discount),
    "dropped-reward": (td_begin, dropped_reward),
}


def gain_off(state, params, rows, move, step_size):
    """Three percent of the gain are missing from the update, but not from the estimate of the gain."""
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    excess = move.reward - 0.97 * state.gain[0]
    axpy(rows, move.here, step_size * (excess + after - here), state.weights)
    state.gain[0] += step_size * (move.reward - state.gain[0])


def bare(name, **declared):
    return gb.Algorithm(name=name, form=gb.Form(*MUTANTS[name]), declared=gb.Declared(**declared))


def quietly(algorithm, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCheckedWarning)
        return gb.testing.check_algorithm(algorithm, **settings)


@pytest.mark.parametrize("name", MUTANTS)
class TestMutants:
    def test_nothing_declared_is_no_clean_pass(self, few_checks, name):
        with pytest.warns(NotCheckedWarning, match=f"{name}: convergence NOT checked .it declares no limit"):
            report = gb.testing.check_algorithm(bare(name))
        assert report.failures == []  # that is why it must be said
        assert not report.is_clean
        assert not report.convergence_checked
        first, *_, last = str(report).splitlines()
        assert first.startswith(
            f"{name}: not clean; convergence NOT checked; mean update NOT checked; single steps"
        )
        assert last.startswith("convergence NOT checked (it declares no limit): a wrong sign")
        assert last.endswith("declare `limit`")

    def test_a_limit_finds_it(self, few_checks, name):
        wrong = bare(name, limit=TD.declared.limit, limit_is_line=True)
        report = quietly(wrong, raises=False)
        assert "runs_approach_the_limit" in {result.check for result in report.failures}
        assert report.convergence_checked
        assert not report.is_clean

    def test_a_limit_that_is_never_stated_is_none(self, few_checks, name):
        report = quietly(bare(name, limit=lambda problem, params, first: None), raises=False)
        assert not report.convergence_checked
        assert "no limit stated" in str(report).splitlines()[-1]
        assert report.failures == []


class TestThreePercent:
    """Errors grow smaller in short runs also towards a wrong point nearby: only long ones tell them apart."""

    def own(self, step, **declared):
        return gb.Algorithm(name="my-td", form=gb.Form(td_begin, step), declared=gb.Declared(**declared))

    def test_a_declared_limit_finds_it(self, monkeypatch):
        chosen = [check for check in CHECKS if check.name == "runs_end_at_the_limit"]
        monkeypatch.setattr("gainbias.testing.suite.CHECKS", [replace(chosen[0], kinds=("dense",))])
        with pytest.raises(AssertionError, match=r"(?s)runs_end_at_the_limit \[dense\]: .* off, 5 are allow"):
            gb.testing.check_algorithm(self.own(gain_off, limit=TD.declared.limit, limit_is_line=True))

    def test_without_one_the_report_says_in_its_first_line_that_it_is_not_clean(self, few_checks):
        report = quietly(self.own(gain_off))
        assert report.failures == []
        assert not report.is_clean
        assert str(report).startswith("my-td: not clean; convergence NOT checked; ")

    def test_the_right_step_with_nothing_but_a_limit_is_clean(self, few_checks):
        report = quietly(declaring(TD, rate=None, mean_field=None, sample_field=None))
        assert report.is_clean
        assert str(report).startswith("my-td: clean; mean update NOT checked; ")


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_whole_suite_does_not_pass_them_in_silence(name):
    with pytest.warns(NotCheckedWarning):
        report = gb.testing.check_algorithm(bare(name), raises=False)
    assert not report.is_clean


class TestGaps:
    def gaps(self, algorithm):
        return {gap.what: gap for gap in quietly(algorithm).not_checked}

    def test_all_declared(self, few_checks):
        assert gb.testing.check_algorithm(TD).not_checked == ()
        assert gb.testing.check_algorithm(DOUBLE).is_clean

    @pytest.mark.parametrize(
        ("field", "what"),
        [
            ("limit", "convergence"),
            ("rate", "rate of convergence"),
            ("mean_field", "mean update"),
            ("sample_field", "single steps and moments"),
        ],
    )
    def test_each_declaration_that_is_missing_is_named(self, few_checks, field, what):
        gaps = self.gaps(declaring(DOUBLE, **{field: None}))
        assert f"it declares no {field}" in gaps[what].why
        assert f"`{field}`" in gaps[what].unseen
        assert str(gaps[what]).startswith(f"{what} NOT checked")

    def test_a_parameter_without_bounds_is_never_varied(self, few_checks):
        with pytest.warns(
            NotCheckedWarning, match="parameters gain_ratio NOT checked .it declares no bounds"
        ):
            report = gb.testing.check_algorithm(replace(TD, bounds={}))
        assert not report.is_clean
        assert report.convergence_checked

    def test_one_of_two_parameters_without_bounds(self, few_checks):
        class Params(NamedTuple):
            gain_ratio: float = 1.0
            discount: float = 1.0

        def step(state, params, rows, move, step_size):
            here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
            excess = move.reward - state.gain[0]
            axpy(rows, move.here, step_size * (excess + after - here), state.weights)  # no discount
            state.gain[0] += params.gain_ratio * step_size * excess

        gaps = self.gaps(replace(TD, params=Params, form=gb.Form(td_begin, step)))
        assert list(gaps) == ["parameters discount"]

    def test_a_radius_in_the_way_of_all_runs(self, few_checks):
        class Params(NamedTuple):
            radius: float = 1.0

        gaps = self.gaps(replace(SINGLE, params=Params))
        assert gaps["convergence"].why == "a finite radius"

    def test_gaps_are_in_the_error_too(self, few_checks):
        wrong = replace(declaring(DOUBLE, limit=None), form=gb.Form(begin, lambda s, p, r, m, size: None))
        with pytest.raises(AssertionError, match=r"(?s)two seeds give.*convergence NOT checked"):
            gb.testing.check_algorithm(wrong)

    def test_ours_have_a_limit(self):
        assert [name for name, each in gb.ALGORITHMS.items() if each.declared.limit is None] == []


def test_every_example_of_an_algorithm_declares_its_limit():
    """Whoever imitates an example gets a report that has looked at convergence."""
    root = Path(gb.__file__).parents[2]
    pages = [
        *(root / "docs").rglob("*.md"),
        *(root / "src").rglob("*.py"),
        *(root / "examples").rglob("*.py"),
    ]
    example = re.compile(r"gb\.Algorithm\(\n(.*?)^(?:    \.\.\. )?\)$", re.DOTALL | re.MULTILINE)
    found = [text for page in pages for text in example.findall(page.read_text(encoding="utf-8"))]
    assert len(found) >= 3
    assert [text for text in found if "limit=limit" not in text] == []
