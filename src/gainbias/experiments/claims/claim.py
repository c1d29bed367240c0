"""What a claim is, what is measured for it, and how a verdict follows from an interval.

A claim has two halves. `collect` measures and returns plain data; `judge` turns data into figures with
intervals and verdicts, by rules and margins that are written here and in the files of the claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from gainbias.evaluation.estimate import as_precise
from gainbias.experiments.statistics import Interval

Verdict = Literal["holds", "fails", "undecided"]
Axis = Literal["log", "linear"]

QUICK = "Quick look, not the full test"
"""Every sentence about how a quick version was measured, or what it says, begins with this."""

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class LineFit(Interval):
    """A slope; its ends say how far points are from a straight line, not how much they vary by chance."""


class Range(Interval):
    """A figure of several chains; its ends are the smallest and the largest."""


class FourErrors(Interval):
    """A mean over runs; its ends are 4 standard errors away, or it is exact."""


class TenthOfSpread(Interval):
    """An exact mean; its ends are a tenth of the spread of single runs away."""


ENDS = {
    Interval: "95% interval",
    LineFit: "fit of a line",
    Range: "range",
    FourErrors: "4 standard errors",
    TenthOfSpread: "tenth of the spread",
}
"""What the ends of an interval mean, in tables."""


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
        How it is measured. Names in braces, such as ``{chains}``, stand for `Judgement.counts`.
    interval : str
        What the interval of a figure is; the same holds for its names in braces.
    collect : callable (seed, quick) -> data
        Measures; `quick` asks for a small version.
    judge : callable (data) -> Judgement
        Decides.
    findings : tuple of str
        Anchors on the page of findings about the paper that bear on it.
    quick_how : str
        How the quick version is measured, if `how` has no names in braces.
    said : mapping of str to str
        What the claim says of a figure, by its pass mark (`Part.expected`), where that leaves room for
        errors.
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
    said: Mapping[str, str] = field(default_factory=dict)

    def measure(self, seed: int = 0, quick: bool = False) -> ClaimResult:
        """Measure the claim, and return the result."""
        return self.conclude(self.judge(self.collect(seed, quick)), seed, quick)

    def conclude(self, outcome: Judgement, seed: int | None = None, quick: bool | None = None) -> ClaimResult:
        """Return the result that a judgement means; a quick one says so in its sentences and charts."""
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
class Judgement:
    """What follows from the data of a claim: figures, charts, and the reason in a sentence or two.

    `counts` are the numbers of chains, runs and steps that really ran, by the names that stand for them in
    `Claim.how` and `Claim.interval`.
    """

    parts: tuple[Part, ...]
    reason: str
    charts: tuple[Chart, ...] = ()
    counts: Mapping[str, object] = field(default_factory=dict)


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
        What it must be for the claim to pass, in words; empty if the claim says nothing about it.
    verdict : {"holds", "fails", "undecided"} or None
        None for a figure that is shown beside the claim but not claimed.
    ends : str
        What the ends of the interval mean, in words; "exact" if there is none.
    """

    name: str
    value: float
    low: float
    high: float
    expected: str = ""
    verdict: Verdict | None = None
    ends: str = ""


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
    versions : dict
        Of this package and of those that figures depend on; empty if they are not known.
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
    versions: dict[str, str | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> ClaimResult:
        """Return the result whose `to_dict` gave this."""
        parts = tuple(Part(**part) for part in stored["parts"])
        charts = tuple(
            Chart(**{**chart, "lines": tuple(Line(**line) for line in chart["lines"])})
            for chart in stored["charts"]
        )
        return ClaimResult(
            **{**stored, "parts": parts, "charts": charts, "findings": tuple(stored["findings"])}
        )


def notice(results: Sequence[ClaimResult]) -> str:
    """Return what must be said first of results that are not those of the full test; empty if all are.

    Examples
    --------
    >>> common = {"text": "", "where": "", "how": "", "interval": "", "findings": (), "verdict": "holds"}
    >>> notice([ClaimResult(id="rate", reason="", parts=(), quick=False, **common)])
    ''
    >>> notice([ClaimResult(id="rate", reason="", parts=(), quick=True, seed=3, **common)])
    'Quick look, not the full test: wider intervals, and verdicts may differ. For the full ...'
    """
    quick = [result.id for result in results if result.quick]
    unknown = [result.id for result in results if result.quick is None]
    sentences = []
    if quick:
        named = "" if len(quick) == len(results) else f" of {', '.join(quick)}"
        sentences.append(
            f"{QUICK}{named}: wider intervals, and verdicts may differ. For the full test leave out --quick."
        )
    if unknown:
        named = "these claims" if len(unknown) == len(results) else ", ".join(unknown)
        sentences.append(f"It is not recorded whether {named} were put to the full test.")
    return " ".join(sentences)


def notice_and_origin(results: Sequence[ClaimResult]) -> str:
    """Return the same with seed and command, for what may be read without the page of the claims.

    Examples
    --------
    >>> common = {"text": "", "where": "", "how": "", "interval": "", "findings": (), "verdict": "holds"}
    >>> notice_and_origin([ClaimResult(id="rate", reason="", parts=(), quick=True, seed=3, **common)])
    'Quick look, not the full test: ... For the full test leave out --quick. Seed 3.'
    """
    told = notice(results)
    seeds = dict.fromkeys(str(result.seed) for result in results if result.seed is not None)
    commands = dict.fromkeys(result.command for result in results if result.command)
    if told and seeds:
        told += f" Seed {', '.join(seeds)}."
    if told and commands:
        told += f" Command: {'; '.join(commands)}."
    return told


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


def claimed_in_words(claimed: Mapping[str, str], part: Part) -> str:
    """Return what a claim says of a figure and, where that is something else, how near it must be to pass.

    Of a figure that is near enough, but whose interval does not contain what is claimed, it says how far off
    it is.

    `claimed` is `Claim.said`.

    Examples
    --------
    >>> claimed_in_words({"at most 2.1": "at most 2"}, at_most("power", Interval(1.94, 1.92, 1.97), 2.1))
    'at most 2; passes up to 2.1'
    >>> claimed_in_words({}, about("power", Interval(0.435, 0.433, 0.437), 0.4, 0.1))
    '0.4 ± 0.1; differs by 0.035'
    >>> claimed_in_words({}, about("power", Interval(0.41, 0.39, 0.43), 0.4, 0.1))
    '0.4 ± 0.1'
    """
    number, _, tolerance = part.expected.partition(" within ")
    if tolerance:
        low, high = (float(f"{end:.3g}") for end in (part.low, part.high))  # as `number` is rounded
        misses = not low <= float(number) <= high
        off = f"; differs by {abs(part.value - float(number)):.2g}" if misses else ""
        return f"{number} ± {tolerance}{off}"
    said = claimed.get(part.expected)
    if said is None:
        return part.expected
    if part.verdict is None:
        return said
    mark = part.expected.removeprefix("at most ").removeprefix("at least ")
    return f"{said}; passes {'up to' if part.expected.startswith('at most') else 'from'} {mark}"


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
    value, low, high = map(float, found)
    ends = ENDS[type(found)] if low < high else "exact"
    return Part(name, value, low, high, expected, verdict, ends)


NARROWEST = 0.01
"""Of a narrower interval four digits after the point are shown, and its ends are rounded outwards."""

MOST_TIMES = 10.0
"""Digits follow the width of an interval, unless its upper end is more than this times its lower one."""

LEAST_PLAIN, POWER_OF_TEN_FROM = 1e-3, 1e5
"""Numbers below the first, and from the second on, are written with powers of ten."""


def figures(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a figure and the ends of its interval with digits that follow from its width; at most four.

    Examples
    --------
    >>> figures(0.43511, 0.43282, 0.4374), figures(0.999997, 0.999986, 1.0000001)
    (('0.4351', '0.4328', '0.4374'), ('1.0000', '0.9999', '1.0001'))
    >>> figures(51.793, 5.378, 141.114), figures(6689.866, 25.510, 7.6e5)
    (('52', '5.4', '140'), ('6700', '26', '7.6e+05'))
    >>> figures(2.7e-16, 2.7e-16, 2.7e-16)[0], figures(0.0, 0.0, 0.0)[0]
    ('2.7e-16', '0')
    """
    numbers, width, largest = (value, low, high), high - low, max(abs(low), abs(high))
    is_plain = LEAST_PLAIN <= largest < POWER_OF_TEN_FROM
    if 0.0 < MOST_TIMES * low < high:  # over orders of magnitude: the width says little
        shown = [_with_digits(number, 2) for number in numbers]
    elif not 0.0 < width < math.inf:
        shown = [f"{number:.3f}" if is_plain else _with_digits(number, 2) for number in numbers]
    elif not is_plain:
        digits = math.floor(math.log10(largest)) - math.ceil(math.log10(width)) + 3
        shown = [_with_digits(number, min(digits, 4)) for number in numbers]
    elif width < NARROWEST / 10.0:
        ends = math.floor(low * 1e4) / 1e4, math.ceil(high * 1e4) / 1e4
        shown = as_precise((value, *ends), NARROWEST)
    else:
        shown = as_precise(numbers, width)
    return shown[0], shown[1], shown[2]


def _with_digits(number: float, digits: int) -> str:
    rounded = float(f"{number:.{digits}g}")
    is_plain = rounded == 0.0 or LEAST_PLAIN <= abs(rounded) < POWER_OF_TEN_FROM
    return f"{rounded:g}" if is_plain else f"{rounded:.{digits - 1}e}"


def within(low: float, high: float, least: float, most: float) -> Verdict:
    """Return whether a figure is between two numbers: it holds, fails, or is undecided.

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
