"""The random series against what is claimed about them, by simulation; nothing of the package is judged."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from tests.oracles.series import GARCH_QUANTILES, PROCESSES, Process, garch_quantiles, named, waiting_times
from tests.oracles.series_held_out import HELD_OUT, gamma_service, threshold

ALL = named([*PROCESSES.values(), *HELD_OUT.values()])
STEADY = [name for name, process in ALL.items() if process.steady and process.generate]
PAIRS = [name for name, process in ALL.items() if process.generate_pair]
VARIANCES = [name for name, p in ALL.items() if p.steady and p.long_run_variance]

ERRORS = 5.0
"""Standard errors that a simulation may be off."""


def drawn(process: Process, length: int, runs: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Draw runs; of pairs, a series whose mean is off by as much as the ratio."""
    rng = rng or np.random.default_rng(zlib.crc32(process.name.encode()))
    if process.generate_pair is not None:
        x, y = process.generate_pair(rng, length, runs)
        return (x - process.mean * y) / y.mean() + process.mean
    assert process.generate is not None
    return process.generate(rng, length, runs)


def assert_agree(by_run: np.ndarray, truth: float, least: float = 0.0) -> None:
    """Check the mean of independent numbers, and allow ``least`` beyond its error."""
    error = by_run.std(ddof=1) / np.sqrt(len(by_run))
    assert abs(by_run.mean() - truth) <= ERRORS * error + least


def assert_quantiles(process: Process, values: np.ndarray) -> None:
    least = ERRORS**2 / values.size
    for level, value in process.quantiles.items():
        below, upto = (values < value).mean(axis=1), (values <= value).mean(axis=1)
        if below.mean() > level:
            assert_agree(below, level, least)
        if upto.mean() < level:
            assert_agree(upto, level, least)


@pytest.mark.parametrize("name", STEADY)
def test_mean_and_quantiles_are_as_claimed(name: str) -> None:
    process = ALL[name]
    values = drawn(process, 1500, 400)
    assert values.shape == (400, 1500)
    assert values.dtype == np.float64
    if process.tail != "infinite variance":
        assert_agree(values.mean(axis=1), process.mean)
    assert_quantiles(process, values)


@pytest.mark.parametrize("name", STEADY)
def test_first_and_last_values_have_the_stationary_law(name: str) -> None:
    process = ALL[name]
    values = drawn(process, 40, 5000)
    for column in (values[:, :1], values[:, -1:]):
        assert_quantiles(process, column)
        if process.tail == "light" and process.rare is None:
            assert_agree(column[:, 0], process.mean)


@pytest.mark.parametrize("name", PAIRS)
def test_ratio_is_as_claimed(name: str) -> None:
    process = ALL[name]
    assert_agree(drawn(process, 1500, 300).mean(axis=1), process.mean)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANCES)
def test_long_run_variance_is_as_claimed(name: str) -> None:
    """Variance of the means of independent runs; a remainder of order relaxation / length is allowed."""
    process = ALL[name]
    length = int(max(1000, 60 * process.relaxation, 20 * (process.rare or 0)))
    if process.verdict == "periodic":  # the claim is about whole periods
        length = 60 * int(process.relaxation)
    runs, together = 1000, max(1, min(1000, 4_000_000 // length))
    rng = np.random.default_rng(zlib.crc32(process.name.encode()) + 1)
    means = np.concatenate(
        [drawn(process, length, together, rng).mean(axis=1) for _ in range(0, runs, together)]
    )
    claim = process.long_run_variance
    assert_agree(length * (means - process.mean) ** 2, claim, claim * 2 * process.relaxation / length)


@pytest.mark.parametrize("name", [name for name in ALL if not ALL[name].steady])
def test_series_that_are_not_steady_end_where_they_should(name: str) -> None:
    process = ALL[name]
    values = drawn(process, 6000, 400)
    assert values.shape == (400, 6000)
    assert not 6000 % process.chains
    late = values[:, 4000:].mean(axis=1)
    if process.mean is not None:
        assert_agree(late, process.mean)
    elif process.verdict != "chains disagree" and name != "random-walk":
        with pytest.raises(AssertionError):
            assert_agree(late, values[:, :2000].mean())


def test_quantiles_of_volatility_do_not_depend_on_the_grid() -> None:
    for found in (garch_quantiles(400, 101), garch_quantiles(700, 121)):
        assert found == pytest.approx(GARCH_QUANTILES, abs=5e-8)


def test_inverted_transform_is_the_closed_form_of_exponential_service() -> None:
    found = gamma_service(load=0.7, shape=1.0).quantiles
    assert found == pytest.approx(waiting_times(0.7).quantiles, abs=1e-7)


def test_law_on_nodes_does_not_depend_on_their_number() -> None:
    fine, coarse = threshold(nodes=110), ALL["threshold-ar"]
    assert fine.mean == pytest.approx(coarse.mean, abs=1e-8)
    assert fine.quantiles == pytest.approx(coarse.quantiles, abs=1e-8)
    assert fine.relaxation == pytest.approx(coarse.relaxation, rel=1e-6)
    assert fine.long_run_variance == pytest.approx(coarse.long_run_variance, rel=1e-6)


def test_a_wrong_claim_is_noticed() -> None:
    """The tests above would fail for a mean or a quantile that is off by a tenth of a standard deviation."""
    values = drawn(ALL["normal"], 1500, 400)
    with pytest.raises(AssertionError):
        assert_agree(values.mean(axis=1), 0.1)
    with pytest.raises(AssertionError):
        assert_quantiles(replace(ALL["normal"], quantiles={0.95: 1.7449}), values)
