"""Every verdict turns when the thing that is measured is made wrong."""

from dataclasses import replace

import numpy as np
import pytest

import gainbias as gb
from gainbias.experiments.claims import (
    almost_sure,
    bound_holds,
    bridge,
    conditions,
    dimension,
    double_sampling,
    eta_order,
    measuring,
    one_limit,
    parity,
    rate,
    reward_estimate,
    splitting,
)
from gainbias.experiments.claims.registry import CLAIMS
from gainbias.experiments.statistics import Interval

INDEPENDENT, ALONG_CHAIN = eta_order.INDEPENDENT_CLAIM, eta_order.ALONG_CHAIN_CLAIM
SINGLE = eta_order.SINGLE_CLAIM
PROJECTED = dimension.PROJECTED_CLAIM


def claim_of(measured):
    """Return a claim itself, or the one claim of a module."""
    return getattr(measured, "CLAIM", measured)


def verdict(measured, data):
    claim = claim_of(measured)
    return claim.conclude(claim.judge(data)).verdict


@pytest.fixture(scope="module")
def quick():
    """Data of the small version of each claim, collected once."""
    found = {}

    def data(measured):
        claim = claim_of(measured)
        if claim.id not in found:
            found[claim.id] = claim.collect(0, True)
        return found[claim.id]

    return data


@pytest.mark.slow
class TestEtaOrder:
    def test_growth_is_quadratic_at_most(self, quick):
        assert verdict(INDEPENDENT, quick(INDEPENDENT)) == "holds"

    def test_cubic_growth_is_seen(self, quick):
        cubic = [replace(point, transitions=point.transitions / point.eta) for point in quick(INDEPENDENT)]
        assert verdict(INDEPENDENT, cubic) == "fails"

    def test_few_noisy_points_decide_nothing(self, quick):
        noisy = [
            replace(point, transitions=point.transitions * (100.0 if k % 2 else 1.0))
            for k, point in enumerate(p for p in quick(INDEPENDENT) if p.algorithm == "double-chain")
        ]
        others = [point for point in quick(INDEPENDENT) if point.algorithm != "double-chain"]
        assert verdict(INDEPENDENT, noisy + others) == "undecided"

    def test_along_a_chain_the_mixing_time_counts(self, quick):
        points = quick(ALONG_CHAIN)
        assert verdict(ALONG_CHAIN, points) == "fails"
        without = [replace(point, transitions=point.transitions / point.mixing_time) for point in points]
        assert verdict(ALONG_CHAIN, without) != "fails"
        assert verdict(ALONG_CHAIN, quick(INDEPENDENT)) == "holds"

    def test_half_of_epsilon_stays(self):
        problem = eta_order.slow_problem(np.random.default_rng(0), 0.05)
        steps, size = eta_order.steps_needed("double-chain", problem, "iid")
        long = gb.exact_curve("double-chain", problem, 10**7, size, sampling="iid", checkpoints=[10**7])
        assert long.mean_squared_error[-1] == pytest.approx(eta_order.WANTED_ERROR / 2, rel=0.03)
        around = gb.exact_curve(
            "double-chain", problem, int(1.01 * steps), size, sampling="iid", checkpoints=[int(0.99 * steps)]
        )
        before, after = around.mean_squared_error
        assert before > eta_order.WANTED_ERROR > after


class TestEtaOrderOfSingleChain:
    @staticmethod
    def points(power):
        return [
            eta_order.EtaPoint(name, family, coupling, coupling, coupling**-grows * wobble, 1)
            for family in eta_order.FAMILIES
            for coupling in (0.1, 0.05, 0.03)
            for wobble in (0.99, 1.0, 1.01)
            for name, grows in (("single-chain", power), ("double-chain", 3.0))
        ]

    @pytest.mark.parametrize(("power", "expected"), [(2.0, "holds"), (4.0, "holds"), (4.3, "fails")])
    def test_the_fourth_power_is_the_limit(self, power, expected):
        assert verdict(SINGLE, self.points(power)) == expected

    def test_few_points_that_scatter_decide_nothing(self):
        noisy = [
            replace(point, transitions=point.transitions * 100.0 ** (k % 2))
            for k, point in enumerate(self.points(4.0)[::2])
        ]
        others = [point for point in self.points(4.0) if point.algorithm == "double-chain"]
        assert verdict(SINGLE, noisy + others) == "undecided"

    def test_ratios_are_those_of_the_same_problem(self):
        parts = {part.name: part for part in SINGLE.judge(self.points(2.0)).parts}
        ratio = parts["samples of single-chain / double-chain, slow chain"]
        assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.03, 0.05, 0.1))

    @pytest.mark.slow
    def test_its_quick_version(self, quick):
        assert verdict(SINGLE, quick(SINGLE)) != "fails"
        assert {point.algorithm for point in quick(SINGLE)} == {"single-chain", "double-chain"}


def parity_points(double, discounted, settings):
    """Return points of parity that grow with given powers of 1 / small."""
    powers = {"double-chain": double, "td-lambda": 1.0, parity.DISCOUNTED: discounted}
    return [
        parity.ParityPoint(
            name, setting, sampling, chain, small, 0.9, small**-power, 1.0, small ** -(power + 1)
        )
        for setting in settings
        for sampling in parity.SAMPLINGS
        for chain in range(3)
        for small in (0.1, 0.01, 0.001)
        for name, power in powers.items()
    ]


class TestParity:
    SETTINGS = ("slow chain", "short feature", parity.TO_ONE)

    @pytest.mark.parametrize(
        ("double", "discounted", "expected"), [(2.0, 2.0, "holds"), (3.0, 2.0, "fails"), (2.0, 2.5, "fails")]
    )
    def test_each_order_counts(self, double, discounted, expected):
        points = parity_points(double, discounted, self.SETTINGS)
        assert verdict(parity.ORDER_CLAIM, points) == expected

    @pytest.mark.parametrize(("double", "expected"), [(1.0, "holds"), (1.5, "fails")])
    def test_the_same_answer_must_not_cost_more(self, double, expected):
        points = parity_points(double, 1.0, ("slow chain", parity.TO_ONE))
        assert verdict(parity.ANSWER_CLAIM, points) == expected

    def test_logarithms_are_divided_out(self):
        [point] = parity_points(2.0, 2.0, ("slow chain",))[:1]
        later = replace(point, first_error=100.0, transitions=2.0 * point.transitions)
        assert later.without_log == pytest.approx(point.without_log)  # log(100 / 0.01) = 2 log(1 / 0.01)

    def test_the_discount_costs_a_quarter_of_the_error(self):
        problem = measuring.slow_problem(np.random.default_rng(1), 0.03)
        values = gb.discounted_values(problem.mrp, parity.discount_for(problem))
        away = values.remainder - problem.solution.bias
        assert problem.solution.stationary @ away**2 == pytest.approx(0.0025, rel=1e-4)

    def test_half_of_epsilon_stays(self):
        """The search finds the step size that leaves half, here with a known curve of errors."""

        def errors_of(step_size, steps):
            return 4.0 * np.exp(-2.0 * step_size * 0.1 * steps) + 3.0 * step_size

        steps, step_size = measuring.steps_for_error(errors_of, 0.1)
        assert 3.0 * step_size == pytest.approx(0.005, rel=0.02)
        assert errors_of(step_size, steps) == pytest.approx(0.01, rel=1e-3)

    def test_curves_last_as_long_as_the_chain_mixes(self):
        asked = []

        def errors_of(step_size, steps):
            asked.append(steps[-1])
            return np.exp(-steps / 1e5) + step_size

        measuring.steps_for_error(errors_of, 10.0, at_least=10**7)
        assert min(asked) == 10**7


class TestBridge:
    def test_the_rate_and_its_constant(self, quick):
        assert verdict(bridge, quick(bridge)) == "holds"

    def test_another_rate_is_seen(self, quick):
        slow = [replace(each, distances=[d**0.8 for d in each.distances]) for each in quick(bridge)]
        assert verdict(bridge, slow) == "fails"

    def test_another_constant_is_seen(self, quick):
        wrong = [replace(each, missed=0.5) for each in quick(bridge)]
        assert verdict(bridge, wrong) == "fails"


class TestAlmostSure:
    @staticmethod
    def excursions(fall, straying=0):
        largest = np.outer(np.linspace(1.0, 2.0, 200), 4.0 ** (-fall * np.arange(6)))
        largest[:straying, -1] = largest[:straying, 0]
        return [
            almost_sure.Excursions(name, 2_000, largest)
            for name in (*almost_sure.SURE_METHODS, almost_sure.STEADY_STEP)
        ]

    def test_runs_that_fall(self):
        assert verdict(almost_sure, self.excursions(0.5)) == "holds"

    def test_runs_that_stay_are_seen(self):
        assert verdict(almost_sure, self.excursions(0.0)) == "fails"

    def test_runs_that_stray_are_seen(self):
        parts = almost_sure.judge(self.excursions(0.5, straying=30)).parts
        assert [part.verdict for part in parts if "stray" in part.name] == ["fails", "fails", None]

    @pytest.mark.slow
    def test_a_constant_step_does_not_converge(self, quick):
        assert verdict(almost_sure, quick(almost_sure)) == "holds"
        powers = {p.name: p for p in almost_sure.judge(quick(almost_sure)).parts if "power" in p.name}
        assert powers["double-chain: power of the worst run"].high < -0.25
        assert powers["double-chain, constant step: power of the worst run"].low > -0.25


class TestDimensionOfProjected:
    def test_no_dependence_is_a_failure_of_the_claim(self):
        assert verdict(PROJECTED, self.points(0.0)) == "fails"

    def test_a_dependence_is_seen(self):
        assert verdict(PROJECTED, self.points(1.0)) == "holds"

    @staticmethod
    def points(power):
        return [
            dimension.ProjectedPoint(d, 0.1 * d**power * wobble, 0.1)
            for d in (5, 10, 20, 50)
            for wobble in (0.99, 1.01)
        ]

    def test_all_directions_are_equally_slow(self):
        problem = dimension.even_for_projected(np.random.default_rng(3), 4)
        field = (
            gb.ALGORITHMS["td-lambda"]
            .declared.mean_field(problem, gb.ALGORITHMS["td-lambda"].params())
            .matrix
        )
        assert np.linalg.eigvalsh(0.5 * (field + field.T)) == pytest.approx(dimension.ETA)
        assert np.linalg.norm(
            gb.ALGORITHMS["projected-td"].declared.limit(
                problem, gb.ALGORITHMS["projected-td"].params(), np.zeros(4)
            )
        ) == pytest.approx(1.0)


class TestRate:
    def test_the_power_is_predicted(self, quick):
        assert verdict(rate, quick(rate)) == "holds"

    def test_another_power_is_seen(self, quick):
        slow = [replace(each, power=Interval(0.7, 0.69, 0.71)) for each in quick(rate).chain]
        assert verdict(rate, replace(quick(rate), chain=slow)) == "fails"

    @pytest.mark.parametrize(
        ("power", "expected"),
        [((0.1, 0.05, 0.15), "fails"), ((0.5, 0.2, 0.8), "undecided"), ((0.9, 0.8, 1), "holds")],
    )
    def test_a_task_must_not_fall_behind(self, power, expected, quick):
        setting = rate.RateSetting("task", 0.3, Interval(*power), printed_strength=0.6)
        outcome = rate.judge(replace(quick(rate), tasks=[setting]))
        assert rate.CLAIM.conclude(outcome).verdict == expected
        assert (
            "Of the paper's 1 settings 1 have a eta1 > 1/2 by its printed eta1 (0 by ours)" in outcome.reason
        )

    def test_five_of_the_printed_settings_have_steps_that_are_large_enough(self):
        strengths = [
            recipe.paper.step_numerator * recipe.paper.condition_numbers["eta1"]
            for recipe in gb.TASKS.values()
            if recipe.paper is not None
        ]
        assert len(strengths) == 15
        assert sum(strength > 0.5 for strength in strengths) == 5


class TestDimension:
    def test_no_dependence(self, quick):
        assert verdict(dimension, quick(dimension)) == "holds"

    def test_a_dependence_is_seen(self, quick):
        grown = [replace(point, error=point.error_same_gain) for point in quick(dimension)]
        assert verdict(dimension, grown) == "fails"

    def test_only_the_dimension_changes(self):
        for d in (3, 12):
            problem, _ = dimension.even_problems(np.random.default_rng(d), d)
            assert problem.condition_numbers.eta1 == pytest.approx(dimension.ETA)
            assert np.linalg.norm(problem.fixed_point) == pytest.approx(1.0)
            square = dimension.mean_square(problem, problem.fixed_point)
            assert square == pytest.approx(dimension.NOISE)

    def test_the_noise_is_that_of_all_moves(self):
        problem, _ = dimension.even_problems(np.random.default_rng(1), 2)
        weights = np.array([0.3, -0.4])
        total = 0.0

        def record(sample, params, step_size):
            matrix, force = measuring.double_chain_field()(sample, params, step_size)
            return matrix, np.array([((force - matrix @ weights) ** 2).sum(), 0.0])

        total = measuring.mean_update(record, problem)[1][0]
        assert dimension.mean_square(problem, weights) == pytest.approx(total)


class TestOneLimit:
    def test_as_the_paper_says(self, quick):
        assert verdict(one_limit, quick(one_limit)) == "holds"

    def test_runs_that_stay_apart_are_seen(self, quick):
        apart = [
            replace(ends, weights=np.repeat(ends.weights[:, :, :1], 2, axis=2))
            if ends.algorithm == "double-chain"
            else ends
            for ends in quick(one_limit)
        ]
        assert verdict(one_limit, apart) == "fails"

    def test_a_line_that_shrinks_to_a_point_is_seen(self, quick):
        def shrunk(weights):
            weights = weights.copy()
            weights[:, :, 1] = weights[0, 0, 0] + 0.1 * (weights[:, :, 0] - weights[0, 0, 0])
            return weights

        together = [
            replace(ends, weights=shrunk(ends.weights)) if ends.algorithm == "td-lambda" else ends
            for ends in quick(one_limit)
        ]
        assert verdict(one_limit, together) == "fails"

    def test_the_start_and_the_path_are_told_apart(self, quick):
        """The limit of differential-td depends on the first weights, but not on the path."""
        parts = {part.name: part for part in one_limit.judge(quick(one_limit)).parts}
        assert parts["spread after 16 T / after T: differential-td, constants in the span"].low > 0.9
        assert parts["the same, from one start: differential-td, constants in the span"].high < 0.5
        assert parts["the same, from one start: td-lambda, constants in the span"].low > 0.5


class TestSplitting:
    def test_identities_hold(self, quick):
        assert verdict(splitting, quick(splitting)) == "holds"

    def test_a_wrong_update_is_seen(self, monkeypatch):
        def flipped():
            right = measuring.double_chain_field()
            return lambda sample, params, size: right(sample._replace(other=-sample.other), params, size)

        monkeypatch.setattr(splitting, "double_chain_field", flipped)
        found = splitting.collect(0, True)
        parts = {part.name: part.verdict for part in splitting.judge(found).parts}
        assert parts.pop(splitting.DIRICHLET) == "holds"  # it has no update in it
        assert set(parts.values()) == {"fails"}


class TestConditions:
    def test_the_lemma_on_eta2_fails_and_that_on_eta3_holds(self, quick):
        parts = {part.name: part.verdict for part in conditions.judge(quick(conditions)).parts}
        assert parts["share of violations: eta1 >= mu_min / (n mu_max |mu|^2) eta2, tabular"] == "fails"
        assert (
            parts["share of violations: eta1 >= eta3 / 2"] == "undecided"
        )  # 30 chains are too few to be sure

    def test_enough_chains_without_violation(self, quick):
        many = [each for each in quick(conditions) if each.factor * each.eta2 <= each.eta1] * 20
        assert verdict(conditions, many) == "holds"

    def test_one_violation_is_enough(self, quick):
        many = [each for each in quick(conditions) if each.factor * each.eta2 <= each.eta1] * 20
        wrong = replace(many[0], eta3=2.1 * many[0].eta1)
        assert verdict(conditions, [*many, wrong]) == "fails"

    def test_the_counterexample_is_the_first(self, quick):
        first = quick(conditions)[0]
        assert (first.eta1, first.eta2, first.eta3, first.factor) == pytest.approx((0.5, 0.9, 0.9, 1.0))


@pytest.mark.slow  # they share one measurement
class TestBoundHolds:
    def test_errors_are_below(self, quick):
        assert verdict(bound_holds, quick(bound_holds)) == "holds"
        assert {check.printed for check in quick(bound_holds)} == {False, True}

    def test_an_error_above_is_seen(self, quick):
        first = next(check for check in quick(bound_holds) if check.useful)
        others = [check for check in quick(bound_holds) if check is not first]
        above = replace(first, error=2 * first.bound, low=2 * first.bound, high=2 * first.bound)
        assert verdict(bound_holds, [above, *others]) == "fails"
        unsure = replace(first, error=first.bound, low=0.5 * first.bound, high=2 * first.bound)
        assert verdict(bound_holds, [unsure, *others]) == "undecided"

    def test_bounds_that_say_nothing_are_not_judged(self, quick):
        """An error that may be above a bound of that kind changes nothing; one that is for sure does."""
        checks = quick(bound_holds)
        silent = next(check for check in checks if not check.useful)
        others = [check for check in checks if check is not silent]
        unsure = replace(silent, error=silent.bound, low=0.5 * silent.bound, high=2 * silent.bound)
        assert verdict(bound_holds, [unsure, *others]) == "holds"
        above = replace(silent, error=3 * silent.bound, low=2 * silent.bound, high=4 * silent.bound)
        assert verdict(bound_holds, [above, *others]) == "fails"

    def test_how_many_are_judged_is_said(self, quick):
        checks = quick(bound_holds)
        useful = sum(check.useful for check in checks)
        assert 0 < useful < len(checks)
        outcome = bound_holds.judge(checks)
        assert outcome.reason.startswith(f"Judged are {useful} of {len(checks)} cases")
        assert (
            "No verdict on bounds that say nothing: single-chain, constant steps, markov;" in outcome.reason
        )
        without = [part.name for part in outcome.parts if part.verdict is None]
        assert without
        assert all(name.endswith("say something: not judged)") for name in without)

    def test_nothing_to_judge_is_no_verdict(self, quick):
        silent = [replace(check, useful=False) for check in quick(bound_holds)]
        assert verdict(bound_holds, silent) == "undecided"
        outcome = bound_holds.judge(silent)
        assert outcome.reason.startswith(f"No verdict: in none of {len(silent)} cases")
        assert outcome.charts == ()


class TestDoubleSampling:
    def test_one_chain_lands_elsewhere(self, quick):
        assert verdict(double_sampling, quick(double_sampling)) == "holds"
        limits = {each.version: each.predicted for each in quick(double_sampling)}
        assert limits[double_sampling.TWO] == pytest.approx(0.0, abs=1e-12)
        assert limits[double_sampling.SAME] == pytest.approx(1.0)  # the weights go to 0

    def test_one_chain_that_lands_right_is_seen(self, quick):
        two = quick(double_sampling)[0]
        right = [replace(two, version=each.version) for each in quick(double_sampling)]
        assert verdict(double_sampling, right) == "fails"

    def test_a_wrong_prediction_is_seen(self, quick):
        wrong = [replace(each, predicted=each.predicted + 0.5) for each in quick(double_sampling)]
        assert verdict(double_sampling, wrong) == "fails"


class TestRewardEstimate:
    def test_the_power_is_one(self, quick):
        assert verdict(reward_estimate, quick(reward_estimate)) == "holds"

    def test_another_power_is_seen(self, quick):
        slow = [replace(each, errors=[e**0.9 for e in each.errors]) for each in quick(reward_estimate)]
        assert verdict(reward_estimate, slow) == "fails"

    def test_errors_by_enumeration_of_all_paths(self):
        rng = np.random.default_rng(5)
        mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(3), 3), rng.normal(size=3))
        gain = gb.solve(mrp).gain
        paths = [(1.0, 0, mrp.rewards[0])]
        for _ in range(3):
            paths = [
                (p * mrp.csr[s, after], after, total + mrp.rewards[after])
                for p, s, total in paths
                for after in range(3)
            ]
        expected = sum(p * (total / 4 - gain) ** 2 for p, _, total in paths)
        assert reward_estimate.mean_squared_errors(mrp, gain)[2] == pytest.approx(expected, rel=1e-12)


def test_the_same_seed_gives_the_same_result(quick):
    for module in (bound_holds, conditions):
        again = module.CLAIM.measure(0, quick=True)
        assert again == module.CLAIM.conclude(module.judge(quick(module)), seed=0, quick=True)


def test_another_seed_gives_other_figures(quick):
    other = dimension.collect(1, True)
    assert other[0].error != quick(dimension)[0].error


def test_every_claim_is_tested_here():
    tested = (
        almost_sure,
        bound_holds,
        bridge,
        conditions,
        dimension,
        PROJECTED,
        double_sampling,
        INDEPENDENT,
        ALONG_CHAIN,
        SINGLE,
        parity.ORDER_CLAIM,
        parity.ANSWER_CLAIM,
        one_limit,
        rate,
        reward_estimate,
        splitting,
    )
    assert {claim_of(measured).id for measured in tested} == set(CLAIMS)
