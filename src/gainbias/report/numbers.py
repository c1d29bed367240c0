"""Numbers as text, for tables, figures and pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable


def exact_text(value: float) -> str:
    """Return a number in the fewest digits that mean this number and no other.

    Examples
    --------
    >>> exact_text(0.1), exact_text(2.0), exact_text(0.99999999)
    ('0.1', '2', '0.99999999')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def distinct_texts(values: Iterable[float]) -> dict[float, str]:
    """Return a text for each number: six digits, or all of them where six would not tell it from others.

    Numbers that six digits would make look rounder than they are have all their digits, too. What is not a
    number is left out.

    Examples
    --------
    >>> distinct_texts([0.1, 0.00316227766]), distinct_texts([0.9999999, 0.99999999])
    ({0.00316227766: '0.00316228', 0.1: '0.1'}, {0.9999999: '0.9999999', 0.99999999: '0.99999999'})
    """
    known = sorted({float(value) for value in values if value == value})
    texts = {value: f"{value:g}" for value in known}
    counts = Counter(texts.values())
    return {
        value: exact_text(value) if counts[text] > 1 or f"{value:#g}".rstrip(".") != text else text
        for value, text in texts.items()
    }  # where zeros at the end were cut off, the number may look rounder than it is


def number_text(number: float) -> str:
    """Return a number with three digits.

    Examples
    --------
    >>> number_text(0.12345), number_text(float("inf"))
    ('0.123', 'diverged')
    """
    return f"{number:.3g}" if math.isfinite(number) else "diverged"


def interval_text(low: float, high: float) -> str:
    """Return an interval, or a dash.

    Examples
    --------
    >>> interval_text(0.1, 0.2), interval_text(float("nan"), float("nan"))
    ('0.1 to 0.2', '-')
    """
    return f"{low:.3g} to {high:.3g}" if math.isfinite(high) else "-"


def ratio_text(ratio: float) -> str:
    """Return a ratio with two decimals, or with two digits where decimals would say nothing.

    Examples
    --------
    >>> ratio_text(1.0), ratio_text(0.0123), ratio_text(123.4), ratio_text(1e6), ratio_text(float("nan"))
    ('1.00', '0.012', '123', '1e+06', '-')
    >>> ratio_text(0.0)
    '0'
    """
    if not math.isfinite(ratio):
        return "-"
    if ratio == 0:
        return "0"
    if ratio >= 10_000 or ratio < 0.001:
        return f"{ratio:.0e}"
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def range_text(estimate: float, low: float, high: float) -> str:
    """Return an estimate and its interval.

    Examples
    --------
    >>> range_text(0.5, 0.25, 1.0)
    '0.50 [0.25, 1.00]'
    """
    return f"{ratio_text(estimate)} [{ratio_text(low)}, {ratio_text(high)}]"


def spread_text(mean: float, std: float) -> str:
    """Return a mean and its spread as the paper prints distances, to two decimals.

    Examples
    --------
    >>> spread_text(0.123, 0.016), spread_text(1234.5, 100.0), spread_text(float("inf"), float("nan"))
    ('0.12 ± 0.02', '1.2e+03 ± 1.0e+02', 'diverged')
    """
    if math.isinf(mean):
        return "diverged"
    if mean >= 1000:
        return f"{mean:.1e}" if math.isnan(std) else f"{mean:.1e} ± {std:.1e}"
    return f"{mean:.2f}" if math.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def scaled_text(unit: float) -> Callable[[float, float], str]:
    """Return a function that prints a mean and its spread in units, to three decimals.

    Examples
    --------
    >>> scaled_text(1e-3)(0.00364, 0.0002), scaled_text(1e-3)(0.000052, float("nan"))
    ('3.640 ± 0.200', '0.052')
    """

    def text(mean: float, std: float) -> str:
        return f"{mean / unit:.3f}" + ("" if math.isnan(std) else f" ± {std / unit:.3f}")

    return text
