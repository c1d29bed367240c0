"""Answers for another policy than the one that made the log: tables."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gainbias as gb
from gainbias.cli import verbs as cli
from gainbias.evaluation.another.chances import Chances
from gainbias.evaluation.another.counted import Products
from gainbias.evaluation.another.tables import Counts, NumberedSteps, PairSums, TableModel
from tests.oracles.decisions import DECISIONS, Decisions, Logs
from tests.oracles.decisions_late import LATE_DECISIONS

Log = dict[str, NDArray[Any]]


def log_of(logs: Logs, number: int = 0) -> Log:
    log = {"state": logs.states[number], "a": logs.actions[number], "reward": logs.rewards[number]}
    return log if logs.durations is None else log | {"dt": logs.durations[number]}


def drawn(name: str, length: int, seed: int = 0) -> tuple[Decisions, Log]:
    made = DECISIONS[name]()
    return made, log_of(made.logs(np.random.default_rng(seed), length, 1))


def answer(log: Log, policy: Any, **settings: Any) -> gb.Estimate:
    if "dt" in log:
        settings |= {"duration": "dt"}
    return gb.evaluate_log(log, action="a", policy=policy, **settings)


SMALL = {"state": np.array([0, 0, 1, 1] * 100), "a": np.array([0, 1, 0, 1] * 100), "reward": np.arange(400.0)}


ONE_HOT_ROWS = np.eye(20)
LONG = {name: np.tile(column, 500) for name, column in SMALL.items()}


class TestByHand:
    def test_the_gain_is_that_of_the_counted_chain(self):
        made, log = drawn("random", 3_000)
        n, a = made.num_states, made.num_actions
        counts = np.zeros((n, a, n))
        np.add.at(counts, (log["state"][:-1], log["a"][:-1], log["state"][1:]), 1.0)
        paid = np.zeros((n, a))
        np.add.at(paid, (log["state"][:-1], log["a"][:-1]), log["reward"][:-1])
        visits = counts.sum(axis=2)
        mrp = gb.MarkovRewardProcess.from_mdp(counts / visits[:, :, None], paid / visits, made.target)
        exact = gb.solve(mrp)
        found = answer(log, made.target)
        assert found.gain == pytest.approx(exact.gain, abs=1e-12)
        np.testing.assert_allclose(found.value(np.arange(n)), exact.bias, atol=1e-9)
        of_pairs = (paid / visits) - exact.gain + (counts / visits[:, :, None]) @ exact.bias
        state, action = np.divmod(np.arange(n * a), a)
        np.testing.assert_allclose(found.action_value(state, action), of_pairs.ravel(), atol=1e-9)

    def test_the_policy_that_made_the_log_earns_what_the_log_earned(self):
        """With the log's own frequencies the chain is that of the log, up to its last step."""
        rng = np.random.default_rng(0)
        states, actions = rng.integers(0, 3, 2_000), rng.integers(0, 2, 2_000)
        states[-1] = states[0]  # then the counted chain has the frequencies of the log as its law
        log = {"state": states, "a": actions, "reward": rng.normal(size=2_000)}
        own = np.zeros((3, 2))
        np.add.at(own, (states[:-1], actions[:-1]), 1.0)
        found = answer(log, own / own.sum(axis=1, keepdims=True))
        assert found.gain == pytest.approx(log["reward"][:-1].mean(), abs=1e-12)
        assert found.target is not None
        assert found.target.overlap.effective_sample_size == pytest.approx(1_999.0)

    def test_with_durations_it_is_the_ratio_of_both(self):
        made, log = drawn("events", 3_000)
        found = answer(log, made.target)
        paid = answer({**log, "dt": np.ones(3_000)}, made.target)
        lasted = answer({**log, "reward": log["dt"], "dt": np.ones(3_000)}, made.target)
        assert found.gain == pytest.approx(paid.gain / lasted.gain, rel=1e-9)
        assert found.per == "unit of 'dt'"

    def test_episodes_end_and_begin_anew(self):
        """Two steps an episode; the end takes one more, with reward 0."""
        log = {
            "state": np.array([0, 1] * 300),
            "a": np.array([0, 0, 0, 1] * 150),
            "reward": np.array([1.0, 2.0, 1.0, 5.0] * 150),
            "terminated": np.array([False, True] * 300),
        }
        assert answer(log, [0, 1]).gain == pytest.approx(2.0)
        assert answer(log, [0, 1], on_termination="reward").gain == pytest.approx(3.0)
        discounted = answer(log, [0, 1], discount=0.5)
        assert discounted.gain == pytest.approx(2.0)
        assert discounted.value([0, 1]).tolist() == pytest.approx([3.5, 5.0])
        assert discounted.action_value(1, 0) == pytest.approx(2.0)

    def test_no_transition_leads_across_a_cut(self):
        log = {"state": np.array([0, 0, 1, 1] * 50), "a": np.array([0, 1, 0, 1] * 50)}
        log |= {"reward": 1.0 * log["state"], "run": np.repeat(np.arange(100), 2)}
        with pytest.raises(ValueError, match=r"falls apart into 2 recurrent classes: \{0\}, \{1\}"):
            gb.evaluate_log(log, action="a", policy="random", columns={"episode": "run"})

    def test_a_dataset_of_minari_has_its_actions(self):
        gymnasium = pytest.importorskip("gymnasium")
        made, log = drawn("random", 1_000)
        episodes = [
            SimpleNamespace(
                id=0,
                observations=log["state"],
                actions=log["a"][:-1],
                rewards=log["reward"][:-1],
                terminations=np.zeros(999, dtype=bool),
                truncations=np.arange(999) == 998,
            )
        ]
        dataset = SimpleNamespace(
            observation_space=gymnasium.spaces.Discrete(20),
            action_space=gymnasium.spaces.Discrete(3),
            iterate_episodes=lambda: iter(episodes),
        )
        found = gb.evaluate_log(dataset, policy=made.target)
        assert found.gain == pytest.approx(answer(log, made.target).gain, abs=1e-12)

    def test_in_parts_as_in_one(self, tmp_path: Path):
        pandas = pytest.importorskip("pandas")
        made, log = drawn("random", 70_000)  # more than a batch of rows
        pandas.DataFrame(log).to_parquet(tmp_path / "log.parquet")
        whole, parts = answer(log, made.target), answer(str(tmp_path / "log.parquet"), made.target)
        assert whole.gain == parts.gain
        assert whole.gain_interval == parts.gain_interval
        assert whole.value(3) == parts.value(3)


class TestInfluence:
    def test_terms_are_the_derivative_of_the_gain(self):
        """A transition that is seen once more moves the gain by its term over the number of steps."""
        made, log = drawn("random", 4_000)
        steps = NumberedSteps(
            log["state"][:-1], log["a"][:-1], log["state"][1:], log["reward"][:-1], np.ones(3_999)
        )

        def model(weight: float, place: int) -> TableModel:
            sums = PairSums(20, 3)
            sums.add(steps)
            keys, counted = sums.counted()
            key = (steps.here[place] * 3 + steps.actions[place]) * 20 + steps.after[place]
            row = np.searchsorted(keys, key)
            counted[:, row] += weight * np.array([1.0, steps.rewards[place], 1.0])
            counts = Counts.of(sums, 99)
            return TableModel(counts, made.target, lambda places: places.tolist())

        base = model(0.0, 0)
        influence = base.influence(3_999)
        influence._larger[:] = 1.0
        terms = influence.add(steps) - base.gain
        assert abs(terms.mean()) < 1e-12
        for place in (0, 17, 1_234):
            moved = (model(1e-4, place).gain - base.gain) / 1e-4
            assert moved == pytest.approx(terms[place] / 3_999, rel=1e-3)

    def test_batches_move_values_as_they_should(self):
        """The deviations of all batches are those of a chain estimated with that batch weighing more."""
        made, log = drawn("events", 4_000)
        rows = [part[:-1] for part in (log["state"], log["a"])]
        steps = NumberedSteps(*rows, log["state"][1:], log["reward"][:-1], log["dt"][:-1])

        def values(weight: float, batch: int) -> tuple[Any, Any]:
            sums = PairSums(10, 2)
            own = np.arange(3_999) * 32 // 3_999 == batch
            part = NumberedSteps(
                *(getattr(steps, name)[own] for name in ("here", "actions", "after", "rewards", "durations"))
            )
            sums.add(steps)
            keys, counted = sums.counted()
            extra = PairSums(10, 2)
            extra.add(part)
            more, sizes = extra.counted()
            counted[:, np.searchsorted(keys, more)] += weight * sizes
            model = TableModel(Counts.of(sums, 99), made.target, lambda places: places.tolist())
            return model, np.concatenate([model.state_values, model.pair_values])

        base, centre = values(0.0, 0)
        influence = base.influence(3_999)
        influence._larger[:] = 1.0
        influence.add(steps)
        states, pairs = influence.deviations()
        for batch in (0, 7, 31):
            moved = 32.0 * (values(1e-5, batch)[1] - centre) / 1e-5
            found = np.concatenate([states[batch], pairs[batch]])
            np.testing.assert_allclose(found, moved, rtol=2e-3, atol=2e-3 * np.abs(moved).max())


@pytest.mark.slow
class TestCoverage:
    """Nominal 95% in 200 logs: 4 standard errors of a share are 6%, so chance fails one in 16,000."""

    @pytest.mark.parametrize("name", ["random", "cycle", "events"])
    def test_intervals_hold(self, name: str):
        made = DECISIONS[name]()
        length = made.lengths[1]
        logs = made.logs(np.random.default_rng(7), length, 200)
        held, values, pairs = [], [], []
        n, a = made.num_states, made.num_actions
        for number in range(200):
            found = answer(log_of(logs, number), made.target)
            low, high = found.gain_interval
            held.append(low < made.gain < high)
            ends = found.value_interval(np.arange(n))
            values.append(np.mean((ends[:, 0] < made.values) & (made.values < ends[:, 1])))
            ends = found.action_value_interval(*np.divmod(np.arange(n * a), a))
            truth = made.action_values.ravel()
            pairs.append(np.mean((ends[:, 0] < truth) & (truth < ends[:, 1])))
        for shares in (held, values, pairs):
            assert 0.89 <= np.mean(shares) <= 0.995


class TestPolicies:
    MADE, LOG = drawn("random", 2_000)
    BEST = np.arange(20) % 3

    def agent(self) -> Any:
        class Agent:
            def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
                assert deterministic
                return np.asarray(observation) % 3, None

        return Agent()

    @pytest.mark.parametrize("form", ["one at a time", "many", "probabilities", "rows", "agent"])
    def test_all_forms_say_the_same(self, form: str):
        table = np.eye(3)[self.BEST]
        policies: dict[str, Any] = {
            "one at a time": lambda state: 0 if state % 3 == 0 else int(state % 3),
            "many": lambda states: states % 3,
            "probabilities": table,
            "rows": lambda state: table[state],
            "agent": self.agent(),
        }
        found = answer(self.LOG, policies[form])
        assert found.gain == pytest.approx(answer(self.LOG, self.BEST).gain, abs=1e-14)

    def test_random_takes_all_actions_of_the_log(self):
        found = answer(self.LOG, "random")
        assert found.gain == pytest.approx(answer(self.LOG, np.full((20, 3), 1 / 3)).gain)
        assert "each of the 3 actions" in " ".join(found.diagnostics.notes)

    def test_a_function_that_draws_is_refused(self):
        rng = np.random.default_rng(0)
        with pytest.raises(ValueError, match="must return the probabilities of all actions"):
            answer(self.LOG, lambda state: int(rng.integers(0, 3)))

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (
                np.full((20, 3), 0.3),
                r"probabilities .* at observation 0: .* sum to 1, found a sum of 0\.9; div",
            ),
            (np.full((5, 3), 1 / 3), "the policy has 5 rows, and the log has states up to 19"),
            (np.full(20, 0.5), "must be integers of shape"),
            (np.full(20, -1), "takes action -1 at observation 0"),
            ("best", "must be 'random', a function, an agent or an array"),
            (lambda state: 1 / 0, "the policy failed: ZeroDivisionError"),
            (lambda state: 0.5, "actions must be integers from 0"),
            (
                lambda state: np.array([state % 3]),
                "array with one number.*: return an action as a plain number",
            ),
            (lambda state: [[0.5, 0.5]], "must return an action, or the probability of each action"),
            ([[0.5, 0.5], [1.0]] * 10, "the policy: an array must have rows of the same length"),
            (
                {"new": np.full((20, 3), 1 / 3)},
                "ask about one policy at a time, or about two with gb.compare_",
            ),
            ({0: 1}, "is a dict: pass an array with a row for each state"),
            (lambda state: [np.nan, 1.0, 0.0], "gives actions the probabilities"),
        ],
    )
    def test_wrong_policies_are_refused(self, policy: Any, message: str):
        with pytest.raises(ValueError, match=message):
            answer(self.LOG, policy)

    def test_probabilities_in_single_precision_are_no_error(self):
        chances = Chances(lambda seen: np.full((len(seen), 3), 1 / 3, dtype=np.float32), "it", 3)
        assert chances(np.arange(2)).sum() == pytest.approx(2.0)


class TestSeveralClasses:
    """A queue that grows or shrinks by one; the policy lets nobody in from two on, and 5 was seen twice."""

    STATES = np.append(np.tile([0, 1, 2, 1], 200), [0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0])
    ACTIONS = np.append(np.diff(STATES) >= 0, False).astype(int)
    ACTIONS[-7:-5] = 0, 1  # from 5 to 5 where nobody was let in, and then to 4
    LOG: Log = {"state": STATES, "a": ACTIONS, "reward": 1.0 * STATES}  # noqa: RUF012

    def test_the_message_has_what_is_needed_to_go_on(self):
        with pytest.raises(ValueError, match="falls apart into 2 recurrent classes") as caught:
            answer(self.LOG, [1, 1, 0, 0, 0, 0])
        for words in (
            ": {1, 2}, {5}. No transition of the log under the target's actions leads from one to another",
            "no single answer: the gain is 1.5 in {1, 2} (402 steps of the log), 5 in {5} (1 step of the log",
            "Missing are steps out of the smaller classes by action 0 in state 5. Use a longer log",
            "For the answer in {1, 2} alone, leave out the rows in the other classes",
        ):
            assert words in str(caught.value)

    def test_without_the_rows_of_the_others_there_is_an_answer(self):
        kept = self.STATES != 5
        log = {name: column[kept] for name, column in self.LOG.items()} | {"run": np.cumsum(~kept)[kept]}
        found = answer(log, [1, 1, 0, 0, 0], columns={"episode": "run"})
        assert found.gain == pytest.approx(1.5)

    def test_actions_that_the_log_lacks_may_lead_out(self):
        policy = np.eye(2)[[1, 1, 0, 0, 0, 0]]
        policy[5] = 0.9, 0.1
        log = self.LOG | {"run": np.arange(len(self.STATES)) > len(self.STATES) - 6}  # 5 is never left
        with pytest.raises(ValueError, match=r"lacks some of its actions there, .* out: action 1 in state 5"):
            answer(log, policy, columns={"episode": "run"})


class TestBadInput:
    def test_a_log_without_actions(self):
        with pytest.raises(ValueError, match=r"say which column has them, action=\.\.\."):
            gb.evaluate_log(SMALL, policy="random")
        with pytest.raises(ValueError, match="the log has no column 'b', it has state, a, reward"):
            gb.evaluate_log(SMALL, action="b", policy="random")

    def test_arguments_that_need_another_policy(self):
        for name, value in (("action", "a"), ("behaviour", "random"), ("discount", 0.9)):
            with pytest.raises(ValueError, match=f"{name} is for another policy"):
                gb.evaluate_log(SMALL, **{name: value})

    def test_actions_that_the_policy_does_not_know_are_named_with_their_row(self):
        log = SMALL | {"a": np.where(np.arange(400) == 250, 7, SMALL["a"])}
        found = answer(log, np.full((2, 2), 0.5))
        words = "row 250 of the log: the action is 7, outside the space from 0 to 1, and the policy knows"
        assert words in found.diagnostics.warnings[0]
        assert found.diagnostics.num_transitions == 249
        assert not found.diagnostics.is_complete

    @pytest.mark.parametrize("features", ["auto", np.eye(2)], ids=["tables", "features"])
    def test_a_column_of_probabilities_that_cannot_be_those_of_the_log(self, features):
        rng = np.random.default_rng(0)
        states = rng.integers(0, 2, 4_000)
        right = np.array([0.02, 0.4])[states]
        actions = (rng.random(4_000) < right).astype(int)
        log = {"state": states, "a": actions, "reward": 1.0 * states}
        taken = np.where(actions == 1, right, 1.0 - right)
        for column, is_doubted in ((taken, False), (taken / 2, True), (1.0 - taken, True)):
            found = answer(log | {"p": column}, "random", behaviour="p", features=features)
            doubts = [words for words in found.diagnostics.warnings if "cannot be those" in words]
            assert bool(doubts) == is_doubted
            assert all("column 'p'" in words for words in doubts)
        other = answer(log | {"p": taken / 2}, "random", features=features)
        assert other.gain_interval == found.gain_interval

    @pytest.mark.parametrize("wrong", [0.0, -0.5, 1.5, np.nan])
    def test_probabilities_that_are_none_are_named_with_their_row(self, wrong: float):
        log = SMALL | {"p": np.where(np.arange(400) == 300, wrong, 0.5)}
        found = answer(log, "random", behaviour="p")
        assert "row 300 of the log: the probability of its action is" in found.diagnostics.warnings[0]

    def test_a_column_of_probabilities_that_are_words(self):
        with pytest.raises(
            ValueError, match="row 0 of the log: the probability of its action is 'half', must"
        ):
            answer(SMALL | {"p": np.full(400, "half")}, "random", behaviour="p")

    def test_actions_that_are_no_integers(self):
        with pytest.raises(
            ValueError, match=r"integers from 0, in one column, found 0\.0025.* in row 1: num"
        ):
            answer(SMALL | {"a": np.linspace(0.0, 1.0, 400)}, "random")
        for wrong, words in (
            (np.where(np.arange(400) == 7, -1.0, SMALL["a"]), "found -1 in row 7: number"),
            (SMALL["a"] * 1.0, "found whole numbers that are stored as floats: store them as integers"),
            (np.stack([SMALL["a"]] * 2, axis=1), "found 2 columns: number"),
        ):
            with pytest.raises(ValueError, match=f"integers from 0, in one column, {words}"):
                answer(SMALL | {"a": wrong}, "random")
        lost = np.where(np.arange(400) == 250, np.nan, SMALL["a"])
        with pytest.raises(ValueError, match=r"\(row 250 of the log: the action is nan"):
            answer(SMALL | {"a": lost}, "random")

    def test_actions_without_end(self):
        many = np.where(np.arange(400) == 250, 10**9, SMALL["a"])
        with pytest.raises(ValueError, match="actions go up to 1,000,000,000, and at most 100,000"):
            answer(SMALL | {"a": many}, "random")

    def test_no_answer_names_the_row_that_cut_the_log_short(self):
        made, log = drawn("random", 3_000)
        log["reward"][40] = np.nan
        with pytest.raises(ValueError, match=r"^cut short after .*: row 40 of the log: .*; no support: "):
            answer(log, made.target)

    def test_a_behaviour_that_cannot_have_made_the_log(self):
        behaviour = np.array([[1.0, 0.0], [0.5, 0.5]])
        with pytest.raises(ValueError, match="row 1 of the log takes action 1 in state 0, which the behav"):
            answer(SMALL, "random", behaviour=behaviour)

    def test_a_behaviour_that_hardly_can(self):
        found = answer(SMALL, "random", behaviour=np.array([[0.05, 0.95], [0.5, 0.5]]))
        assert "hardly the one that made the log: in state 0" in " ".join(found.diagnostics.warnings)
        found = answer(SMALL, "random", behaviour=np.full((2, 2), 0.5))
        assert "hardly" not in " ".join(found.diagnostics.warnings)

    def test_no_support_no_answer(self):
        log = SMALL | {"a": np.zeros(400, dtype=int)}
        with pytest.raises(ValueError, match=r"no support: .* lacks: action 1 in state [01]"):
            answer(log, [1, 1])

    def test_little_that_is_missing_is_left_out_and_named(self):
        rng = np.random.default_rng(0)
        states = rng.integers(0, 3, 20_000)
        actions = np.where(states == 2, 0, rng.integers(0, 2, 20_000))
        log = {"state": states, "a": actions, "reward": rng.normal(size=20_000) + actions}
        policy = np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
        found = answer(log, policy)
        assert found.target is not None
        assert found.target.overlap.missing_share == pytest.approx(0.1 / 3, rel=0.05)
        place = found.target.overlap.missing[0]
        assert (place.state, place.action, place.visits) == (2, 1, 0.0)
        assert "truncated: 3.3% of the target's steps" in found.diagnostics.warnings[0]

    def test_what_was_left_out_is_part_of_the_interval(self):
        """Two actions that are 1 apart, of which one is missing in a third of the states."""
        rng = np.random.default_rng(0)
        states = rng.integers(0, 3, 20_000)
        actions = np.where(states == 2, 0, rng.integers(0, 2, 20_000))
        log = {"state": states, "a": actions, "reward": 0.01 * rng.normal(size=20_000) + actions}
        policy = np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
        found = answer(log, policy)
        assert found.diagnostics.standard_error == pytest.approx(0.1 / 3, rel=0.1)
        assert found.target is not None
        assert found.target.overlap.assumed_share > 0.95
        assert found.gain_interval[0] < 0.5 * 2 / 3 + 0.1 / 3 < found.gain_interval[1]
        few = np.array([[0.5, 0.5], [0.5, 0.5], [1.0 - 1e-5, 1e-5]])
        said = answer(log | {"reward": actions + rng.normal(size=20_000)}, few).diagnostics
        assert not said.gain_warnings
        assert any(words.startswith("truncated: 0.00033%") for words in said.notes)

    def test_steps_to_states_from_which_the_log_has_no_step_lack_support(self):
        """They are no steps back to the states that are known, whatever these are worth."""
        rng, policy = np.random.default_rng(0), [0, 1, 0, 1]
        states, after = rng.integers(0, 3, (2, 12_000))
        actions, drawn = rng.integers(0, 2, 12_000), rng.random(12_000)
        log = {"state": states, "a": actions, "reward": 1.0 * states, "next": after}
        whole = answer(log, policy[:3], gaps="break")
        found = answer(log | {"next": np.where(drawn < 0.02, 3, after)}, policy, gaps="break")
        assert found.target is not None
        overlap = found.target.overlap
        assert overlap.missing_share == pytest.approx(0.02, rel=0.2)
        assert (overlap.missing[0].state, overlap.missing[0].action) == (3, 1)
        # Values of states are 1 apart, and those of two differ by the root of 2 times their spread.
        least = overlap.missing_share * np.sqrt(2.0) * np.std([0.0, 1.0, 2.0])
        error = np.hypot(least, whole.diagnostics.standard_error)
        assert found.diagnostics.standard_error == pytest.approx(error, rel=0.05)
        for lost in (drawn < 0.3, (states == 1) & (actions == 1)):
            with pytest.raises(ValueError, match=r"no support: .* [23]\d% .* lacks: action 1 in state 3"):
                answer(log | {"next": np.where(lost, 3, after)}, policy, gaps="break")

    @pytest.mark.parametrize("discount", [None, 0.5])
    def test_what_was_earned_on_the_way_to_such_states_counts(self, discount: float | None):
        """In a single state that is sometimes left for good, the gain is the mean of all rewards."""
        rng = np.random.default_rng(0)
        log = {"state": np.zeros(3_000, dtype=int), "a": rng.integers(0, 2, 3_000)}
        log |= {"reward": rng.normal(size=3_000), "next": 1 * (rng.random(3_000) < 0.03)}
        log["reward"] += 5.0 * log["next"]
        found = answer(log, [0, 0], gaps="break", discount=discount)
        mean = log["reward"][log["a"] == 0].mean()
        assert found.gain == pytest.approx(mean, abs=1e-12)
        assert found.value(0) == pytest.approx(0.0 if discount is None else 2.0 * mean, abs=1e-12)

    def test_a_log_may_stop_in_a_state_that_is_new(self):
        made, log = drawn("random", 5_000)
        log["state"][-1] = 20
        found = answer(log, np.vstack([made.target, [[1.0, 0.0, 0.0]]]))
        assert found.target is not None
        assert 0.0 < found.target.overlap.missing_share < 1e-3
        assert found.target.overlap.missing[0].state == 20
        assert not found.diagnostics.gain_warnings

    def test_an_episode_may_end_the_log(self):
        """What follows the end of an episode is then as unknown."""
        log = {name: np.resize(column, 300) for name, column in SMALL.items()}
        log |= {"reward": 1.0 * log["state"], "terminated": np.arange(300) == 299}
        found = answer(log, "random")
        assert (
            "lacks, and were left out: what follows the end of an episode (0." in found.diagnostics.notes[-1]
        )

    def test_weak_overlap_is_said(self):
        made, log = drawn("weak-overlap", 10_000)
        found = answer(log, made.target)
        assert found.target is not None
        assert found.target.overlap.is_weak
        assert any(words.startswith("weak overlap: the 9,999 steps") for words in found.diagnostics.warnings)

    def test_weak_overlap_has_a_truncated_answer(self):
        made, log = drawn("near-deterministic", 2_000)
        found = answer(log, made.target)
        assert found.target is not None
        assert found.target.truncated is not None
        low, high = found.target.truncated.interval
        assert low < found.target.truncated.gain < high
        assert "leaves out what was seen fewer than 20 times" in " ".join(found.diagnostics.warnings)

    @pytest.mark.parametrize("discount", [1.0, -0.1, "much"])
    def test_discounts(self, discount: Any):
        with pytest.raises(ValueError, match="discount must be at least 0 and below 1"):
            answer(SMALL, "random", discount=discount)

    def test_algorithms_are_for_the_policy_of_the_log(self):
        with pytest.raises(
            ValueError, match="for another policy algorithm must be one of 'auto', 'model', 'ratio'"
        ):
            answer(SMALL, "random", algorithm="td-lambda")


class TestOverlap:
    """Overlap is judged by what the interval rests on, not by how many state-actions are rare."""

    def test_memory_counts_in_what_a_log_is_worth(self):
        made, log = drawn("slow", 40_000)
        target = answer(log, made.target).target
        assert target is not None
        assert target.overlap.effective_sample_size > 30_000
        assert 0.3 < target.overlap.worth / (made.row_worth * 40_000) < 3.0

    def test_the_policy_of_the_log_is_worth_all_of_it(self):
        target = answer(SMALL, np.full((2, 2), 0.5)).target
        assert target is not None
        assert not target.overlap.is_weak
        assert target.overlap.worth > 10_000
        assert target.overlap.assumed_share == 0.0

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "rows", "least", "most"),
        [
            ("many-actions", 5_000, 0.0, 0.3),
            ("near-deterministic", 10_000, 0.0, 0.3),
            ("near-deterministic", 2_000, 0.9, 1.0),
            ("weak-overlap", 10_000, 0.9, 1.0),
        ],
    )
    def test_where_it_is_said_to_be_weak(self, name: str, rows: int, least: float, most: float):
        """In 40 logs; the standard error of a share of .15 is .06."""
        made = DECISIONS[name]()
        logs = made.logs(np.random.default_rng(9), rows, 40)
        flagged = []
        for number in range(40):
            try:
                found = answer(log_of(logs, number), made.target)
            except ValueError:  # no support
                flagged.append(True)
            else:
                flagged.append(bool(found.diagnostics.gain_warnings))
        assert least <= np.mean(flagged) <= most

    def test_few_large_errors_are_no_reason_to_doubt(self):
        """Of these logs, whose noise is exponential, those with a few large errors are the ones that hold."""
        made = LATE_DECISIONS["lock"]()
        for seed in (0, 2, 3):
            found = answer(log_of(made.logs(np.random.default_rng(seed), 5_000, 1)), made.target)
            assert not found.diagnostics.gain_warnings
            assert found.gain_interval[0] < made.gain < found.gain_interval[1]

    def test_values_of_rare_state_actions_are_doubted_and_not_the_gain(self):
        made, log = drawn("many-actions", 5_000, 1)
        said = answer(log, made.target).diagnostics
        assert any("seen fewer than 5 times" in words for words in said.warnings)
        assert not any("seen fewer than 5 times" in words for words in said.gain_warnings)


class TestTails:
    """Tails are those of what was earned: weights have a largest value, however uneven they are."""

    @pytest.mark.parametrize("seed", [2, 3])
    def test_uneven_weights_are_no_heavy_tails(self, seed: int):
        made, log = drawn("near-deterministic", 10_000, seed)
        both = gb.compare_policies_on_log(log, made.target, made.behaviour, action="a")
        for warnings in (both.first.diagnostics.gain_warnings, both.doubts):
            assert not any("heavy tails" in words for words in warnings)

    def test_heavy_tails_of_rewards_are_found_under_any_weights(self):
        made, log = drawn("random", 10_000)
        log["reward"] = log["reward"] + np.random.default_rng(1).pareto(1.3, 10_000)
        both = gb.compare_policies_on_log(log, made.target, made.behaviour, action="a")
        assert both.first.diagnostics.verdict.kind == "heavy tails"
        assert any("heavy tails" in words for words in both.doubts)


class TestDiscounted:
    def test_values_are_those_of_the_chain(self):
        made, log = drawn("random", 20_000)
        found = answer(log, made.target, discount=0.8)
        states = np.arange(made.num_states)
        ends = found.value_interval(states)
        truth = made.discounted_values(0.8)
        assert np.mean((ends[:, 0] < truth) & (truth < ends[:, 1])) >= 0.8
        shares = made.target[states] * found.action_value(
            np.repeat(states, 3), np.tile(range(3), 20)
        ).reshape(20, 3)
        np.testing.assert_allclose(shares.sum(axis=1), found.value(states), atol=1e-9)
        assert found.gain == answer(log, made.target).gain


class TestAnswer:
    def test_it_is_kept_and_shown(self, tmp_path: Path):
        made, log = drawn("random", 3_000)
        found = answer(log, made.target)
        found.save(tmp_path / "other.npz")
        again = gb.load_estimate(tmp_path / "other.npz")
        assert again.to_dict() == found.to_dict()
        assert str(again) == str(found)
        assert again.action_value_interval(3, 1) == found.action_value_interval(3, 1)
        gb.write_page(found, tmp_path / "other.html")
        page = (tmp_path / "other.html").read_text()
        assert "Overlap" in page
        told = json.loads(json.dumps(found.to_dict()))
        assert told["target"]["effective_sample_size"] > 100.0
        assert "overlap   2,999 steps of the log are worth" in str(found)

    def test_in_a_shell(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any):
        pandas = pytest.importorskip("pandas")
        monkeypatch.chdir(tmp_path)
        made, log = drawn("random", 3_000)
        pandas.DataFrame(log).to_csv("log.csv", index=False)
        np.save("new.npy", made.target)
        np.save("old.npy", made.behaviour)
        words = ["evaluate", "log.csv", "--action", "a", "--policy", "new.npy", "--behaviour", "old.npy"]
        assert cli.main([*words, "--discount", "0.9", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["gain"] == pytest.approx(answer(log, made.target).gain, abs=1e-12)
        assert told["target"]["discount"] == 0.9
        assert cli.main([*words, "--page", "new.html"]) == 0
        assert "the policy that was asked about" in capsys.readouterr().err
        np.save("rows.npy", ONE_HOT_ROWS)
        words = [*words[:6], "--features", "rows.npy", "--ratio-features", "rows.npy", "--json"]
        assert cli.main(words) == 0
        found = json.loads(capsys.readouterr().out)["gain"]
        assert found == pytest.approx(told["gain"], abs=1e-9)

    def test_a_log_that_changes_between_its_readings(self):
        log = dict(SMALL)

        def policy(states: Any) -> Any:  # it is asked between the readings
            log.update({name: column[:200] for name, column in SMALL.items()})
            return np.full((np.size(states), 2), 0.5) if np.ndim(states) else np.full(2, 0.5)

        with pytest.raises(ValueError, match="the second reading of the log ended after 199 of 399"):
            answer(log, policy)

    def test_action_values_ask_for_actions_that_there_are(self):
        found = answer(SMALL, "random")
        with pytest.raises(ValueError, match="actions must be integers from 0 to 1, found 2"):
            found.action_value(0, 2)
        with pytest.raises(ValueError, match="only in the answer for another policy"):
            gb.evaluate_log(SMALL).action_value(0, 1)

    def test_interrupted_by_its_time(self):
        found = answer(LONG, "random", time_limit=1e-9)
        assert "cut short after" in found.diagnostics.warnings[0]
        assert found.diagnostics.verdict.kind != "cut short"


class TestAlone:
    """The simpler methods that can be asked for by name."""

    def test_model_and_ratio_have_the_gain_of_the_whole(self):
        made, log = drawn("random", 5_000)
        whole = answer(log, made.target)
        for method in ("model", "ratio"):
            alone = answer(log, made.target, algorithm=method)
            assert alone.gain == pytest.approx(whole.gain, abs=1e-12)
            assert method in alone.diagnostics.algorithm
        width = whole.gain_interval[1] - whole.gain_interval[0]
        alone = answer(log, made.target, algorithm="ratio")
        assert alone.gain_interval[1] - alone.gain_interval[0] > width

    def test_importance_sampling_follows_the_behaviour_that_is_given(self):
        """In one state, where nothing depends on what was done before, one ratio is enough."""
        rng = np.random.default_rng(0)
        actions = (rng.random(20_000) < 0.2).astype(int)
        log = {
            "state": np.zeros(20_000, dtype=int),
            "a": actions,
            "reward": rng.normal(size=20_000) + actions,
        }
        found = answer(log, [[0.5, 0.5]], algorithm="importance-sampling", behaviour=[[0.8, 0.2]])
        assert found.gain_interval[0] < 0.5 < found.gain_interval[1]
        assert "importance sampling over" in found.diagnostics.algorithm

    def test_products_do_not_reach_across_cuts_and_do_in_parts_as_in_one(self):
        rng = np.random.default_rng(0)
        ratios, segments = rng.uniform(0.5, 2.0, 500), np.repeat([0, 1], [200, 300])
        whole, parts = Products(), Products()
        whole.add(ratios, segments, np.ones(500), np.ones(500))
        for piece in np.split(np.arange(500), [3, 50, 260]):
            parts.add(ratios[piece], segments[piece], np.ones(len(piece)), np.ones(len(piece)))
        expected = [
            np.prod(ratios[max(0 if k < 200 else 200, k - 3) : k + 1]) for k in range(500)
        ]  # up to four steps
        assert whole.sums[2][0] == pytest.approx(np.sum(expected))
        np.testing.assert_allclose(parts.sums, whole.sums)


class TestComparison:
    def test_the_difference_is_that_of_both_answers_and_narrower(self):
        made, log = drawn("random", 10_000)
        close = 0.9 * made.target + 0.1 * made.behaviour
        found = gb.compare_policies_on_log(log, made.target, close, action="a")
        first, second = answer(log, made.target), answer(log, close)
        assert found.difference == pytest.approx(first.gain - second.gain, abs=1e-12)
        assert found.first.to_dict()["gain"] == first.gain
        apart = np.hypot(first.diagnostics.standard_error, second.diagnostics.standard_error)
        assert found.standard_error < 0.3 * apart
        assert found.saving > 9.0
        assert "on the same rows" in str(found)

    @pytest.mark.slow
    def test_it_holds(self):
        """Nominal 95% in 200 logs, 4 standard errors."""
        made = DECISIONS["random"]()
        logs = made.logs(np.random.default_rng(3), 3_000, 200)
        truth = made.gain - (made.behaviour_law[:, None] * made.behaviour * made.rewards).sum()
        held = []
        for number in range(200):
            found = gb.compare_policies_on_log(log_of(logs, number), made.target, made.behaviour, action="a")
            held.append(found.interval[0] < truth < found.interval[1])
        assert 0.89 <= np.mean(held) <= 0.995
