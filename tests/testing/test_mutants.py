"""Every check rejects a wrong algorithm, in a case in which it passes the right one."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gainbias as gb
from gainbias import axpy, dot
from gainbias.algorithms.algorithm import Output, always
from gainbias.algorithms.fields import paper_field, td_field
from gainbias.engine import work
from gainbias.features.rows import add_row, values
from gainbias.testing import CHECKS
from gainbias.testing.drive import Case, all_params, small_problem

from .own import DOUBLE, SINGLE, TD, Weights, declaring

NAMED = {check.name: check for check in CHECKS}


def result(check, algorithm, kind="dense", params=None):
    found = NAMED[check]
    case = Case(algorithm, kind, small_problem(kind, found.num_states), params or all_params(algorithm)[0])
    return found.result(case)


def rejects(check, wrong, right=DOUBLE, kind="dense", params=None, because=""):
    """The check passes the right algorithm and fails the wrong one, with a reason."""
    good = result(check, right, kind, params)
    assert good.outcome == "passed", good
    bad = result(check, wrong, kind, params)
    assert bad.outcome == "failed", bad
    assert because in bad.detail
    return bad


def with_step(algorithm, step):
    return replace(algorithm, form=replace(algorithm.form, step=step))


def with_init(algorithm, init):
    return replace(algorithm, form=replace(algorithm.form, init=init))


class TestBits:
    def test_a_sum_in_another_order(self):
        def step(state, params, rows, move, step_size):
            here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
            mean = np.sum(state.weights) / len(state.weights)
            axpy(rows, move.here, step_size * (move.reward - mean + after - here), state.weights)

        wrong = with_step(DOUBLE, step)
        rejects("compiled_equals_python", wrong, kind="tabular", because="not the same bits")
        assert (
            result("compiled_equals_python", declaring(wrong, bitwise=False), "tabular").outcome == "passed"
        )

    def test_a_step_that_cannot_be_compiled(self):
        def step(state, params, rows, move, step_size):
            state.weights[0] += {"a": 1.0}["a"]

        rejects("compiled_equals_python", with_step(DOUBLE, step), because="Error")

    def test_memory_that_is_shared(self):
        rejects("state_is_its_own", with_init(DOUBLE, lambda setting, params: Weights(setting.weights)))

    def test_fields_that_are_the_same_array(self):
        class Twice(NamedTuple):
            weights: np.ndarray
            first: np.ndarray
            second: np.ndarray

        def shared(setting, params):
            room = setting.zeros()
            return Twice(setting.weights.copy(), room, room)

        rejects("state_is_its_own", with_init(DOUBLE, shared), because="second shares memory")


class TestRuns:
    def test_an_answer_depends_on_earlier_ones(self):
        asked = []

        def output(state, params, setting):
            asked.append(state)
            return Output(state.weights + len(asked), None)

        wrong = replace(DOUBLE, form=replace(DOUBLE.form, output=output))
        rejects("cuts_change_no_bit", wrong, because="not the same bits")

    def test_an_answer_that_changes_the_state_changes_a_copy_of_it(self):
        def output(state, params, setting):
            state.weights[0] += 0.5
            return Output(state.weights, None)

        harmless = replace(DOUBLE, form=replace(DOUBLE.form, output=output))
        assert result("cuts_change_no_bit", harmless).outcome == "passed"

    def test_a_counter_outside_the_state(self):
        counter = itertools.count()

        def init(setting, params):
            return Weights(setting.weights + next(counter))

        rejects("threads_change_no_bit", with_init(DOUBLE, init), because="with 2 threads")

    def test_global_randomness(self):
        def init(setting, params):
            return Weights(setting.weights + np.random.default_rng().random())

        rejects("seeds_decide", with_init(DOUBLE, init), because="in a second run")

    def test_a_path_that_is_not_read(self):
        def step(state, params, rows, move, step_size):
            state.weights[0] += step_size

        rejects("seeds_decide", with_step(DOUBLE, step), because="two seeds give the same weights")

    def test_a_lane_that_reads_another(self):
        right = gb.ALGORITHMS["differential-td"]

        def step(state, params, rows, move, step_size):
            weights, gain, change, after = state
            values(rows, move.here, move.after, weights, change, after)
            for k in range(len(change)):
                change[k] = step_size[0] * (move.reward - gain[k] + after[k] - change[k])
                gain[k] += params.gain_ratio[k] * change[k]
            add_row(rows, move.here, change, weights)

        rejects("company_changes_no_bit", with_step(right, step), right, because="alone: not the same bits")

    def test_all_weights_change_while_only_some_are_averaged(self):
        wrong = replace(SINGLE, form=replace(SINGLE.form, touches_rows=always))
        rejects("averages_are_means", wrong, SINGLE, kind="tabular", because="tail average")
        rejects("only_touched_rows_change", wrong, DOUBLE, kind="tabular", because="weights of other rows")


def flipped_sign(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (move.reward + after - here), state.weights)
    axpy(rows, move.other, step_size * (move.reward + here), state.weights)


def one_chain_twice(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (move.reward + after - here), state.weights)
    axpy(rows, move.here, -step_size * (move.reward + here), state.weights)


def new_weights_used(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (move.reward + after - here), state.weights)
    axpy(rows, move.other, -step_size * (move.reward + dot(rows, move.here, state.weights)), state.weights)


def gain_first(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    state.gain[0] += params.gain_ratio * step_size * (move.reward - state.gain[0])
    axpy(rows, move.here, step_size * (move.reward - state.gain[0] + after - here), state.weights)


def no_gain(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (move.reward - state.gain[0] + after - here), state.weights)


def mean_first(state, params, rows, move, step_size):
    weights, mean = state
    here, after = dot(rows, move.here, weights), dot(rows, move.after, weights)
    for j in range(len(mean)):
        mean[j] -= step_size * mean[j]
    axpy(rows, move.here, step_size, mean)
    axpy(rows, move.here, step_size * (move.reward + after - here), weights)
    for j in range(len(weights)):
        weights[j] -= step_size * (move.reward + here) * mean[j]


def no_projection(state, params, rows, move, step_size):
    weights, mean = state
    here, after = dot(rows, move.here, weights), dot(rows, move.after, weights)
    axpy(rows, move.here, step_size * (move.reward + after - here), weights)
    for j in range(len(weights)):
        weights[j] -= step_size * (move.reward + here) * mean[j]
    for j in range(len(mean)):
        mean[j] -= step_size * mean[j]
    axpy(rows, move.here, step_size, mean)


class TestFields:
    @pytest.mark.parametrize("step", [flipped_sign, one_chain_twice, new_weights_used])
    @pytest.mark.parametrize("check", ["mean_field_is_true", "sample_field_is_true"])
    def test_wrong_steps_of_two_chains(self, check, step):
        rejects(check, with_step(DOUBLE, step))

    def test_a_mean_that_is_updated_before_it_is_used(self):
        rejects("mean_field_is_true", with_step(SINGLE, mean_first), SINGLE, because="mean field")

    @pytest.mark.parametrize("check", ["mean_field_is_true", "sample_field_is_true"])
    def test_a_gain_that_is_updated_before_it_is_used(self, check):
        rejects(check, with_step(TD, gain_first), TD)

    def test_affine_fields_in_the_wrong_order(self):
        def gain_at_the_front(sample, params, step_size):
            matrix, vector = TD.declared.sample_field(sample, params, step_size)
            turned = np.roll(np.arange(len(vector)), 1)
            return matrix[np.ix_(turned, turned)], vector[turned]

        rejects("sample_field_is_true", declaring(TD, sample_field=gain_at_the_front), TD)

    def test_a_mean_field_that_is_not_the_mean_of_the_samples(self):
        wrong = declaring(DOUBLE, mean_field=lambda problem, params: td_field(problem))
        rejects("sample_field_has_the_mean_field", wrong, because="mean of X")

    def test_limits_of_other_fields_that_are_wrong(self):
        wrong = declaring(TD, frozen=lambda problem, params, here, weights: {"gain": 0.0})
        rejects("mean_field_is_true", wrong, TD, because="vector b")
        rejects("sample_field_has_the_mean_field", wrong, TD, because="mean of y")

    def test_a_field_for_small_steps_is_not_excused_from_being_right(self):
        implicit = gb.ALGORITHMS["implicit-td"]
        wrong = declaring(implicit, mean_field=lambda problem, params: paper_field(problem))
        rejects("mean_field_is_true", wrong, implicit, because="matrix A")
        rejects("mean_field_is_true", declaring(implicit, small_steps_only=False), implicit)


class TestLimits:
    wrong_limit = staticmethod(lambda problem, params, first: 1.01 * problem.fixed_point)

    @pytest.mark.parametrize("check", ["limit_solves_the_mean_field", "limit_stays_without_noise"])
    def test_another_limit(self, check):
        rejects(check, declaring(DOUBLE, limit=self.wrong_limit))

    def test_a_step_away_from_the_limit(self):
        rejects("limit_stays_without_noise", with_step(DOUBLE, one_chain_twice), because="mean step")

    def test_a_limit_that_pushes_away(self):
        def away(problem, params):
            field = paper_field(problem)
            return field._replace(matrix=-field.matrix, vector=-field.vector)

        rejects("limit_attracts", declaring(DOUBLE, mean_field=away), because="rate")

    def test_runs_that_end_elsewhere(self):
        far = declaring(DOUBLE, limit=lambda problem, params, first: problem.fixed_point + 0.5)
        rejects("runs_approach_the_limit", far, because="it must fall")
        rejects("runs_approach_the_limit", with_step(DOUBLE, one_chain_twice), because="it must fall")

    @pytest.mark.slow
    def test_runs_that_end_nearby(self):
        """Two per cent away, in weights or in the gain: errors of single runs still fall."""
        near = declaring(DOUBLE, limit=lambda problem, params, first: 1.02 * problem.fixed_point)
        assert result("runs_approach_the_limit", near).outcome == "passed"
        rejects("runs_end_at_the_limit", near, because="standard errors off, 5 are allowed")

        def output(state, params, setting):
            return Output(state.weights, 0.98 * state.gain[0])

        less = replace(TD, form=replace(TD.form, output=output))
        assert result("gain_is_learned", less).outcome == "passed"
        rejects("runs_end_at_the_limit", less, TD, because="standard errors off, 5 are allowed")

    def test_a_line_that_is_declared_a_point_and_the_other_way_round(self):
        check = "constants_do_what_is_declared"
        rejects(check, declaring(TD, limit_is_line=False), TD, "constants", because="it must fall")
        rejects(check, declaring(DOUBLE, limit_is_line=True), DOUBLE, "constants", because="one point")
        because = "does not vanish along the constants"
        rejects("limit_attracts", declaring(DOUBLE, limit_is_line=True), DOUBLE, "constants", because=because)

    def test_constants_that_are_said_to_be_a_problem_and_are_none(self):
        wrong = declaring(DOUBLE, needs_ones_outside_span=True)
        rejects("limit_attracts", wrong, kind="constants", because="does not vanish along the constants")

    def test_a_gain_that_is_not_learned(self):
        rejects("gain_is_learned", with_step(TD, no_gain), TD, because="squared error of the gain")

    @pytest.mark.parametrize("rate", [0.5, 2.0])
    def test_another_rate(self, rate):
        rejects("rate_holds", declaring(DOUBLE, rate=rate), because=f"declared {rate:g}")


class TestInvariance:
    def test_a_discount_that_is_not_declared(self):
        wrong = declaring(TD, mean_field=lambda problem, params: td_field(problem, discount=0.5))
        rejects("shifted_rewards_keep_the_limit", wrong, TD, because="vector b")
        assert (
            result("shifted_rewards_keep_the_limit", declaring(wrong, discounted=True)).outcome == "skipped"
        )

    def test_a_limit_that_moves_with_the_rewards(self):
        wrong = declaring(TD, limit=lambda problem, params, first: problem.solution.gain * np.ones(2))
        rejects("shifted_rewards_keep_the_limit", wrong, TD, because="differences of values")

    def test_shifts_of_rewards_against_what_is_declared(self):
        check, symmetric = "shifted_rewards_keep_the_path", gb.ALGORITHMS["double-chain-symmetric"]
        rejects(check, declaring(DOUBLE, shift_invariant=True), because="after a shift")
        rejects(check, declaring(symmetric, shift_invariant=False), symmetric, because="declared False")

    def test_rewards_that_are_clipped(self):
        def step(state, params, rows, move, step_size):
            here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
            reward = min(1.0, move.reward)
            axpy(rows, move.here, step_size * (reward + after - here), state.weights)

        rejects("doubled_rewards_double_the_path", with_step(DOUBLE, step), because="doubled rewards")

    @pytest.mark.parametrize("kind", ["dense", "tabular"])
    def test_names_of_states_that_are_used_as_numbers(self, kind):
        def step(state, params, rows, move, step_size):
            here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
            change = step_size * (move.reward + after - here) / (1.0 + move.here)
            axpy(rows, move.here, change, state.weights)

        rejects("names_of_states_do_not_matter", with_step(DOUBLE, step), kind=kind, because="renamed")

    def test_two_results_in_one_place(self):
        right = gb.ALGORITHMS["differential-td"]

        def step(state, params, rows, move, step_size):
            weights, change = state.weights, state.first
            values(rows, move.here, move.here, weights, change, change)
            for k in range(len(change)):
                change[k] = step_size[k] * (move.reward - change[k])
            add_row(rows, move.here, change, weights)

        rejects("kinds_of_features_agree", with_step(right, step), right, because="dense and sparse")

    def test_step_sizes_against_what_is_declared(self):
        def step(state, params, rows, move, step_size):
            axpy(rows, move.here, 0.1, state.weights)

        because = "against what is declared"
        rejects("step_sizes_matter", with_step(DOUBLE, step), because=because)
        rejects("step_sizes_matter", declaring(DOUBLE, step_free=True), because=because)
        assert result("step_sizes_matter", gb.ALGORITHMS["lstd"]).outcome == "passed"

    def test_a_projection_that_is_dropped(self):
        rejects("parameters_matter", with_step(SINGLE, no_projection), SINGLE, because="radius")


class TestOracles:
    @pytest.mark.parametrize("step", [flipped_sign, one_chain_twice, new_weights_used])
    def test_wrong_steps_of_two_chains(self, step):
        rejects("paths_average_to_the_exact_mean", with_step(DOUBLE, step))

    def test_one_chain_used_twice(self):
        rejects("moments_are_exact", with_step(DOUBLE, one_chain_twice), because="standard errors off")

    def test_a_gain_that_is_updated_before_it_is_used(self):
        rejects("paths_average_to_the_exact_mean", with_step(TD, gain_first), TD)
        rejects("moments_are_exact", with_step(TD, gain_first), TD, because="standard errors off")

    def test_an_engine_that_uses_one_chain_twice(self, monkeypatch):
        checks = ("moments_are_exact", "runs_average_to_the_mean_of_paths")
        assert [result(check, DOUBLE).outcome for check in checks] == ["passed", "passed"]
        moves_of = work.moves_of
        monkeypatch.setattr(work, "moves_of", lambda drawn, path: moves_of(drawn[:1], path))
        for check in checks:
            found = result(check, DOUBLE)
            assert found.outcome == "failed"
            assert "standard errors off" in found.detail


def test_every_check_rejects_something_here():
    source = Path(__file__).read_text()
    assert [name for name in NAMED if f'"{name}"' not in source] == []
