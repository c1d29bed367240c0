"""Answers for another policy than the one that made the log: features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gainbias as gb
from gainbias.evaluation.another.chances import Chances, PairFeatures
from gainbias.evaluation.another.fitted import Moved
from gainbias.evaluation.another.linear import LinearModel, LinearSums, Rows
from gainbias.evaluation.another.record import widened
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import estimate_gain
from gainbias.evaluation.observations import observation_map
from gainbias.evaluation.sources.spaces import Limits
from tests.evaluation.test_another import Log, answer, drawn, log_of
from tests.oracles.decisions import DECISIONS, Decisions
from tests.oracles.decisions_late import LEARNT_FROM, NUMBER_DECISIONS

ONE_HOT = np.eye(20)


def features_of(made: Decisions, of_ratio: bool = False) -> gb.ActionFeatures:
    table = made.ratio_features if of_ratio else made.features
    assert table is not None
    return gb.ActionFeatures(lambda states, actions: table[states, actions])


def by_features(made: Decisions, log: Log, **settings: Any) -> gb.Estimate:
    return answer(
        log,
        made.target,
        features=features_of(made),
        ratio_features=features_of(made, of_ratio=True),
        num_states=made.num_states,
        **settings,
    )


class TestSameAsTables:
    def test_a_feature_for_each_state_is_a_table(self):
        made, log = drawn("random", 5_000)
        table, linear = answer(log, made.target), answer(log, made.target, features=ONE_HOT)
        assert linear.gain == pytest.approx(table.gain, abs=1e-9)
        np.testing.assert_allclose(linear.value(np.arange(20)), table.value(np.arange(20)), atol=1e-6)
        assert linear.action_value(3, 2) == pytest.approx(table.action_value(3, 2), abs=1e-6)
        assert linear.gain_interval == pytest.approx(table.gain_interval, abs=0.01)
        ends = linear.value_interval(np.arange(20)), table.value_interval(np.arange(20))
        np.testing.assert_allclose(ends[0], ends[1], atol=0.1)

    def test_with_durations_and_discount(self):
        made, log = drawn("events", 5_000)
        table, linear = answer(log, made.target), answer(log, made.target, features=np.eye(10))
        assert linear.gain == pytest.approx(table.gain, abs=1e-9)
        np.testing.assert_allclose(linear.value(np.arange(10)), table.value(np.arange(10)), atol=1e-6)
        made, log = drawn("random", 5_000)
        table, linear = (
            answer(log, made.target, features=features, discount=0.8) for features in ("auto", ONE_HOT)
        )
        np.testing.assert_allclose(linear.value(np.arange(20)), table.value(np.arange(20)), atol=1e-6)

    def test_with_ends_of_episodes(self):
        rng = np.random.default_rng(0)
        states = rng.integers(0, 4, 4_000)
        log = {"state": states, "a": rng.integers(0, 2, 4_000), "reward": rng.normal(size=4_000) + states}
        log["terminated"] = (states == 3) & (rng.random(4_000) < 0.5)
        table, linear = (answer(log, [0, 1, 1, 0], features=features) for features in ("auto", np.eye(4)))
        assert linear.gain == pytest.approx(table.gain, abs=1e-9)


class TestOneNumber:
    def test_with_the_same_features_model_ratio_and_combination_are_one_number(self):
        """Also where the features express nothing."""
        made, log = drawn("kinds-neither", 5_000)
        found = [
            answer(
                log, made.target, features=features_of(made), num_states=made.num_states, algorithm=algorithm
            ).gain
            for algorithm in ("auto", "model", "ratio")
        ]
        assert found[1:] == pytest.approx(found[:1] * 2, abs=1e-9)

    def test_with_others_they_are_not(self):
        made, log = drawn("kinds-values", 5_000)
        found = [by_features(made, log, algorithm=name).gain for name in ("auto", "model", "ratio")]
        assert found[0] == pytest.approx(found[1], abs=0.02)
        assert abs(found[2] - found[1]) > 0.02


class TestFeaturesOfTheRatio:
    """By default they are those of values times the probability of the action under the policy."""

    SEEN = np.linspace(-1.0, 1.0, 7)

    def features(self) -> PairFeatures:
        limits = Limits((), np.array(-np.inf), np.array(np.inf), whole=False)
        observed = observation_map(limits, "polynomial,2", self.SEEN, "zero")
        chances = Chances(lambda seen: np.stack([seen > 0.0, seen <= 0.0], axis=1) * 1.0, "the policy", 2)
        return PairFeatures(observed, None, chances, 2, times_chances=True)

    def test_they_are_0_where_the_policy_does_something_else(self):
        rows = self.features().rows(self.SEEN, np.zeros(7))
        assert not rows[self.SEEN <= 0.0].any()
        assert rows[self.SEEN > 0.0].any(axis=1).all()

    def test_what_is_expected_is_their_mean_over_actions(self):
        made = self.features()
        made.chances = Chances(lambda seen: np.tile([0.3, 0.7], (len(seen), 1)), "the policy", 2)
        mean = 0.3 * made.rows(self.SEEN, np.zeros(7)) + 0.7 * made.rows(self.SEEN, np.ones(7))
        np.testing.assert_allclose(made.expected(self.SEEN), mean, atol=1e-12)

    @pytest.mark.slow
    def test_a_policy_that_jumps_is_followed(self):
        """Polynomials for each action alone are 2 standard errors off on average here."""
        made = NUMBER_DECISIONS["thermostat"]()
        logs = made.logs(np.random.default_rng(1), 5_000, 12)
        off = []
        for number in range(12):
            found = answer(log_of(logs, number), made.chances)
            off.append((found.gain - made.gain) / found.diagnostics.standard_error)
        assert abs(np.mean(off)) < 1.0  # of 12: the standard error is .3


class TestInfluence:
    def test_terms_are_the_derivative_of_the_gain(self):
        """A step that counts a little more moves the gain by its term, where both models are wrong too."""
        rng = np.random.default_rng(0)
        phi, psi = (Rows(*(rng.normal(size=(400, d)) for _ in range(3))) for d in (3, 4))
        ones = np.ones((400, 1))
        phi, psi = (Rows(*(np.concatenate([part, ones], axis=1) for part in rows)) for rows in (phi, psi))
        rewards, lasted = rng.normal(size=400), rng.uniform(0.5, 2.0, 400)

        def model(weight: float, place: int) -> LinearModel:
            sums = LinearSums.of(phi, psi, rewards, lasted)
            one = [Rows(*(part[[place]] for part in rows)) for rows in (phi, psi)]
            extra = LinearSums.of(one[0], one[1], rewards[[place]], lasted[[place]])
            more = LinearSums(*(weight * getattr(extra, name) for name in extra.__dict__))
            return LinearModel(sums.plus(more))

        base = model(0.0, 0)
        terms, _ = base.influence(400).add(phi, psi, rewards, lasted)
        assert abs((terms - base.gain).mean()) < 1e-10
        for place in (0, 17, 300):
            moved = (model(1e-5, place).gain - base.gain) / 1e-5
            assert moved == pytest.approx((terms[place] - base.gain) / 400, rel=1e-3)


@pytest.mark.slow
class TestCoverage:
    """Nominal 95% in 120 logs: 4 standard errors of a share are 8%."""

    @pytest.mark.parametrize("name", ["kinds", "kinds-values", "kinds-ratio", "kinds-events"])
    def test_it_holds_if_one_of_both_can_be_expressed(self, name: str):
        made = DECISIONS[name]()
        logs = made.logs(np.random.default_rng(5), made.lengths[1], 120)
        found = [by_features(made, log_of(logs, number)) for number in range(120)]
        held = [one.gain_interval[0] < made.gain < one.gain_interval[1] for one in found]
        assert 0.87 <= np.mean(held) <= 1.0
        if name in ("kinds", "kinds-events"):
            ends = np.array([one.value_interval(np.arange(made.num_states)) for one in found])
            values = (ends[:, :, 0] < made.values) & (made.values < ends[:, :, 1])
            assert 0.9 <= values.mean() <= 0.995

    def test_features_that_express_nothing_are_found_out(self):
        made = DECISIONS["kinds-neither"]()
        logs = made.logs(np.random.default_rng(5), made.lengths[2], 20)
        for number in range(20):
            found = by_features(made, log_of(logs, number))
            assert any(words.startswith("the features do not") for words in found.diagnostics.warnings)


class TestForms:
    BOX = np.random.default_rng(0).uniform(-1.0, 1.0, (4_000, 2))

    def log(self) -> Log:
        actions = np.random.default_rng(1).integers(0, 2, 4_000)
        noise = 0.1 * np.random.default_rng(2).normal(size=4_000)
        return {"state": self.BOX, "a": actions, "reward": self.BOX[:, 0] * actions + noise}

    def test_numbers_get_polynomials(self):
        """Where action 1 is taken if the first number is positive, the mean of its positive part is 1 / 4."""
        found = answer(self.log(), lambda seen: int(seen[0] > 0.0))
        assert found.gain_interval[0] < 0.25 < found.gain_interval[1]
        assert found.features.startswith("polynomial,5: 21 features")
        assert found.action_value([0.9, 0.0], 1) > found.action_value([0.9, 0.0], 0) + 0.5

    def test_continuous_actions_need_their_expected_features(self):
        rng = np.random.default_rng(0)
        states, actions = rng.normal(size=5_000), rng.normal(size=5_000)
        log = {"state": states, "a": actions, "reward": states - (actions - 1.0) ** 2}

        def features(seen: Any, done: Any) -> Any:
            return np.stack([np.ones(len(seen)), seen, done, done**2], axis=1)

        with pytest.raises(ValueError, match=r"for continuous actions pass features=gb\.ActionFeatures"):
            answer(log, "random", features=gb.ActionFeatures(features))
        pairs = gb.ActionFeatures(features, lambda seen: features(seen, np.full(len(seen), 0.5)))
        found = answer(log, lambda state: 0.5, features=pairs)
        assert found.gain_interval[0] < -0.25 < found.gain_interval[1]
        assert found.action_value(0.0, 1.0) > found.action_value(0.0, -1.0)

    def test_kept_without_its_function(self, tmp_path: Path):
        found = answer(self.log(), lambda seen: 1)
        found.save(tmp_path / "other.npz")
        again = gb.load_estimate(tmp_path / "other.npz", features=found.observed.rows)
        assert again.gain == found.gain
        assert again.value([0.5, 0.5]) == found.value([0.5, 0.5])
        with pytest.raises(ValueError, match="which the file of an estimate does not contain"):
            again.action_value([0.5, 0.5], 1)
        gb.write_page(tmp_path / "other.npz", tmp_path / "other.html")

    def test_weak_overlap_has_a_truncated_answer(self):
        made = DECISIONS["weak-overlap"]()
        log = log_of(made.logs(np.random.default_rng(3), 10_000, 8), 1)
        found = answer(log, made.target, features=np.eye(5))
        assert found.target is not None
        assert found.target.overlap.is_weak
        assert found.target.truncated is not None
        low, high = found.target.truncated.interval
        assert low < found.target.truncated.gain < high
        assert "with weights cut at 25, which takes" in " ".join(found.diagnostics.warnings)

    def test_wrong_arguments(self):
        made, log = drawn("random", 1_000)
        with pytest.raises(ValueError, match="ratio_features are for features, and states are counted"):
            answer(log, made.target, ratio_features=ONE_HOT)
        with pytest.raises(ValueError, match="ratio_features must be features, found discrete states"):
            answer(log, made.target, features=ONE_HOT, ratio_features="auto")
        with pytest.raises(ValueError, match="importance sampling is for states that are counted"):
            answer(log, made.target, features=ONE_HOT, algorithm="importance-sampling")
        with pytest.raises(ValueError, match="ActionFeatures are for another policy"):
            gb.evaluate_log(log, features=gb.ActionFeatures(lambda seen, done: seen))
        with pytest.raises(ValueError, match="pass fewer, such as"):
            answer(log, made.target, features=np.random.default_rng(0).normal(size=(20, 400)))

    def test_actions_that_never_happened(self):
        made, log = drawn("random", 2_000)
        log = log | {"a": np.where(log["a"] == 2, 0, log["a"])}
        with pytest.raises(ValueError, match=r"actions that the log lacks, with probability 0\..*: 2"):
            answer(log, made.target, features=ONE_HOT)

    def test_a_log_that_never_does_what_the_policy_does(self):
        """Each action happened, but elsewhere."""
        places = np.random.default_rng(0).normal(size=2_000)
        log = {"state": places, "a": (places > 0.0).astype(int), "reward": places}
        with pytest.raises(ValueError, match="no support: in no row of the log was done what the policy may"):
            answer(log, lambda place: int(place < 0.0))
        same = answer(log, lambda place: int(place > 0.0))
        assert same.gain == pytest.approx(places[:-1].mean(), abs=0.01)

    def test_little_that_never_happened_is_left_out_as_in_tables(self):
        made, log = drawn("random", 10_000)
        log = log | {"a": np.where(log["a"] == 2, 0, log["a"])}
        rare = np.concatenate([made.target[:, :2], np.full((20, 1), 0.03)], axis=1)
        rare[:, :2] *= 0.97 / rare[:, :2].sum(axis=1, keepdims=True)
        table, linear, higher = (
            answer(log | {"reward": log["reward"] + level}, rare, features=features)
            for level, features in ((0.0, "auto"), (0.0, ONE_HOT), (50.0, ONE_HOT))
        )
        assert linear.gain == pytest.approx(table.gain, abs=1e-9)
        assert higher.gain == pytest.approx(linear.gain + 50.0, abs=1e-6)
        assert "action 2 in any state" in " ".join(linear.diagnostics.gain_warnings)

    def test_a_behaviour_that_cannot_have_made_the_log(self):
        made, log = drawn("random", 1_000)
        behaviour = np.tile([1.0, 0.0, 0.0], (20, 1))
        row = int(np.argmax(log["a"] > 0))
        with pytest.raises(ValueError, match=f"row {row} of the log takes action"):
            answer(log, made.target, features=ONE_HOT, behaviour=behaviour)


def pushed_along_a_line(length: int, seed: int) -> dict[str, np.ndarray]:
    """A place that is pushed to either side at random; being near 0.5 is best."""
    rng = np.random.default_rng(seed)
    noise, pushes = 0.3 * rng.normal(size=length), rng.integers(0, 2, length)
    places = np.zeros(length)
    for k in range(length - 1):
        places[k + 1] = 0.8 * places[k] + 0.8 * pushes[k] - 0.4 + noise[k]
    return {"state": places, "a": pushes, "reward": 0.1 * pushes - (places - 0.5) ** 2}


def test_automatic_features_tell_policies_of_one_number_apart():
    chance = lambda place: 1.0 / (1.0 + np.exp(3.0 * (np.ravel(place)[0] - 0.5)))  # noqa: E731
    found = [
        gb.evaluate_log(
            pushed_along_a_line(8_000, seed),
            action="a",
            policy=lambda place: [1.0 - chance(place), chance(place)],
        )
        for seed in (0, 1, 2)
    ]
    # The exact gain, on a grid of 1,601 places, is -0.2053; with polynomials of degree 3 they are .026 off.
    off = np.array([one.gain + 0.2053 for one in found])
    wide = np.array([one.gain_interval[1] - one.gain_interval[0] for one in found])
    assert abs(off.mean()) < 0.015
    assert (np.abs(off) < wide).all()


class TestWhatFeaturesCannotExpress:
    """Richer features find an answer that is far off, and hardly ever one that is not."""

    @staticmethod
    def found(name: str, rows: int, seed: int, **settings: Any) -> tuple[Any, gb.Estimate]:
        made = LEARNT_FROM[name]()
        logs = made.logs(np.random.default_rng(seed), rows, 1)
        log = {"state": logs.states[0], "a": logs.actions[0], "reward": logs.rewards[0]}
        return made, gb.evaluate_log(log, action="a", policy=made.chances, **settings)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["line", "spring"])
    def test_polynomials_that_are_too_poor(self, name: str):
        poor = "polynomial,3"
        made, found = self.found(name, 20_000, 3, features=poor, ratio_features=poor)
        assert "the features do not express" in " ".join(found.diagnostics.gain_warnings)
        _, better = self.found(name, 20_000, 3, features=poor)  # those of the ratio know the policy
        assert better.gain_interval[0] < made.gain < better.gain_interval[1]
        assert abs(found.gain - made.gain) > 3.0 * abs(better.gain - made.gain)

    @pytest.mark.parametrize("seed", range(4))
    def test_polynomials_that_suffice(self, seed: int):
        _, found = self.found("straight", 5_000, seed)
        assert found.target is not None
        assert found.target.disagreement < 2.75
        assert not found.diagnostics.gain_warnings

    def test_a_move_that_noise_does_not_explain_is_part_of_the_interval(self):
        assert Moved(3.0, 4.0).unexpressed == 0.0
        assert Moved(-5.0, 3.0).unexpressed == pytest.approx(4.0)
        skewed = replace(estimate_gain(BatchMeans.of(np.arange(400.0) % 7)), gain=0.0, interval=(-1.0, 3.0))
        low, high = widened(skewed, 1.0, 100.0 * skewed.standard_error).interval
        assert -low == pytest.approx(high, rel=1e-3)
        made, log = drawn("kinds-neither", 10_000)
        low, high = by_features(made, log).gain_interval
        assert low < made.gain < high  # by noise alone it holds in none of 120 logs

    def test_no_unit_of_observations_is_lost(self):
        made = LEARNT_FROM["straight"]()
        logs = made.logs(np.random.default_rng(0), 2_000, 1)
        errors = [
            gb.evaluate_log(
                {"state": unit * logs.states[0], "a": logs.actions[0], "reward": logs.rewards[0]},
                action="a",
                policy="random",
            ).target.disagreement
            for unit in (1.0, 2.0**500)
        ]
        assert errors[0] == pytest.approx(errors[1], rel=1e-3)

    def test_many_numbers(self):
        rng = np.random.default_rng(0)
        log = {"a": rng.integers(0, 3, 2_000), "reward": rng.normal(size=2_000)}
        found = gb.evaluate_log(log | {"state": rng.normal(size=(2_000, 30))}, action="a", policy="random")
        assert found.features.startswith("polynomial,1")
        with pytest.raises(ValueError, match="500 numbers and 3 actions are too many to choose features"):
            gb.evaluate_log(log | {"state": rng.normal(size=(2_000, 500))}, action="a", policy="random")


class TestFunctionsOfActions:
    """What functions of the user may do, with continuous actions."""

    @staticmethod
    def ask(features, expected):
        rng = np.random.default_rng(0)
        log = {"state": rng.normal(size=300), "a": rng.normal(size=300), "reward": rng.normal(size=300)}
        given = gb.ActionFeatures(features, expected)
        return gb.evaluate_log(log, action="a", policy=lambda state: 0.1, features=given)

    @staticmethod
    def three(seen, actions):
        return np.stack([np.ones(len(seen)), np.ravel(seen), np.ravel(actions)], axis=1)

    def test_errors_are_said_in_words(self):
        with pytest.raises(
            ValueError, match="the expected features failed: ZeroDivisionError: division by zero"
        ):
            self.ask(self.three, lambda seen: 1 / 0)
        with pytest.raises(ValueError, match="the features failed: ZeroDivisionError: division by zero"):
            self.ask(lambda seen, actions: 1 / 0, lambda seen: np.ones((len(seen), 3)))

    def test_both_must_have_the_same_columns(self):
        with pytest.raises(ValueError, match="expected features must have the same columns, found 3 and 2"):
            self.ask(self.three, lambda seen: np.ones((len(seen), 2)))
