"""What a claim is, what is measured for it, and how a verdict follows from an interval.

A claim has two halves. `collect` measures and returns plain data; `judge` turns data into figures with
intervals and verdicts, by rules and margins that are written here and in the files of the claims.

The chains on which claims are measured: random ones, and families with one property turned.

The mean of an update over all moves, by enumeration.

Slopes of straight lines, with intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from gainbias.algorithms.algorithm import NoParams, Sample
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.experiments.statistics import Interval
from gainbias.features import Tabular
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.types import Floats


def random_chain(rng: np.random.Generator, num_states: int) -> Floats:
    """Return transitions whose rows are drawn evenly among all laws: ergodic, fast, not reversible."""
    return rng.dirichlet(np.ones(num_states), num_states)


def reversible_chain(rng: np.random.Generator, num_states: int) -> Floats:
    """Return a random reversible chain: transitions in proportion to symmetric weights."""
    weights = rng.uniform(0.2, 1.0, (num_states, num_states))
    weights = weights + weights.T
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def rewarding(transitions: Floats, values: Floats, gain: float) -> MarkovRewardProcess:
    """Return the process with a given gain, and with given values for a bias, up to a constant."""
    return MarkovRewardProcess(transitions, gain + values - transitions @ values)


def slow_problem(rng: np.random.Generator, coupling: float) -> Problem:
    """Return two pairs of states between which the chain rarely moves: tabular, gain 1, |theta*| = 1.

    As the coupling falls, eta1 falls with it, and the mixing time grows. Rewards stay about 1 and the bias,
    which differs between the pairs, keeps its length. So nothing changes but the condition of the problem.
    """
    inside, between = np.zeros((4, 4)), np.zeros((4, 4))
    for pair, other in (([0, 1], [2, 3]), ([2, 3], [0, 1])):
        inside[np.ix_(pair, pair)] = rng.dirichlet(np.full(2, 4.0), 2)
        between[np.ix_(pair, other)] = rng.dirichlet(np.full(2, 4.0), 2)
    transitions = (1.0 - coupling) * inside + coupling * between
    values = np.array([1.0, 1.0, -1.0, -1.0]) + 0.3 * rng.normal(size=4)
    return _scaled(transitions, np.eye(4), values, tabular=True)


def short_problem(rng: np.random.Generator, length: float) -> Problem:
    """Return a fast chain, seen through a constant, a feature and a short one: gain 1, |theta*| = 1.

    As the feature becomes shorter, eta1 falls with its square, and the mixing time does not change.
    """
    transitions = random_chain(rng, 4)
    columns = np.column_stack([np.ones(4), rng.normal(size=4), length * rng.normal(size=4)])
    features = columns / np.linalg.norm(columns, axis=1).max()
    return _scaled(transitions, features, np.array([0.0, 0.5, 1.0]))


def _scaled(transitions: Floats, features: Floats, weights: Floats, tabular: bool = False) -> Problem:
    """Return the problem whose fixed point has the direction of weights, up to a constant, and length 1."""
    seen = Tabular() if tabular else features
    first = Problem(rewarding(transitions, features @ weights, 1.0), seen)
    size = float(np.linalg.norm(first.fixed_point))
    return Problem(rewarding(transitions, features @ weights / size, 1.0), seen)


SampleField = Callable[[Sample, NoParams, float], tuple[Floats, Floats] | None]


def double_chain_field() -> SampleField:
    """Return the step of double-chain for one sample."""
    field = ALGORITHMS["double-chain"].declared.sample_field
    assert field is not None
    return field


def mean_update(field: SampleField, problem: Problem) -> tuple[Floats, Floats]:
    """Return A and b of the mean update b - A theta, the second chain independent of the first.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> mean_update(double_chain_field(), problem)
    (array([[0.7]]), array([0.25]))
    """
    d, mu, transitions = problem.num_features, problem.solution.stationary, problem.mrp.csr.toarray()
    rows, rewards = problem.features.combine(np.eye(d)), problem.mrp.rewards
    matrix, force = np.zeros((d, d)), np.zeros(d)
    for (s, after, other), probability in np.ndenumerate(mu[:, None, None] * transitions[:, :, None] * mu):
        sample = Sample(
            rows[s], rows[after], float(rewards[s]), rows[other], rows[other], float(rewards[other])
        )
        made = field(sample, NoParams(), 1.0)
        assert made is not None
        matrix += probability * made[0]
        force += probability * made[1]
    return matrix, force


CLAIM_CONFIDENCE = 0.95


def log_slope(x: ArrayLike, y: ArrayLike) -> Interval:
    """Return the slope of log y on log x by least squares, with its 95 % interval.

    For exact curves the interval does not speak about chance, but about how far they are from a straight
    line.

    Examples
    --------
    >>> slope = log_slope([1, 10, 100], [3, 300, 30000])
    >>> round(slope.estimate, 6), round(slope.high - slope.low, 6)
    (2.0, 0.0)
    """
    across, up = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    if len(across) < 3:
        raise ValueError(f"the interval of a slope needs at least 3 points, found {len(across)}")
    weights = _weights(across)
    slope = float(up @ weights)
    missed = up - up.mean() - slope * (across - across.mean())
    error = np.sqrt((missed**2).sum() / (len(across) - 2) * (weights**2).sum())
    reach = float(student.ppf(0.5 + CLAIM_CONFIDENCE / 2, len(across) - 2) * error)
    return Interval(slope, slope - reach, slope + reach)


def mean_slope(x: ArrayLike, samples: Floats) -> Interval:
    """Return the slope of log mean(samples) on log x, samples (runs, points), with an interval over runs.

    The interval is found by leaving out one run at a time.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.array([10.0, 100.0, 1000.0])
    >>> slope = mean_slope(x, rng.chisquare(1, (500, 3)) / x)
    >>> slope.low < -1 < slope.high
    True
    """
    runs = len(samples)
    weights = _weights(np.log(np.asarray(x, dtype=float)))
    total = samples.sum(axis=0)
    slope = float(np.log(total) @ weights)
    without_one = np.log((total - samples) / (runs - 1)) @ weights
    error = np.sqrt((runs - 1) / runs * ((without_one - without_one.mean()) ** 2).sum())
    reach = float(student.ppf(0.5 + CLAIM_CONFIDENCE / 2, runs - 1) * error)
    return Interval(slope, slope - reach, slope + reach)


def _weights(across: Floats) -> Floats:
    centred = across - across.mean()
    return np.asarray(centred / (centred**2).sum())


Verdict = Literal["holds", "fails", "undecided"]
Axis = Literal["log", "linear"]


@dataclass(frozen=True)
class Part:
    """One measured figure of a claim.

    Attributes
    ----------
    name : str
        What was measured.
    value, low, high : float
        The figure and its interval.
    expected : str
        What the claim says about it, in words; empty if it says nothing.
    verdict : {"holds", "fails", "undecided"} or None
        None for a figure that is shown beside the claim but not claimed.
    """

    name: str
    value: float
    low: float
    high: float
    expected: str = ""
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Line:
    """One line, or row of points, of a chart: x and y of equal length, and the ends of intervals of y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = field(default_factory=list)
    high: Sequence[float] = field(default_factory=list)
    reference: bool = False
    """Whether it is what theory predicts, drawn faintly and without marks."""


@dataclass(frozen=True)
class Chart:
    """What a figure shows, without saying how it is drawn."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    x_axis: Axis = "log"
    y_axis: Axis = "log"


@dataclass(frozen=True)
class Judgement:
    """What a judge says: figures, charts, and the reason in a sentence or two.

    `counts` are the numbers of chains, runs and steps that really ran, by the names that stand for them in
    `Claim.how` and `Claim.interval`.
    """

    parts: tuple[Part, ...]
    reason: str
    charts: tuple[Chart, ...] = ()
    counts: Mapping[str, object] = field(default_factory=dict)


QUICK = "Quick look, not the full test"
"""Every sentence about how a quick version was measured, or what it says, begins with this."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and how it is put to the test.

    Attributes
    ----------
    id : str
        Its name on the command line.
    text : str
        What is claimed, in our words.
    where : str
        Where the paper says it.
    how : str
        How it is measured. Names in braces, such as ``{chains}``, stand for `Outcome.counts`.
    interval : str
        What the interval of a figure is; the same holds for its names in braces.
    collect : callable (seed, quick) -> data
        Measures; `quick` asks for a small version.
    judge : callable (data) -> Outcome
        Decides.
    findings : tuple of str
        Anchors on the page of findings about the paper that bear on it.
    quick_how : str
        How the quick version is measured, if `how` has no names in braces.
    """

    id: str
    text: str
    where: str
    how: str
    interval: str
    collect: Callable[[int, bool], Any]
    judge: Callable[[Any], Judgement]
    findings: tuple[str, ...] = ()
    quick_how: str = ""

    def measure(self, seed: int = 0, quick: bool = False) -> ClaimResult:
        """Put the claim to the test."""
        return self.conclude(self.judge(self.collect(seed, quick)), seed, quick)

    def conclude(self, outcome: Judgement, seed: int | None = None, quick: bool | None = None) -> ClaimResult:
        """Return the result that an outcome means; a quick one says so in its sentences and charts."""
        charts, reason = outcome.charts, outcome.reason
        if quick:
            reason = f"{QUICK}: {reason}"
            charts = tuple(replace(chart, title=f"{chart.title} (quick look)") for chart in charts)
        return ClaimResult(
            id=self.id,
            text=self.text,
            where=self.where,
            how=self._how(outcome.counts, bool(quick)),
            interval=self.interval.format_map(outcome.counts) if outcome.counts else self.interval,
            findings=self.findings,
            verdict=together(part.verdict for part in outcome.parts),
            reason=reason,
            parts=outcome.parts,
            charts=charts,
            quick=quick,
            seed=seed,
        )

    def _how(self, counts: Mapping[str, object], quick: bool) -> str:
        if counts:
            how = self.how.format_map(counts)
            return f"{QUICK}: {how}" if quick else how
        if not quick:
            return self.how
        return f"{QUICK}: {self.quick_how}" if self.quick_how else f"{QUICK}, which is this: {self.how}"


@dataclass(frozen=True)
class ClaimResult:
    """A claim, what was measured, and the verdict; see `Claim`, `Part` and `Chart`.

    Attributes
    ----------
    quick : bool or None
        Whether this is the small version, for a first look; None if that is not known.
    seed : int or None
        Of everything random; None if that is not known.
    command : str
        What was typed or called; empty if that is not known.
    """

    id: str
    text: str
    where: str
    how: str
    interval: str
    findings: tuple[str, ...]
    verdict: Verdict
    reason: str
    parts: tuple[Part, ...]
    charts: tuple[Chart, ...] = ()
    quick: bool | None = None
    seed: int | None = None
    command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> ClaimResult:
        """Return the result that `to_dict` was called on."""
        parts = tuple(Part(**part) for part in stored["parts"])
        charts = tuple(
            Chart(**{**chart, "lines": tuple(Line(**line) for line in chart["lines"])})
            for chart in stored["charts"]
        )
        return ClaimResult(
            **{**stored, "parts": parts, "charts": charts, "findings": tuple(stored["findings"])}
        )


WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def in_words(number: float, what: str = "") -> str:
    """Return a small whole number as a word, others in digits, with what is counted.

    Examples
    --------
    >>> in_words(1, "chain"), in_words(3, "chain"), in_words(1.5, "decade"), in_words(24), in_words(10_000)
    ('one chain', 'three chains', '1.5 decades', '24', '10,000')
    """
    whole = float(number).is_integer()
    word = WORDS[int(number)] if whole and 0 <= number < len(WORDS) else f"{number:,}"
    return f"{word} {what}{'' if number == 1 else 's'}" if what else word


def notice(results: Sequence[ClaimResult]) -> str:
    """Return what must be said first of results that are not those of the full test; empty if all are.

    Examples
    --------
    >>> common = {"text": "", "where": "", "how": "", "interval": "", "findings": (), "verdict": "holds"}
    >>> notice([ClaimResult(id="rate", reason="", parts=(), quick=False, **common)])
    ''
    >>> notice([ClaimResult(id="rate", reason="", parts=(), quick=True, seed=3, **common)])
    'Quick look, not the full test: rate. Fewer chains, runs and steps were ... Seed 3.'
    """
    quick = [result.id for result in results if result.quick]
    unknown = [result.id for result in results if result.quick is None]
    sentences = []
    if quick:
        named = "all claims here" if len(quick) == len(results) > 1 else ", ".join(quick)
        sentences.append(
            f"{QUICK}: {named}. Fewer chains, runs and steps were measured than for the documented results, "
            "so intervals are wider, some figures are missing and verdicts may differ. Leave out --quick "
            "(quick=True in Python) for the full test."
        )
    if unknown:
        named = "these claims" if len(unknown) == len(results) else ", ".join(unknown)
        sentences.append(f"It is not recorded whether {named} were put to the full test.")
    seeds = dict.fromkeys(str(result.seed) for result in results if result.seed is not None)
    commands = dict.fromkeys(result.command for result in results if result.command)
    if sentences and seeds:
        sentences.append(f"Seed {', '.join(seeds)}.")
    if sentences and commands:
        sentences.append(f"Command: {'; '.join(commands)}.")
    return " ".join(sentences)


def together(verdicts: Iterable[Verdict | None]) -> Verdict:
    """Return one verdict for several: a claim holds if all that it says holds.

    Examples
    --------
    >>> together(["holds", None, "undecided"]), together(["holds", "fails", "undecided"])
    ('undecided', 'fails')
    """
    found = {verdict for verdict in verdicts if verdict is not None}
    if not found:
        raise ValueError("a claim must have at least one figure with a verdict")
    if "fails" in found:
        return "fails"
    return "undecided" if "undecided" in found else "holds"


def within(low: float, high: float, least: float, most: float) -> Verdict:
    """Say whether a figure is between two numbers: for sure, for sure not, or perhaps.

    Examples
    --------
    >>> within(1.9, 2.05, 1.8, 2.2), within(2.1, 2.3, 1.8, 2.2), within(2.3, 2.4, 1.8, 2.2)
    ('holds', 'undecided', 'fails')
    """
    if math.isnan(low) or math.isnan(high):
        return "undecided"
    if least <= low and high <= most:
        return "holds"
    return "fails" if high < least or low > most else "undecided"


def about(name: str, found: Interval, expected: float, margin: float) -> Part:
    """Return the part of a figure that is claimed to be a number, up to a margin."""
    verdict = within(found.low, found.high, expected - margin, expected + margin)
    return _part(name, found, f"{expected:.3g} within {margin:g}", verdict)


def at_most(name: str, found: Interval, limit: float) -> Part:
    """Return the part of a figure that is claimed to be at most a number."""
    verdict = within(found.low, found.high, -math.inf, limit)
    return _part(name, found, f"at most {limit:g}", verdict)


def at_least(name: str, found: Interval, limit: float) -> Part:
    """Return the part of a figure that is claimed to be at least a number."""
    verdict = within(found.low, found.high, limit, math.inf)
    return _part(name, found, f"at least {limit:g}", verdict)


def shown(name: str, found: Interval, expected: str = "") -> Part:
    """Return the part of a figure about which nothing is claimed."""
    return _part(name, found, expected)


def _part(name: str, found: Interval, expected: str, verdict: Verdict | None = None) -> Part:
    return Part(name, float(found.estimate), float(found.low), float(found.high), expected, verdict)
