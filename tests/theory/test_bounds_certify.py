"""Step sizes and numbers of steps that a theorem certifies."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import gainbias as gb
from gainbias.theory.bounds import record
from gainbias.theory.bounds.certify import certified, certified_offset, largest_step_size
from gainbias.theory.bounds.record import Decay
from tests.theory.flipping import flipping, tau

PROBLEM = flipping()
CASES = [
    ("double-chain", "iid"),
    ("double-chain", "markov"),
    ("single-chain", "markov"),
    ("discounted-td", "iid"),
    ("discounted-td", "markov"),
]


@pytest.mark.parametrize(("algorithm", "sampling"), CASES)
class TestConstant:
    def test_the_largest_step_is_allowed_and_no_larger_one(self, algorithm, sampling):
        largest = largest_step_size(algorithm, PROBLEM, sampling)
        for factor, allowed in ((1.0, True), (1.0 + 1e-7, False)):
            bound = gb.bound(
                algorithm, PROBLEM, step_size=factor * largest, num_steps=10**9, sampling=sampling
            )
            assert bound.certified == allowed

    def test_the_bound_is_as_wanted_and_not_with_one_step_fewer(self, algorithm, sampling):
        step_size, num_steps, bound = certified(algorithm, PROBLEM, 0.01, sampling)
        assert bound.certified
        assert bound.value <= 0.01
        again = gb.bound(algorithm, PROBLEM, step_size=step_size, num_steps=num_steps, sampling=sampling)
        assert again == bound
        fewer = gb.bound(algorithm, PROBLEM, step_size=step_size, num_steps=num_steps - 1, sampling=sampling)
        assert not fewer.value <= 0.01


@pytest.mark.parametrize("wanted", np.geomspace(1e-3, 2e-4, 8))
def test_the_steps_are_nearly_the_fewest(wanted):
    """exp(-alpha eta T) e0 + 18 alpha c^2 / eta <= eps, solved for T and minimised over alpha."""
    eta, first, noise = 0.7, (5 / 14) ** 2, 18 * (19 / 14) ** 2

    def steps(log_alpha):
        alpha = np.exp(log_alpha)
        left = wanted - noise * alpha / eta
        return np.log(first / left) / (alpha * eta) if left > 0 else np.inf

    best = minimize_scalar(steps, bounds=(-20, np.log(wanted * eta / noise)), method="bounded").fun
    found = certified("double-chain", PROBLEM, wanted, "iid").num_steps
    assert best <= found <= 1.01 * best


def test_steps_grow_as_the_error_shrinks():
    counts = [certified("double-chain", PROBLEM, epsilon).num_steps for epsilon in (0.1, 0.01, 0.001)]
    assert 10 < counts[1] / counts[0] < 30
    assert 10 < counts[2] / counts[1] < 30


def test_a_large_error_needs_only_mixing():
    step_size, num_steps, _ = certified("double-chain", PROBLEM, 100.0)
    assert num_steps == tau(step_size.a)


@pytest.mark.parametrize(("a", "xi"), [(1.0, 1.0), (3.0, 1.0), (1.0, 0.6)])
@pytest.mark.parametrize("algorithm", ["double-chain", "single-chain"])
def test_the_offset_is_the_least(algorithm, a, xi):
    steps = 10**12
    c0 = certified_offset(algorithm, PROBLEM, steps, a, xi)
    if algorithm == "single-chain" and a == 3.0:  # no offset helps: a eta must be below 1
        bound = gb.bound(algorithm, PROBLEM, step_size=gb.Polynomial(a, c0, xi), num_steps=steps)
        assert [broken.formula for broken in bound.violated] == ["a < 1 / eta"]
        return
    assert gb.bound(algorithm, PROBLEM, step_size=gb.Polynomial(a, c0, xi), num_steps=steps).certified
    less = gb.Polynomial(a, c0 * (1 - 1e-6), xi)
    assert not gb.bound(algorithm, PROBLEM, step_size=less, num_steps=steps).certified


@pytest.mark.parametrize("xi", [0.5, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("c0", [1.0, 50.0])
def test_sums_of_very_many_steps_are_bounded_from_above_and_closely(xi, c0, monkeypatch):
    decay = Decay(3.0, c0, xi)
    exact = sum(3.0 / (t + c0) ** xi for t in range(1000))
    assert decay.sum_of_first(1000) == pytest.approx(exact, rel=1e-12)
    monkeypatch.setattr(record, "MOST_TERMS", 999)
    assert exact < decay.sum_of_first(1000) < exact + decay.at(0)
    monkeypatch.setattr(record, "MOST_TERMS", 1000)
    assert decay.sum_of_first(1000) == pytest.approx(exact, rel=1e-12)


def test_the_offset_by_hand():
    c0 = certified_offset("double-chain", PROBLEM, 10**9, 3.0)
    mixed = tau(3 / (10**9 + c0))
    assert sum(3 / (c0 + i) for i in range(mixed)) == pytest.approx(0.7 / 2694, rel=1e-6)


class TestWrongInput:
    @pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
    def test_epsilon(self, epsilon):
        with pytest.raises(ValueError, match="epsilon must be positive and finite"):
            certified("double-chain", PROBLEM, epsilon)

    def test_nothing_certifies_long_features(self):
        with pytest.raises(ValueError, match=r"no step size is certified here: gb\.normalise_features"):
            certified("double-chain", flipping(features=[[2.0], [0.0]]), 0.01, "iid")

    def test_an_error_that_is_too_small(self):
        with pytest.raises(ValueError, match="too small for double precision"):
            certified("double-chain", PROBLEM, 1e-305, "iid")

    def test_an_algorithm_without_step_sizes(self):
        with pytest.raises(ValueError, match="no theorem about reward-estimate covers constant"):
            certified("reward-estimate", PROBLEM, 0.01)
        with pytest.raises(ValueError, match="reward-estimate has no constant step size"):
            largest_step_size("reward-estimate", PROBLEM)
        with pytest.raises(ValueError, match="no theorem about discounted-td covers decaying"):
            certified_offset("discounted-td", PROBLEM, 1000, 1.0)


class TestAdvice:
    """Doing what the remedy says, to the printed digits, satisfies the condition."""

    PROBLEM = gb.Problem(
        gb.MarkovRewardProcess([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.3, 0.6]], [1.0, -0.5, 0.2]),
        [[0.8, 0.1], [-0.3, 0.6], [0.2, -0.7]],
    )

    @pytest.mark.parametrize("as_printed", [False, True])
    @pytest.mark.parametrize(("a", "xi"), [(1.0, 1.0), (20.0, 1.0), (1.0, 0.6), (5.0, 0.8)])
    @pytest.mark.parametrize("name", ["double-chain", "single-chain"])
    def test_offsets(self, name, a, xi, as_printed):
        """A larger offset makes the last step smaller and the mixing time longer."""

        def violated(c0):
            schedule = gb.Polynomial(a, c0, xi) if xi < 1.0 else gb.Harmonic(a, c0)
            bound = gb.bound(name, self.PROBLEM, step_size=schedule, num_steps=10**6, as_printed=as_printed)
            return [broken for broken in bound.violated if broken.name == "offset c0"]

        if begun := violated(1.0):
            assert not violated(max(float(broken.remedy.split()[-1]) for broken in begun))

    @pytest.mark.parametrize(("algorithm", "sampling"), CASES)
    @pytest.mark.parametrize("scale", [1.0, 0.9, 0.8, 0.7])
    def test_step_sizes(self, algorithm, sampling, scale):
        problem = gb.Problem(self.PROBLEM.mrp, scale * self.PROBLEM.features.matrix)
        options = {"num_steps": 10**6, "sampling": sampling}
        broken = gb.bound(algorithm, problem, step_size=1e4, **options).violated
        [remedy] = {each.remedy for each in broken}
        assert gb.bound(algorithm, problem, step_size=float(remedy.split()[-1]), **options).certified
