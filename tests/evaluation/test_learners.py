"""Learning from a stream: the same bits as a run on the same path, any algorithm, any cut of the stream."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import gainbias as gb
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.values.learner import Learner
from tests.evaluation.streams import batches, centred, dense_rows, observed

STEPS = 2048
FEW = 512


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(0)
    moves = rng.random((6, 6))
    mrp = gb.MarkovRewardProcess(moves / moves.sum(axis=1, keepdims=True), rng.random(6))
    features = rng.random((6, 3))
    dense = features / np.linalg.norm(features, axis=1).max()
    sparse = np.where(dense > 0.3, dense, 0.0)
    return {
        "dense": gb.Problem(mrp, dense),
        "sparse": gb.Problem(mrp, csr_array(sparse)),
        "tabular": gb.Problem(mrp, gb.Tabular()),
    }


def learned(algorithm, problem, step_size="auto", params=None, num_chains=None, steps=STEPS, **stream):
    chains = num_chains or gb.ALGORITHMS[algorithm].chains
    learner = Learner(algorithm, observed(problem), num_chains=chains, step_size=step_size, params=params)
    for batch in batches(problem, steps, num_chains=chains, **stream):
        learner.add(batch)
    return learner


def steps_of(algorithm):
    return gb.ALGORITHMS[algorithm].declared.constant_step or gb.Harmonic(10, 40)


def last_weights(learner):
    """Weights at the last step of the first run of the first chain."""
    run = learner._followers[0]._sides[0].main[0].running
    return run.form.output(run.state, run.params, run.setting).weights.ravel()


class TestFixedSteps:
    @pytest.mark.kernels
    @pytest.mark.parametrize("kind", ["dense", "sparse", "tabular"])
    @pytest.mark.parametrize("algorithm", gb.ALGORITHMS)
    def test_last_weights_are_those_of_a_run_on_the_same_path(self, problems, algorithm, kind):
        if gb.ALGORITHMS[algorithm].declared.tabular_only and kind != "tabular":
            pytest.skip("tabular only")
        problem = problems[kind]
        learner = learned(algorithm, problem, steps_of(algorithm), steps=FEW, lengths=(200, 1, 64))
        learner.values()
        trace = gb.run(algorithm, problem, FEW, steps_of(algorithm), seeds=[0], checkpoints=[FEW])
        found = last_weights(learner)
        if kind == "dense" and algorithm != "lstd":
            assert np.array_equal(found, trace.weights[0, -1])
        else:  # lazy forms bring weights up to date when a batch ends; lstd solves a scaled equation
            assert np.allclose(found, trace.weights[0, -1], rtol=1e-12, atol=1e-12)

    def test_the_answer_is_the_average_over_the_last_half(self, problems):
        problem, sizes = problems["dense"], gb.Harmonic(10, 40)
        found = learned("single-chain", problem, sizes).values()
        trace = gb.run("single-chain", problem, STEPS, sizes, checkpoints=[STEPS], tail_average=0.5)
        assert np.allclose(found.weights, trace.weights[0, -1], rtol=1e-12)

    @pytest.mark.parametrize("algorithm", ["single-chain", "double-chain"])
    @pytest.mark.parametrize("kind", ["dense", "sparse", "tabular"])
    def test_how_the_stream_is_cut_changes_nothing(self, problems, algorithm, kind):
        one, other = (
            learned(algorithm, problems[kind], lengths=lengths).values() for lengths in ((2048,), (17, 300))
        )
        assert np.allclose(one.weights, other.weights, rtol=1e-10)
        assert np.allclose(one.weight_deviations, other.weight_deviations, rtol=1e-8, atol=1e-12)

    def test_rows_of_each_batch_are_as_good_as_a_table(self, problems):
        for algorithm in ("single-chain", "double-chain"):
            for kind in ("dense", "sparse"):
                one, other = (
                    learned(algorithm, problems[kind], own_rows=own, lengths=(400,)).values()
                    for own in (False, True)
                )
                assert np.allclose(one.weights, other.weights, rtol=1e-10)

    def test_long_rows_are_shortened_and_the_scale_undone(self, problems):
        for steps in ("auto", 0.1):
            one, other = (
                learned("single-chain", problems["dense"], steps, scale=scale).values()
                for scale in (1.0, 8.0)
            )
            rows = dense_rows(problems["dense"])
            longest = np.linalg.norm(rows[:6], axis=1).max()
            assert longest == pytest.approx(1.0)
            assert np.allclose(one.values(rows), other.values(8.0 * rows), rtol=1e-9)
            assert np.allclose(one.intervals(rows), other.intervals(8.0 * rows), rtol=1e-6)

    def test_a_row_longer_than_all_before_does_not_overshoot(self, problems):
        stream = list(batches(problems["dense"], 4000, lengths=(2000,)))
        late = stream[1].rows.copy()
        late[0] *= 50.0
        learner = Learner("single-chain", observed(problems["dense"]))
        learner.add(stream[0])
        learner.add(replace(stream[1], rows=late))
        assert np.isfinite(learner.values().weights).all()
        assert not learner.notes


class TestChains:
    def test_each_chain_is_followed_and_the_answers_averaged(self, problems):
        both = learned("single-chain", problems["dense"], num_chains=2).values()
        alone = []
        for chain in range(2):
            learner = Learner("single-chain", observed(problems["dense"]))
            for batch in batches(problems["dense"], STEPS, num_chains=2):
                if batch.chain == chain:
                    learner.add(replace(batch, chain=0))
            alone.append(learner.values())
        # Step sizes differ by what the pilots of one and of two chains say about the mean length of rows.
        mean = np.mean([own.weights for own in alone], axis=0)
        assert np.allclose(both.weights, mean, rtol=0.02)
        assert both.num_batches == 2 * alone[0].num_batches

    def test_chains_that_disagree_are_spoken_of(self, problems):
        learner = Learner("single-chain", observed(problems["dense"]), num_chains=2)
        for batch in batches(problems["dense"], 8192, num_chains=2):
            tilted = batch.rewards + 5.0 * (batch.here == 0) * batch.chain
            learner.add(replace(batch, rewards=tilted))
        assert any("chains disagree" in warning for warning in learner.values().warnings)
        agreeing = learned("single-chain", problems["dense"], num_chains=2, steps=8192).values()
        assert not any("chains disagree" in warning for warning in agreeing.warnings)

    def test_pairs_need_two_chains_and_leave_an_odd_one(self, problems):
        with pytest.raises(ValueError, match="needs 2 independent chains of data, found 1"):
            Learner("double-chain", observed(problems["dense"]))
        learner = learned("double-chain", problems["dense"], num_chains=3)
        assert learner.notes == ["double-chain takes chains in pairs: 1 of 3 was not used"]
        assert np.isfinite(learner.values().weights).all()


class TestRefusals:
    def test_tabular_algorithms_refuse_other_features(self, problems):
        with pytest.raises(ValueError, match="adaptive-td exists for tabular features only"):
            Learner("adaptive-td", observed(problems["dense"]))

    def test_parameters_are_checked(self, problems):
        with pytest.raises(ValueError, match="did you mean 'mean_ratio'"):
            Learner("single-chain", observed(problems["dense"]), params={"mean_rato": 1.0})
        with pytest.raises(ValueError, match="each parameter must have a single value"):
            Learner("single-chain", observed(problems["dense"]), params={"mean_ratio": [0.5, 1.0]})

    def test_too_few_transitions(self, problems):
        learner = Learner("single-chain", observed(problems["dense"]))
        with pytest.raises(ValueError, match="no transition to learn from"):
            learner.values()
        with pytest.raises(ValueError, match="no learned values before 64 steps after the transient of 0"):
            learned("single-chain", problems["dense"], steps=50).values()
        with pytest.raises(ValueError, match="after the transient of 5000 steps, found 2048"):
            learned("single-chain", problems["dense"]).values(transient=5000)

    def test_given_steps_that_diverge_are_named(self, problems):
        with pytest.raises(ValueError, match=r"single-chain diverged within \d+ steps \(step size: Constant"):
            learned("single-chain", problems["dense"], 60.0).values()


class TestAutomaticSteps:
    def test_steps_are_halved_if_weights_diverge(self, problems, monkeypatch):
        monkeypatch.setattr("gainbias.evaluation.values.learner.LEVEL", 64.0)
        learner = learned("single-chain", problems["dense"], steps=8192)
        assert "started again with half the step sizes" in learner.notes[0]
        found = learner.values()
        target = centred(problems["dense"])
        error = problems["dense"].stationary_norm(found.values(dense_rows(problems["dense"])) - target)
        assert error < 0.2 * problems["dense"].stationary_norm(target)

    def test_methods_with_steps_of_their_own_keep_them(self, problems):
        assert "has no step sizes" in learned("lspe", problems["dense"]).values().step_size
        assert learned("vrtd", problems["dense"]).values().step_size.startswith("0.5, the constant")

    def test_values_of_the_fixed_point_are_learned(self, problems):
        for kind, problem in problems.items():
            found = learned("single-chain", problem, steps=30_000).values()
            target = centred(problem)
            error = problem.stationary_norm(found.values(dense_rows(problem)) - target)
            assert error < 0.15 * problem.stationary_norm(target), kind
            assert found.gain == pytest.approx(problem.solution.gain, abs=0.01)


class TestIntervals:
    def test_intervals_cover_and_are_as_wide_as_errors_are(self, problems):
        problem = problems["dense"]
        rows, target = dense_rows(problem), centred(problem)
        found = [learned("single-chain", problem, steps=8192, seed=seed).values() for seed in range(60)]
        ends = np.array([own.intervals(rows) for own in found])
        covered = (ends[..., 0] <= target) & (target <= ends[..., 1])
        assert 0.87 < covered.mean() < 0.999
        errors = np.array([own.values(rows) for own in found]) - target
        half_widths = (ends[..., 1] - ends[..., 0]) / 2
        ratio = half_widths.mean(axis=0) / np.sqrt((errors**2).mean(axis=0))
        assert ((ratio > 1.6) & (ratio < 4.5)).all()  # 2.4 for Student's law with 7 degrees of freedom
        assert not any(own.warnings for own in found[:10])

    def test_values_that_smaller_steps_would_change_are_spoken_of(self):
        queue = gb.task("mm1k-admission").problem
        warnings = learned("single-chain", queue, steps=60_000).values().warnings
        assert any(warning.startswith("not converged: with half the step sizes") for warning in warnings)

    def test_a_state_that_was_never_seen_has_no_interval(self, problems):
        learner = Learner("single-chain", ObservationMap("one state more", 7))
        for batch in batches(problems["tabular"], 4000):
            learner.add(batch)
        ends = learner.values().intervals(np.eye(7))
        assert np.isfinite(ends[:6]).all()
        assert np.isinf(ends[6]).all()

    def test_a_short_run_is_called_short(self, problems):
        warnings = learned("single-chain", problems["dense"], steps=500).values().warnings
        assert any(warning.startswith("too short") for warning in warnings)
