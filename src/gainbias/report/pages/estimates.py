"""The page of one evaluation: warnings first, the gain, how it settled down, and the values."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import gainbias
from gainbias.evaluation.estimate import Estimate, with_interval
from gainbias.evaluation.storage import load_to_show
from gainbias.experiments.provenance import package_versions
from gainbias.report.figures.style import NEGATIVE, POSITIVE
from gainbias.report.figures.values import ValueView, gain_range, has_varied, value_view
from gainbias.report.pages import estimate_words as words
from gainbias.report.pages.elements import definitions, paragraph, sortable_table
from gainbias.report.pages.frame import assembled, clock, script_data
from gainbias.store import write_whole

WIDTH_CHOICE = """\
<form class="controls" aria-label="What the map shows" hidden>
<label>Shown <select data-choice="shown">
<option value="value">relative value</option>
<option value="width">half-width of its interval</option>
</select></label>
</form>"""


def write_stored_page(source: Path, path: Path) -> None:
    """Write the page of an estimate that is in a file.

    Raises
    ------
    ValueError
        If there is none in it, or the page would take its place.
    """
    estimate = load_to_show(source)
    if path.resolve() == source.resolve():
        raise ValueError(f"the page would take the place of the estimate in {source}: name another file")
    written = clock(source.stat().st_mtime)
    write_estimate_page(estimate, path, {"Estimate": f"{source.name}, written {written}"})


def write_estimate_page(estimate: Estimate, path: Path, made: Mapping[str, str]) -> None:
    """Write the interactive page of an estimate.

    Parameters
    ----------
    estimate : Estimate
    path : Path
        The page.
    made : mapping of str to str
        How the estimate came about; the date and versions are added.
    """
    versions = {
        "gainbias": gainbias.__version__,
        "Python": platform.python_version(),
        **{name: version for name, version in package_versions().items() if version},
    }
    facts = {
        **made,
        "Page written": clock(time.time()),
        "By": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    write_whole(path, estimate_html(estimate, facts).encode())


def estimate_html(estimate: Estimate, made: Mapping[str, str]) -> str:
    """Return the interactive page of an estimate; ``made`` says how it came about, the foremost first."""
    gain, interval = with_interval(estimate.gain, estimate.gain_interval, estimate.confidence).split(", ")
    facts, view = estimate.diagnostics, value_view(estimate)
    warnings = _listed("Warnings: read these first", facts.warnings)
    return assembled(
        "estimate.html",
        ["estimate.js"],
        title=f"Gain {escape(gain)}",
        warnings=f'<div class="warning" role="note">{warnings}</div>' if warnings else "",
        gain=escape(gain),
        interval=escape(interval),
        about=escape(words.about(estimate)),
        origin=escape(": ".join(next(iter(made.items())))),
        notes=_listed("Notes", facts.notes),
        values=_values_section(estimate, view),
        diagnostics=definitions(words.diagnostics(estimate)),
        made=definitions(made),
        data=script_data({"gain": _gain_data(estimate), "values": view and _value_data(view)}),
    )


def _listed(title: str, texts: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<h2>{title}</h2><ul>{items}</ul>" if items else ""


def _values_section(estimate: Estimate, view: ValueView | None) -> str:
    if view is None:
        return paragraph(words.no_picture(estimate)) + _table(estimate)
    spoken = words.values(view)
    chart = f'<div id="values" class="chart" role="img" aria-label="{escape(spoken)}"></div>'
    hint = f'<p class="hint">{escape(words.how_to_read(view, estimate.confidence))}</p>'
    return (
        paragraph(spoken) + WIDTH_CHOICE * (view.form == "map") + chart * (len(view.seen) > 0) + hint
    ) + _table(estimate)


def _table(estimate: Estimate) -> str:
    rows, left_out = words.value_rows(estimate)
    if not rows:
        return ""
    table = sortable_table("Relative values", words.VALUE_HEADER, rows)
    return table + (f'<p class="hint">{escape(left_out)}</p>' if left_out else "")


# Numbers of charts ---------------------------------------------------------------------------------


def _gain_data(estimate: Estimate) -> dict[str, Any]:
    history, varied = estimate.history, has_varied(estimate.history)
    known = varied & np.isfinite(history.high - history.low)
    parts = zip(history.gain, history.low, history.high, varied, strict=True)
    return {
        "x": history.transitions.tolist(),
        "y": _numbers(history.gain),
        "low": _numbers(np.where(known, history.low, np.nan)),
        "high": _numbers(np.where(known, history.high, np.nan)),
        "texts": [
            words.number_with_ends(*part) if is_varied else words.without_interval(part[0])
            for *part, is_varied in parts
        ],
        "last": _numbers([estimate.gain])[0],
        "range": gain_range(estimate),
        "colour": POSITIVE,
    }


def _value_data(view: ValueView) -> dict[str, Any]:
    known, is_whole = view.known, view.seen.dtype.kind == "i"
    unseen = words.NO_STEP if is_whole else words.UNSEEN
    low, high = np.where(known, view.intervals.T, np.nan)
    return {
        "form": view.form,
        "axes": [axis.tolist() for axis in view.axes],
        "whole": is_whole,
        "names": [str(seen) for seen in view.seen.tolist()] if view.form == "extremes" else [],
        "values": _numbers(view.values),
        "low": _numbers(low),
        "high": _numbers(high),
        "texts": [
            words.value_with_ends(value, start, end, unseen)
            for value, (start, end) in zip(view.values, view.intervals, strict=True)
        ],
        "colours": [NEGATIVE, POSITIVE],
    }


def _numbers(values: Any) -> list[float | None]:
    """Return numbers as they are; None stands for what JSON does not have."""
    return [float(value) if np.isfinite(value) else None for value in values]
