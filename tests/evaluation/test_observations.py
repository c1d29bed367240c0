"""Observations of every form: dictionaries, tuples, texts, bools, large ids, pictures."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import gainbias as gb
from gainbias.evaluation.observations import MOST_SEEN_STATES, SeenStates
from gainbias.evaluation.sources.environments import environment_stream
from gainbias.evaluation.sources.spaces import (
    observation_limits,
    observation_rows,
    one_row,
    plain_observation,
    structured,
)
from tests.evaluation.chains import Queue, queue_process

ALWAYS = np.ones(Queue.capacity + 1, dtype=int)

NESTED = spaces.Dict(
    {
        "pair": spaces.Tuple([spaces.Discrete(3, start=1), spaces.Box(-1.0, 1.0, (2, 2))]),
        "bits": spaces.MultiBinary(3),
        "codes": spaces.MultiDiscrete([2, 4]),
        "word": spaces.Text(5),
    }
)


class Dressed(Queue):
    """The queue, with observations of another form."""

    space = None
    dress = staticmethod(lambda length: length)

    def __init__(self):
        super().__init__()
        self.observation_space = self.space

    def reset(self, **options):
        seen, info = super().reset(**options)
        return self.dress(seen), info

    def step(self, action):
        seen, *rest = super().step(action)
        return self.dress(seen), *rest


def dressed(space, function):
    return type("Made", (Dressed,), {"space": space, "dress": staticmethod(function)})


SIZE = Queue.capacity + 1
WORDS = ["none", "one", "two", "three", "four", "five"]
FORMS = {
    "tuple": (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), lambda k: (k % 2, k // 2)),
    "dictionary": (spaces.Dict({"n": spaces.Discrete(SIZE)}), lambda k: {"n": np.int64(k)}),
    "text": (spaces.Text(5), lambda k: WORDS[k]),
    "text inside": (
        spaces.Dict({"word": spaces.Text(5), "odd": spaces.Discrete(2)}),
        lambda k: {"word": WORDS[k], "odd": k % 2},
    ),
    "bits": (spaces.MultiBinary(40), lambda k: (np.arange(40) == k).astype(np.int8)),
    "bools": (
        spaces.Dict({name: spaces.Discrete(2) for name in "abc"}),
        lambda k: {name: bool(k >> bit & 1) for bit, name in enumerate("abc")},
    ),
    "large ids": (spaces.Discrete(10**15), lambda k: 10**14 * k + 7),
}


class TestAnswers:
    """A queue is the same queue, whatever its observations look like."""

    @pytest.mark.parametrize("form", FORMS)
    def test_values_are_those_of_plain_observations(self, form):
        space, function = FORMS[form]
        plain = gb.evaluate(Queue, ALWAYS, num_steps=4_000, on_termination="reward")
        estimate = gb.evaluate(
            dressed(space, function), lambda seen: 1, num_steps=4_000, on_termination="reward"
        )
        assert estimate.gain == plain.gain
        for length in range(SIZE):
            assert estimate.value(function(length)) == pytest.approx(plain.value(length), rel=1e-6)
        many = estimate.value([function(length) for length in range(SIZE)])
        assert many == pytest.approx(plain.value(np.arange(SIZE)), rel=1e-6)
        _, best = estimate.extremes()
        _, [(length, _)] = plain.extremes()
        assert np.array_equal(best[0][0], plain_of(function(length)))
        json.dumps(estimate.to_dict(), allow_nan=False)

    @pytest.mark.parametrize("form", ["tuple", "text inside", "large ids"])
    def test_the_true_values_are_in_the_intervals(self, form):
        space, function = FORMS[form]
        estimate = gb.evaluate(
            dressed(space, function), lambda seen: 1, num_steps=20_000, on_termination="reward"
        )
        exact = gb.solve(queue_process())
        ends = estimate.value_interval([function(length) for length in range(SIZE)])
        half = (ends[:, 1] - ends[:, 0]) / 2
        assert (np.abs(ends.mean(axis=1) - exact.bias) < 2 * half).all()

    @pytest.mark.parametrize("form", ["tuple", "dictionary", "text inside", "large ids", "bits"])
    def test_files_and_pages(self, form, tmp_path):
        space, function = FORMS[form]
        estimate = gb.evaluate(dressed(space, function), lambda seen: 1, num_steps=2_000)
        estimate.save(tmp_path / "estimate.npz")
        again = gb.load_estimate(tmp_path / "estimate.npz")
        assert json.dumps(again.to_dict()) == json.dumps(estimate.to_dict())
        assert again.value(function(3)) == estimate.value(function(3))
        gb.write_page(again, tmp_path / "page.html")

    @pytest.mark.parametrize("form", ["tuple", "dictionary", "text", "text inside"])
    @pytest.mark.parametrize("mode", AutoresetMode)
    def test_vector_environments(self, form, mode):
        space, function = FORMS[form]

        def made(dress):
            return SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(dress(), 50)] * 2, autoreset_mode=mode)

        plain, other = (
            gb.evaluate(made(env), lambda seen: np.ones(2, int), num_steps=2_000)
            for env in (Queue, dressed(space, function))
        )
        assert other.gain == plain.gain
        assert other.value(function(2)) == pytest.approx(plain.value(2), rel=1e-6)

    def test_what_was_not_seen_has_no_value(self):
        estimate = gb.evaluate(dressed(*FORMS["text"]), lambda seen: 1, num_steps=2_000)
        assert np.isnan(estimate.value("many"))
        assert estimate.value_interval("many") == (-np.inf, np.inf)
        estimate = gb.evaluate(dressed(*FORMS["large ids"]), lambda seen: 1, num_steps=2_000)
        assert np.isnan(estimate.value(8))
        assert "observations that turned up" in estimate.features


def plain_of(observation):
    return (
        np.asarray(observation).tolist() if not isinstance(observation, dict | tuple | str) else observation
    )


class TestMixed:
    def space(self):
        return spaces.Dict(
            {"kind": spaces.Discrete(3), "size": spaces.Box(0.0, 1.0, (2,)), "say": spaces.Text(5)}
        )

    def made(self, length):
        return {"kind": length % 3, "size": np.array([length / 6, 0.5]), "say": WORDS[length]}

    def test_discrete_parts_are_indicators_and_texts_are_left_out_with_a_note(self):
        estimate = gb.evaluate(dressed(self.space(), self.made), lambda seen: 1, num_steps=2_000)
        assert estimate.features == "polynomials of degree 3 of 5 numbers: 56 features"
        assert any("do not see the texts at ['say']" in note for note in estimate.diagnostics.notes)
        assert np.isfinite(estimate.value(self.made(2)))
        whole = spaces.flatten(spaces.Dict({"kind": spaces.Discrete(3)}), {"kind": 1})
        assert whole.tolist() == [0, 1, 0]  # the same as Gymnasium does

    def test_a_function_takes_them_in_the_form_of_the_space(self):
        asked = []

        def features(seen):
            asked.append({key: (part.shape, part.dtype.kind) for key, part in seen.items()})
            return np.stack([np.ones(len(seen["kind"])), seen["size"][:, 0], seen["say"] == "five"], axis=1)

        estimate = gb.evaluate(
            dressed(self.space(), self.made), lambda seen: 1, features=features, num_steps=2_000
        )
        count = asked[0]["kind"][0][0]
        assert asked[0] == {"kind": ((count,), "i"), "size": ((count, 2), "f"), "say": ((count,), "U")}
        assert estimate.value([self.made(2), self.made(5)]).shape == (2,)
        with pytest.raises(
            ValueError, match=r"features failed on the first observations, .* form of the space"
        ):
            gb.evaluate(
                dressed(self.space(), self.made), lambda seen: 1, features=lambda seen: seen, num_steps=200
            )

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"kind": 1}, r"nothing at \['say'\]"),
            (
                {"kind": 1, "size": np.zeros(3), "say": ""},
                r"of shape \(3,\) at \['size'\].*shape \(2,\) there",
            ),
            ({"kind": 0.5, "size": np.zeros(2), "say": ""}, r"0.5 at \['kind'\], integers are expected"),
            ({"kind": 1, "size": np.zeros(2), "say": 3}, r"3 at \['say'\], a text is expected"),
            ({"kind": 7, "size": np.zeros(2), "say": ""}, "outside the space"),
            (3, r"nothing at \['kind'\]"),
        ],
    )
    def test_what_is_wrong_is_said_with_the_place(self, given, message):
        with pytest.raises(ValueError, match=f"the observation before step 0 is .*{message}"):
            environment_stream(dressed(self.space(), lambda length: given), lambda seen: 1)

    def test_wrong_observations_of_a_value(self):
        estimate = gb.evaluate(dressed(self.space(), self.made), lambda seen: 1, num_steps=400)
        with pytest.raises(ValueError, match="in the form of the space"):
            estimate.value({"kind": 1})

    def test_there_and_back_again(self):
        NESTED.seed(1)
        limits = observation_limits(NESTED)
        for _ in range(5):
            given = NESTED.sample()
            row = observation_rows([given], limits.leaves, learn=True)
            np.testing.assert_array_equal(one_row(given, limits.leaves), row)
            back = structured(row, limits.leaves)
            for leaf in limits.leaves:
                value, found = given, back
                for key in leaf.path:
                    value, found = value[key], found[key]
                np.testing.assert_allclose(found[0], value) if leaf.kind != "text" else None
            assert back["word"][0] == given["word"]
            assert plain_observation(row[0], limits)["pair"][0] == given["pair"][0]


class TestPictures:
    def test_the_gain_is_there_without_values(self, tmp_path):
        space = spaces.Box(0, 255, (40, 40, 3), np.uint8)
        env = dressed(space, lambda length: np.full((40, 40, 3), length, np.uint8))
        plain = gb.evaluate(Queue, ALWAYS, num_steps=2_000, on_termination="reward")
        estimate = gb.evaluate(env, lambda seen: 1, num_steps=2_000, on_termination="reward")
        assert (estimate.gain, estimate.gain_interval) == (plain.gain, plain.gain_interval)
        assert "the answer is the gain alone, without values" in repr(estimate)
        assert any(
            "the gain alone" in note and "pass features" in note for note in estimate.diagnostics.notes
        )
        gb.write_page(estimate, tmp_path / "page.html")
        means = gb.evaluate(
            env,
            lambda seen: 1,
            features=lambda seen: np.eye(6)[seen[:, 0, 0, 0].astype(int)],
            num_steps=2_000,
            on_termination="reward",
        )
        picture = np.full((40, 40, 3), 2, np.uint8)
        assert means.value(picture) == pytest.approx(plain.value(2), rel=1e-6)
        vector = gb.evaluate(SyncVectorEnv([env] * 2), lambda seen: np.ones(2, int), num_steps=400)
        assert any("the gain alone" in note for note in vector.diagnostics.notes)

    def test_integers_in_a_box_can_be_states(self):
        env = dressed(spaces.Box(0, 255, (3, 3), np.uint8), lambda length: np.full((3, 3), length, np.uint8))
        plain = gb.evaluate(Queue, ALWAYS, num_steps=2_000)
        estimate = gb.evaluate(env, lambda seen: 1, features=gb.Tabular(), num_steps=2_000)
        assert estimate.value(np.full((3, 3), 2)) == pytest.approx(plain.value(2), rel=1e-6)
        assert estimate.features.startswith("tabular: a state for each of 6 observations that turned up")
        with pytest.raises(ValueError, match="tabular features need discrete observations"):
            gb.evaluate("Pendulum-v1", "random", features=gb.Tabular(), num_steps=400)


class TestStates:
    def test_ids_of_a_log_are_renumbered(self):
        states = np.random.default_rng(0).integers(0, 3, 4_000)
        plain, ids = (
            gb.evaluate_log((given, 1.0 * states)) for given in (states, states * 10**17 + 123_456_789)
        )
        assert ids.value(123_456_789) == pytest.approx(plain.value(0))
        assert ids.value(2 * 10**17 + 123_456_789) == pytest.approx(plain.value(2))

    def test_bools_of_a_log(self):
        states = np.random.default_rng(0).integers(0, 2, 4_000)
        plain, bools = (gb.evaluate_log((given, 1.0 * states)) for given in (states, states == 1))
        assert bools.value(True) == plain.value(1)
        assert bools.features == plain.features

    def test_more_than_there_are_numbers_share_one_state_and_that_is_said(self):
        seen = SeenStates(np.empty((0, 2), dtype=np.int64))
        many = np.stack([np.arange(4_000), np.zeros(4_000, dtype=int)], axis=1)
        states = seen.learn(many)
        assert states[:MOST_SEEN_STATES].tolist() == list(range(MOST_SEEN_STATES))
        assert (states[MOST_SEEN_STATES:] == seen.other).all()
        assert seen.is_full
        assert np.array_equal(seen.known, many[:MOST_SEEN_STATES])
        again = SeenStates(seen.known)
        assert np.array_equal(again.find(many), states)

    def test_names_do_not_depend_on_how_the_stream_is_cut(self):
        ids = np.random.default_rng(0).integers(0, 50, 1_000)
        whole, parts = (SeenStates(np.empty(0, dtype=np.int64)) for _ in range(2))
        expected = whole.learn(ids)
        found = np.concatenate([parts.learn(part) for part in np.split(ids, 10)])
        assert np.array_equal(found, expected)


class TestTurns:
    def test_all_chains_have_about_the_same_steps_at_any_time(self):
        steps, made = [0] * 4, iter(range(4))

        class Watched(Queue):
            def __init__(self):
                super().__init__()
                self.number = next(made)

            def step(self, action):
                steps[self.number] += 1
                assert max(steps) - min(steps) <= max(1, max(steps) // 8)
                return super().step(action)

        gb.evaluate(Watched, ALWAYS, num_steps=4_000)
        assert min(steps) >= 1_000

    def test_turns_change_nothing(self):
        pieces = [
            np.concatenate(
                [b.here for b in _first(environment_stream(Queue, "random", copies=2, batch_size=size))]
            )
            for size in (40, 400)
        ]
        assert np.array_equal(*pieces)


def _first(stream, count=400):
    batches, total = [], 0
    for batch in stream:
        if batch.chain == 1:
            batches.append(batch.part(slice(count - total)))
            total += len(batches[-1])
        if total >= count - 1:
            break
    stream.close()
    return [batch.part(slice(None)) for batch in batches]
