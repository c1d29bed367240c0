"""Alias tables reproduce the chain exactly; paths follow it, and depend on nothing but their seed."""

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st

import gainbias as gb
from gainbias.engine import paths as paths_module
from gainbias.engine.paths import (
    BLOCK,
    AliasTable,
    Paths,
    SampledSteps,
    Sampler,
    alias_table,
    chosen,
    guessed,
    pick,
)
from gainbias.engine.streams import stream

pytestmark = pytest.mark.kernels


def chain_of(table: AliasTable, n: int) -> np.ndarray:
    """The transition matrix that an alias table stands for."""
    chain = np.zeros((len(table.start) - 1, n))
    for row in range(len(chain)):
        slots = range(table.start[row], table.start[row + 1])
        for slot in slots:
            chain[row, chosen(table, row, slot, True)] += table.threshold[slot] / len(slots)
            chain[row, chosen(table, row, slot, False)] += (1.0 - table.threshold[slot]) / len(slots)
    return chain


@given(st.integers(1, 12), st.floats(0.05, 1.0), st.integers(0, 10**6))
def test_alias_table_stands_for_the_chain(n: int, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = (
        np.where(rng.random((n, n)) < density, 10.0 ** rng.uniform(-6, 0, (n, n)), 0.0) + np.eye(n) * 1e-3
    )
    chain = weights / weights.sum(axis=1, keepdims=True)
    table = alias_table(sparse.csr_array(chain), np.zeros(n))
    np.testing.assert_allclose(chain_of(table, n), chain, atol=1e-15 * n)
    assert ((table.threshold >= 0.0) & (table.threshold <= 1.0)).all()


@pytest.mark.parametrize("first", [0.1, 1 / 3, 0.3 + 1e-9, 1e-12])
def test_thresholds_are_exact_although_they_are_rounded_where_they_are_read(first: float) -> None:
    table = alias_table(sparse.csr_array(np.array([[first, 1.0 - first]])), np.zeros(1))
    threshold = table.threshold[0]
    assert table.slot["threshold"][0] != threshold
    for uniform in (0.5 * threshold, 0.5 * float(table.slot["threshold"][0])):
        for moved in (np.nextafter(uniform, 0.0), uniform, np.nextafter(uniform, 1.0)):
            assert pick(table, 0, moved) == (0, 2.0 * moved < threshold)


@pytest.mark.parametrize("chain", [[[0.2, 0.8]], [[0.0, 0.3, 0.0, 0.7]]], ids=["full", "sparse"])
def test_both_ways_to_read_a_slot_agree(chain: list[list[float]]) -> None:
    table = alias_table(sparse.csr_array(np.array(chain)), np.zeros(1))
    states = set()
    for slot in range(2):
        for below in (True, False):
            states.add(chosen(table, 0, slot, below))
            assert guessed(table, 0, slot, below) == chosen(table, 0, slot, below)
    assert states == set(np.flatnonzero(chain[0]))


def test_own_successors_are_listed_only_where_a_row_leaves_out_a_state() -> None:
    full, partly = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([[0.2, 0.8], [0.0, 1.0]])
    assert alias_table(sparse.csr_array(full), np.zeros(2)).own.tolist() == []
    assert alias_table(sparse.csr_array(partly), np.zeros(2)).own.tolist() == [0, 1, 1]


def small_process(rewards: object = None) -> gb.MarkovRewardProcess:
    chain = [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.9, 0.0, 0.1]]
    return gb.MarkovRewardProcess(chain, [1.0, 2.0, 3.0] if rewards is None else rewards)


@pytest.mark.parametrize("sampling", ["markov", "iid"])
def test_frequencies_are_those_of_the_chain(sampling: str) -> None:
    """4 standard errors each for 9 pairs: a false alarm in about 6 of 10,000 seeds."""
    mrp = small_process()
    steps = Sampler(mrp).paths(range(4), sampling=sampling, start="stationary").take(5_000)
    counts = np.zeros((3, 3))
    np.add.at(counts, (steps.here.ravel(), steps.next.ravel()), 1)
    visits = counts.sum(axis=1)
    law = gb.solve(mrp).stationary
    chain = mrp.csr.toarray()
    error = np.sqrt(chain * (1 - chain) * visits[:, None]) + 1e-9
    assert (np.abs(counts - chain * visits[:, None]) <= 4 * error).all()
    assert np.abs(visits / visits.sum() - law).max() < 0.03


def test_markov_paths_are_connected_and_independent_draws_are_not() -> None:
    sampler = Sampler(small_process())
    steps = sampler.paths([3]).take(1_000)
    np.testing.assert_array_equal(steps.next[0, :-1], steps.here[0, 1:])
    drawn = sampler.paths([3], sampling="iid").take(1_000)
    assert (drawn.next[0, :-1] != drawn.here[0, 1:]).any()


def test_rewards_of_states_and_of_transitions() -> None:
    steps = Sampler(small_process()).paths([0]).take(500)
    np.testing.assert_array_equal(steps.reward[0], np.array([1.0, 2.0, 3.0])[steps.here[0]])
    rewards = np.arange(9.0).reshape(3, 3)
    steps = Sampler(small_process(rewards)).paths([0]).take(500)
    np.testing.assert_array_equal(steps.reward[0], rewards[steps.here[0], steps.next[0]])
    assert len(np.unique(steps.reward)) == 7


@pytest.mark.parametrize("sampling", ["markov", "iid"])
def test_a_path_depends_on_its_seed_alone(sampling: str) -> None:
    sampler = Sampler(small_process())
    whole = sampler.paths([5], sampling=sampling).take(300)
    pieces = sampler.paths([4, 5, 6], sampling=sampling)
    parts = [pieces.take(count) for count in (1, 99, 200)]
    for field in ("here", "next", "reward"):
        joined = np.concatenate([getattr(part, field)[1] for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, field)[0])
    other = sampler.paths([6], sampling=sampling).take(300)
    assert (other.here != whole.here).any()
    second = sampler.paths([5], sampling=sampling, chain="second chain").take(300)
    assert (second.here != whole.here).any()


@pytest.mark.parametrize("sampling", ["markov", "iid"])
def test_chains_drawn_together_are_those_drawn_alone(sampling: str) -> None:
    sampler, names = Sampler(small_process()), ("first chain", "second chain")
    together = sampler.paths([5, 6], sampling=sampling, chain=names).take(300)
    alone = [sampler.paths([5, 6], sampling=sampling, chain=name).take(300) for name in names]
    for field in ("here", "next", "reward"):
        expected = np.concatenate([getattr(steps, field) for steps in alone])
        np.testing.assert_array_equal(getattr(together, field), expected)


@pytest.mark.parametrize("sampling", ["markov", "iid"])
def test_saved_paths_go_on_as_before(sampling: str) -> None:
    paths = Sampler(small_process()).paths([5, 6], sampling=sampling)
    paths.take(123)
    saved = paths.save()
    steps = paths.take(200)
    replayed = paths.replayed(saved)
    np.testing.assert_array_equal(replayed.take(200).here, steps.here)
    np.testing.assert_array_equal(replayed.total, paths.total)
    assert saved.steps == 123
    assert (saved.total != paths.total).all()


def test_rewards_are_summed_in_order() -> None:
    paths = Sampler(small_process([0.1, 0.2, 0.3])).paths([5, 6])
    rewards = np.concatenate([paths.take(100).reward, paths.take(50).reward], axis=1)
    np.testing.assert_array_equal(paths.total, np.cumsum(rewards, axis=1)[:, -1])


@pytest.mark.parametrize("sampling", ["markov", "iid"])
def test_pieces_of_any_length_make_the_same_path(sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths_module, "BLOCK", 16)
    sampler = Sampler(small_process())
    whole = sampler.paths([5, 6], sampling=sampling).take(200)
    paths = sampler.paths([5, 6], sampling=sampling)
    made = 0
    for count in (1, 1, 1, 2, 9, 3, 16, 40, 1, 30, 96):
        steps = paths.take(count)
        for own, expected in zip(steps, whole, strict=True):
            np.testing.assert_array_equal(own, expected[:, made : made + count])
        made += count
        np.testing.assert_array_equal(paths.total, whole.total[:, made - 1])
        if made < 200:
            replayed = paths.replayed(paths.save()).take(5)
            np.testing.assert_array_equal(replayed.here, whole.here[:, made : made + 5])


def test_no_more_is_drawn_ahead_than_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = [], Paths._draw

    def counted(self: Paths, count: int, room: int) -> SampledSteps:
        drawn.append(count)
        return draw(self, count, room)

    monkeypatch.setattr(Paths, "_draw", counted)
    paths = Sampler(small_process()).paths([0])
    for made in range(1, 10_001):
        paths.take(1)
        assert sum(drawn) <= min(2 * made, made + BLOCK)
    assert len(drawn) < 20


def test_steps_that_have_room_take_the_place_of_those_before() -> None:
    paths = Sampler(small_process()).paths([5, 6])
    first, *others = [paths.take(count, room=1000) for count in (10, 500, 200)]
    assert all(np.shares_memory(first.here, other.here) for other in others)
    first, *others = [paths.take(500) for _ in range(3)]
    assert not any(np.shares_memory(first.here, other.here) for other in others)


def test_a_table_is_made_once_for_each_process_and_not_kept_longer() -> None:
    mrp = small_process()
    assert Sampler(mrp).table is Sampler(mrp).table
    assert Sampler(small_process()).table is not Sampler(mrp).table
    table = weakref.ref(Sampler(mrp).table.slot)
    del mrp
    gc.collect()
    assert table() is None


def test_a_known_law_is_not_solved_for() -> None:
    sampler = Sampler(small_process(), stationary=lambda: np.array([0.0, 1.0, 0.0]))
    assert set(sampler.paths(range(9), start="stationary").take(1).here[:, 0]) == {1}


def test_paths_are_the_same_on_every_machine() -> None:
    """Kept numbers: a change of generator, of names or of tables would change every published result."""
    steps = Sampler(small_process()).paths([2026]).take(12)
    assert steps.here[0].tolist() == KEPT


KEPT = [0, 1, 1, 2, 0, 1, 2, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("start", [2, "uniform", "stationary"])
def test_starts(start: int | str) -> None:
    first = Sampler(small_process()).paths(range(2_000), start=start).take(1).here[:, 0]  # type: ignore[arg-type]
    share = np.bincount(first, minlength=3) / 2_000
    expected = {"uniform": np.full(3, 1 / 3), "stationary": gb.solve(small_process()).stationary}
    np.testing.assert_allclose(share, expected.get(str(start), np.eye(3)[2]), atol=0.045)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampling": "magic"}, "unknown sampling 'magic': use 'markov' or 'iid'"),
        ({"start": 3}, "start must be a state from 0 to 2, found 3"),
        ({"start": "middle"}, "start must be a state, 'uniform' or 'stationary', found 'middle'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampler(small_process()).paths([0], **arguments)  # type: ignore[arg-type]


def test_streams() -> None:
    assert stream(1, "a", "b").random() != stream(1, "b", "a").random()
    assert stream(1, "a").random() != stream(2, "a").random()
    with pytest.raises(ValueError, match="a seed must be an integer that is not negative, found -1"):
        stream(-1)
    with pytest.raises(ValueError, match=r"a seed must be an integer that is not negative, found 1\.5"):
        stream(1.5)  # type: ignore[arg-type]
