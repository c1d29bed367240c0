"""The page of a sweep: sensitivity to the step size, the best step sizes, and learning curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
from pandas import DataFrame

from gainbias.report.data.sweeps import for_charts
from gainbias.report.figures.sweeps import looks_of
from gainbias.report.pages.frame import NUMBER, assembled, chart_look, definitions, script_data, short
from gainbias.report.pages.study import MOST_CURVE_POINTS, thinned
from gainbias.report.tables.sweeps import HEADER, NOTE, interval_words, several_paths
from gainbias.report.text import number_text

MOST_CURVES = 2000
"""Most learning curves of a page: those at the best steps first, then those at shared ones."""

SWEEP_CURVE_COLUMNS = ["task", "metric", "series", "schedule"]
"""What tells one curve from another."""


def sweep_page(points: DataFrame, best: DataFrame, manifest: Mapping[str, Any]) -> str:
    """Return the interactive page of a sweep."""
    name = escape(str(manifest["name"]))
    about = (
        f"{_count(manifest['units'], 'unit')} with {_count(manifest['lanes'], 'lane')}: how errors depend on "
        "the step size, which step sizes are best, and how errors fall."
    )
    return assembled(
        "sweep.html",
        ["sweep.js"],
        title=f"Sweep {name}",
        about=about,
        warning=_warning(manifest),
        best=_best_table(best),
        study=_study(manifest),
        data=script_data(chart_data(points, best)),
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def chart_data(points: DataFrame, best: DataFrame) -> dict[str, Any]:
    """Return the numbers of all charts of a sweep, ready for JSON.

    Returns
    -------
    dict
        "tasks" and "metrics"; "series" by name, with their looks; "shared", step sizes that several series
        have; "points" by task, metric and series: errors at the last step by step size, the best step
        size, and learning curves by step size; "overPaths", tasks with intervals over the paths of one
        instance; "exact", whether there are exact curves beside them;
        "leftOut", how many curves are not there; "thinned", whether checkpoints were left out.
    """
    (points, over_paths), (best, _) = for_charts(points), for_charts(best)
    owners = points[points["schedule"] != "none"].groupby("schedule")["series"].nunique()
    sizes = points.drop_duplicates("schedule").set_index("schedule")["a"]
    shared = sorted(owners[owners > 1].index, key=lambda schedule: float(sizes[schedule]))
    looks = looks_of(points["series"].unique())
    bests = {(row.task, row.metric, row.series): row for row in best.itertuples()}
    kept, left_out = _kept_curves(points, best, shared)
    found: dict[str, Any] = {}
    for (task, metric, series), rows in points.groupby(["task", "metric", "series"], sort=False):
        chosen = bests[task, metric, series]
        found.setdefault(task, {}).setdefault(metric, {})[series] = {
            **_sensitivity(rows),
            "best": {"schedule": chosen.schedule, **_numbers(chosen)},
            "curves": {
                schedule: _curve(curve)
                for schedule, curve in rows.groupby("schedule", sort=False)
                if (task, metric, series, schedule) in kept
            },
        }
    return {
        "tasks": list(found),
        "metrics": [str(metric) for metric in points["metric"].unique()],
        "series": {name: chart_look(look) for name, look in looks.items()},
        "shared": shared,
        "points": found,
        "overPaths": over_paths,
        "exact": bool(points["exact"].notna().any()),
        "leftOut": left_out,
        "thinned": bool(points.groupby(SWEEP_CURVE_COLUMNS, sort=False).size().max() > MOST_CURVE_POINTS),
    }


def _kept_curves(points: DataFrame, best: DataFrame, shared: list[str]) -> tuple[set[Any], int]:
    """Return the curves that a page has room for, and how many others it should have."""
    at_best = best[SWEEP_CURVE_COLUMNS].itertuples(index=False, name=None)
    at_shared = points.loc[points["schedule"].isin(shared), SWEEP_CURVE_COLUMNS].itertuples(
        index=False, name=None
    )
    wanted = list(dict.fromkeys([*at_best, *at_shared]))
    return set(wanted[:MOST_CURVES]), max(0, len(wanted) - MOST_CURVES)


def _sensitivity(rows: DataFrame) -> dict[str, Any]:
    last = rows[rows["step"] == rows["step"].max()].sort_values("a")
    numbers = {name: [short(number) for number in last[name]] for name in ("mean", "low", "high")}
    sizes = [float(a) if np.isfinite(a) else None for a in last["a"]]  # all digits: grids may be fine
    return {"a": sizes, **numbers, "schedules": last["schedule"].tolist()}


def _curve(rows: DataFrame) -> dict[str, Any]:
    rows = rows[rows["step"] > 0].sort_values("step")
    rows = rows.iloc[thinned(len(rows))]
    kinds = ("mean", "low", "high", *(["exact"] if rows["exact"].notna().any() else []))
    numbers = {name: [short(number) for number in rows[name]] for name in kinds}
    return {**numbers, "steps": rows["step"].tolist(), "transitions": rows["transitions"].tolist()}


def _numbers(row: Any) -> dict[str, Any]:
    return {name: short(getattr(row, name)) for name in ("mean", "low", "high")}


def _best_table(best: DataFrame) -> str:
    """Return the best steps of all tasks and metrics; a script shows those that are asked for."""
    counts = ["instances", *(["runs"] if several_paths(best) else [])]
    kinds = ["", "", "", NUMBER, NUMBER, *[NUMBER for _ in counts]]
    titles = zip(kinds, [*HEADER, "Runs"][: len(kinds)], strict=True)
    head = "".join(f'<th scope="col"{kind}>{title}</th>' for kind, title in titles)
    rows = []
    for row in best.itertuples():
        edge = " (at the edge of the grid)" if row.at_edge else ""
        texts = [row.series, row.schedule + edge, number_text(row.mean), interval_words(row)]
        texts += [str(getattr(row, count)) for count in counts]
        pairs = zip(kinds[1:], texts, strict=True)
        cells = "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in pairs)
        marks = f'data-task="{escape(row.task)}" data-metric="{escape(row.metric)}"'
        rows.append(f'<tr {marks}><th scope="row">{escape(row.task)}</th>{cells}</tr>')
    body = "\n".join(rows)
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Best steps"><table>'
        f"<caption>Best steps</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        f"<p>{escape(NOTE)}</p>"
    )


def _study(manifest: Mapping[str, Any]) -> str:
    facts = {
        "Command": manifest["command"],
        "Finished": manifest["finished"],
        "Units": f"{manifest['units']:,}, of which {manifest['reused']:,} had been stored before",
        "Lanes": f"{manifest['lanes']:,}, of which {manifest['diverged_lanes']:,} diverged",
        "Machines": ", ".join(manifest["machines"]),
        "gainbias": manifest["code"],
    }
    whole = escape(json.dumps(manifest, indent=1, ensure_ascii=False))
    details = f'<summary>The whole manifest</summary><pre tabindex="0">{whole}</pre>'
    return f"{definitions(facts)}<details>{details}</details>"


def _warning(manifest: Mapping[str, Any]) -> str:
    texts = [str(manifest["outdated"])] if "outdated" in manifest else []
    if failed := len(manifest["failures"]):
        share = f"{failed:,} of {manifest['units']:,} units"
        texts.append(f"{share} failed and are missing here; --resume tries them again.")
    return "".join(f'<p class="warning" role="note">{escape(text)}</p>' for text in texts)
