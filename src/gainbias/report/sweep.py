"""The report on a sweep: tables of the best step sizes, the interactive page, and figures for print.

`report_on_sweep` writes all of it from what `data.sweep_means` computes. The rest of the module makes the
tables and the page; `figures.sweeps` draws the figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
import pandas
from pandas import DataFrame, Series

from gainbias.evaluation.estimate import as_precise
from gainbias.experiments.results import Results, disk_full_in_words
from gainbias.experiments.runner import counted
from gainbias.experiments.study import Study, as_stored_in
from gainbias.progress import Watch
from gainbias.report.data.results import read_manifest
from gainbias.report.data.sweep_means import (
    BEST_ORDER,
    KEYS,
    Summary,
    SummaryPart,
    best_steps,
    common_schedule,
    for_charts,
)
from gainbias.report.figures.sweeps import looks_of, write_sweep_figures
from gainbias.report.pages.frame import (
    MOST_CURVE_POINTS,
    NUMBER,
    PAGE,
    assembled,
    chart_look,
    definitions,
    paragraph,
    script_data,
    short,
    thinned,
)
from gainbias.report.text import (
    Sheet,
    TableCell,
    interval_text,
    latex,
    markdown,
    number_text,
    series_words,
    task_words,
)
from gainbias.store import whole_file, write_whole


def report_on_sweep(results: Results, page: Path | None = None) -> dict[str, str]:
    """Write tables, figures and the interactive page of a finished sweep, and return where they are.

    Figures are left out where matplotlib is not installed. A sweep in which every unit failed has no report.

    Parameters
    ----------
    results : Results
        The folder; files go to ``report/`` below it.
    page : path, optional
        Where to write the page alone.

    Raises
    ------
    ValueError
        If a file is damaged, or another version wrote it.
    """
    manifest = read_manifest(results.folder / "manifest.json")
    table = results.table_to_show("runs", manifest)
    if table is None:
        return {}
    with Watch() as watch, disk_full_in_words(results.folder):
        watch.show("report: means and intervals", 0, 3)
        folder = results.folder / "report"
        with as_stored_in(results.folder / "manifest.json"):
            params = Study.from_dict(manifest["description"]).layout.optional
        with _readable(table):
            summary = Summary(table, params)
        with _table_of_points(None if page else folder / "summary.csv") as file:
            best, shown = _summarised(summary, table, file)
        html = sweep_page(shown, manifest).encode()
        if page is not None:
            write_whole(page, html)
            return {"page": str(page)}
        write_whole(folder / PAGE, html)
        watch.show("report: tables", 1, 3)
        sheets = [best_sheet(best, metric) for metric in best["metric"].unique()]
        for ending, lay_out in (("md", markdown), ("tex", latex)):
            text = "\n\n".join(map(lay_out, sheets))
            write_whole(folder / f"best-steps.{ending}", f"{text}\n".encode())
        write_whole(folder / "best-steps.csv", best.to_csv(index=False).encode())
        written = {"page": folder / PAGE, "best steps": folder / "best-steps.md", "table": table}
        if find_spec("matplotlib"):
            watch.show("report: figures", 2, 3)
            write_sweep_figures(shown.points, shown.best, common_schedule(shown.points), folder / "figures")
            written["figures"] = folder / "figures"
        results.drop_earlier_report()
    return {name: str(path) for name, path in written.items()}


MOST_TASK_SERIES = 60
"""How many series of a task a page and figures show at most, the best by each metric."""

MOST_PAGE_SERIES, MOST_PAGE_POINTS = 3_000, 500_000
"""Limits of a page, in series (counted for each task and metric) and points: no task is added beyond them."""


class Shown(NamedTuple):
    """What a page and figures show of a sweep, and what they leave out, if anything, in words."""

    points: DataFrame
    best: DataFrame
    left_out: str = ""


def _summarised(summary: Summary, table: Path, file: IO[bytes] | None) -> tuple[DataFrame, Shown]:
    """Return the best steps of all tasks, and what is shown; write all points to a file.

    The memory needed is that for the tasks of one or two row groups and for what is shown, however large the
    table is.
    """
    bests, room = list[DataFrame](), _PageRoom()
    for part in _parts(summary, table):
        best = best_steps(part)
        if file is not None:
            file.write(part.points.to_csv(index=False, header=not bests).encode())
        bests.append(best)
        room.take(part.points, best)
    every, some = (
        pandas.concat(each, ignore_index=True).sort_values(BEST_ORDER, ignore_index=True)
        for each in (bests, room.best)
    )
    return every, Shown(pandas.concat(room.points, ignore_index=True), some, _left_out(every, some))


def _parts(summary: Summary, table: Path) -> Iterator[SummaryPart]:
    with _readable(table):
        yield from summary.parts()


@contextmanager
def _readable(table: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise
    except (ValueError, OSError, KeyError) as error:  # pyarrow's errors are among them
        raise ValueError(f"{table} is damaged: write it again with --resume") from error


class _PageRoom:
    """The tasks that a page has room for: the first ones, with the best series of each."""

    def __init__(self) -> None:
        self.points, self.best = list[DataFrame](), list[DataFrame]()
        self._series = self._points = 0
        self._is_full = False

    def take(self, points: DataFrame, best: DataFrame) -> None:
        """Take as many tasks of a part as there is room for, at least one."""
        if self._is_full:
            return
        best = best.groupby(["task", "metric"], sort=False).head(MOST_TASK_SERIES)
        points = points.merge(best[KEYS], on=KEYS)
        sums = self._points + points.groupby("task", sort=False).size().cumsum()
        series = self._series + best.groupby("task", sort=False).size().loc[sums.index].cumsum()
        fits = (sums <= MOST_PAGE_POINTS) & (series <= MOST_PAGE_SERIES)
        if not self.points:
            fits.iloc[0] = True
        self._is_full = not fits.all()
        tasks = fits.index[fits.cummin()]
        self._points, self._series = int(sums.iloc[-1]), int(series.iloc[-1])
        self.points.append(points[points["task"].isin(tasks)])
        self.best.append(best[best["task"].isin(tasks)])


def _left_out(every: DataFrame, shown: DataFrame) -> str:
    """Say what a page does not show; empty if it shows all."""
    tasks, some = every["task"].nunique(), shown["task"].nunique()
    words = [f"the first {some:,} of {tasks:,} tasks"] if some < tasks else []
    all_series = int(every["task"].isin(shown["task"].unique()).sum())
    if len(shown) < all_series:
        words.append(
            f"the {MOST_TASK_SERIES} best series of a task ({len(shown):,} of {all_series:,} in all)"
        )
    if not words:
        return ""
    where = "best-steps.csv and summary.csv of the report, and runs.parquet, have all"
    return f"To stay small, this page has {' and '.join(words)}; {where}."


@contextmanager
def _table_of_points(path: Path | None) -> Iterator[IO[bytes] | None]:
    if path is None:
        yield None
        return
    with whole_file(path) as file:
        yield file


NOTE = (
    "Best step sizes are chosen on every second instance and measured on the others, with all paths of an "
    "instance on one side, so the choice of a step size does not flatter; with fewer than four instances all "
    "are used for both. The first row of a task is the smallest of its errors, and that choice flatters it a "
    "little. Intervals: 95% Student intervals of the mean over the instances measured, with one degree of "
    "freedom fewer than instances; each instance is averaged over its paths first. Behind the best: the mean "
    "difference from the first row on the same instances, with Student intervals that hold together with 95% "
    "(Bonferroni's correction); a series is not told apart from the best if its interval reaches 0. One "
    "instance has no such interval; the one over its paths says nothing about other instances. Instances "
    "that are copies (the same problem along the same path) count once. At the edge: the best step size is "
    "the first or last of the grid, and a better one may lie beyond. A mean of fewer than five instances is "
    'marked "only" and is not set in bold.'
)

FEWEST_INSTANCES = 5
"""Fewest instances for a mean to be set in bold."""

HEADER = ("Task", "Series", "Best step size", "Error at the end", "95% interval", "Behind the best")
"""Titles of the columns; those of `_counts` follow."""


def best_sheet(best: DataFrame, metric: str) -> Sheet:
    """Return the best steps under a metric for reading, tasks one after the other."""
    groups, own = [], best[best["metric"] == metric]
    counts = _counts(best)
    for _, rows in own.groupby("task", sort=False):
        least = rows["mean"].min()
        groups.append(
            [
                [
                    TableCell(row.task),
                    TableCell(row.series),
                    TableCell(row.schedule + (" (at the edge)" if row.at_edge else "")),
                    TableCell(number_text(row.mean), best=_is_best(row, least)),
                    TableCell(interval_words(row)),
                    TableCell(behind_words(row)),
                    *(TableCell(count_words(row, count)) for count in counts.values()),
                ]
                for row in rows.itertuples()
            ]
        )
    caption, header = f"Best step sizes: {metric}.", [*HEADER, *counts]
    return Sheet("best-steps", caption, header, groups, [NOTE], text_columns=3)


def _is_best(row: Any, least: float) -> bool:
    return bool(row.mean == least and np.isfinite(least) and row.instances >= FEWEST_INSTANCES)


def count_words(row: Any, count: str) -> str:
    """Return a count of a row; a count of few instances begins with a word.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> row = SimpleNamespace(instances=4, runs=20)
    >>> count_words(row, "instances"), count_words(row, "runs")
    ('only 4', '20')
    """
    few = count == "instances" and row.instances < FEWEST_INSTANCES
    return f"{'only ' * few}{getattr(row, count)}"


def _counts(best: DataFrame) -> dict[str, str]:
    """Return the columns of counts by their titles: runs are shown where they are more than the instances."""
    several_paths = (best["runs"] > best["instances"]).any()
    return {"Instances measured": "instances"} | ({"Runs": "runs"} if several_paths else {})


def interval_words(row: Any) -> str:
    """Return the interval over instances in words; a single instance has only the one over its paths.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = {"low": np.nan, "high": np.nan}
    >>> interval_words(SimpleNamespace(instances=1, diverged=0, **nothing, path_low=0.1, path_high=0.2))
    'none: one instance (over its paths 0.1 to 0.2)'
    """
    if row.instances > 1 or row.diverged:
        return interval_text(row.low, row.high)
    over_paths = interval_text(row.path_low, row.path_high)
    return "none: one instance" + (f" (over its paths {over_paths})" if over_paths != "-" else "")


def behind_words(row: Any) -> str:
    """Return in words how far a series is behind the best of its task.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> behind_words(SimpleNamespace(behind=0.1234, behind_low=-0.02, behind_high=0.267))
    '0.12 (-0.02 to 0.27)'
    >>> behind_words(SimpleNamespace(behind=np.nan, behind_low=np.nan, behind_high=np.nan))
    '-'
    """
    if not (np.isfinite([row.behind, row.behind_high]).all() and row.behind_high > row.behind_low):
        return number_text(row.behind) if np.isfinite(row.behind) else "-"
    numbers = (row.behind, row.behind_low, row.behind_high)
    mean, low, high = as_precise(numbers, (row.behind_high - row.behind_low) / 2)
    return f"{mean} ({low} to {high})"


MOST_CURVES = 2000
"""How many learning curves a page has at most: those at the best steps first, then those at shared ones."""

SWEEP_CURVE_COLUMNS = ["task", "metric", "series", "schedule"]
"""What tells one curve from another."""


def sweep_page(shown: Shown, manifest: Mapping[str, Any]) -> str:
    """Return the interactive page of a sweep."""
    name = escape(str(manifest["name"]))
    return assembled(
        "sweep.html",
        ["sweep.js"],
        title=f"Sweep {name}",
        about=escape(_about(shown.points)),
        sentences=_sentences(shown.best),
        warning=_warning(manifest, shown.left_out),
        answer=_answer_table(shown.best),
        best=_best_table(shown.best),
        study=_what_was_run(manifest),
        data=script_data(chart_data(shown.points, shown.best)),
    )


def _about(points: DataFrame) -> str:
    """Return in words how large a sweep is."""
    instances, steps = (_range(points.groupby("task")[name].max()) for name in ("instances", "step"))
    tasks = counted(points["task"].nunique(), "task")
    algorithms, series = counted(points["algorithm"].nunique(), "algorithm"), points["series"].nunique()
    kinds = f"{series:,} variants of " * (series > points["algorithm"].nunique())
    return f"{instances} instances of each of {tasks}, {steps} steps, {kinds}{algorithms}."


def _sentences(best: DataFrame) -> str:
    """Return the answer under each metric as a sentence; a script shows that of one metric."""
    return "".join(
        f'<p class="answer" data-metric="{escape(str(metric))}"{" hidden" * (place > 0)}>'
        f"{escape(answer_of(rows))}</p>"
        for place, (metric, rows) in enumerate(best.groupby("metric", sort=False))
    )


MOST_NAMED_SERIES = 4
"""How many tasks are named in the sentence that sums a sweep up."""


def answer_of(best: DataFrame) -> str:
    """Return in a sentence which series is the best on which task, as far as that can be told.

    Parameters
    ----------
    best : DataFrame
        The rows of one metric of `best_steps`.

    Examples
    --------
    >>> rows = {"task": "boyan-chain", "series": ["lstd", "double-chain"], "mean": [1.0, 2.0], "instances": 5}
    >>> answer_of(DataFrame({**rows, "tied": [False, True]}))
    'No clear winner: 2 cannot be told apart on Boyan chain.'
    >>> answer_of(DataFrame({**rows, "tied": False}))
    'Least squares has the lowest error on Boyan chain.'
    """
    tasks = {str(task): rows for task, rows in best.groupby("task", sort=False)}
    measured = {task: rows for task, rows in tasks.items() if _least(rows).instances >= FEWEST_INSTANCES}
    if not measured:
        few = _range(best["instances"])
        return f"Too few instances to say: errors are measured on {few}, and {FEWEST_INSTANCES} are needed."
    finite = {task: rows for task, rows in measured.items() if np.isfinite(_least(rows).mean)}
    clear = {task: _least(rows).series for task, rows in finite.items() if not rows["tied"].any()}
    if clear and len(clear) == len(tasks) and len(set(clear.values())) == 1:
        where = f"all {len(tasks)} tasks" if len(tasks) > 1 else task_words(next(iter(tasks)))
        return f"{series_words(next(iter(clear.values())))} has the lowest error on {where}."
    if clear:
        named = [f"{series_words(name)} on {task_words(task)}" for task, name in clear.items()]
        more = f" and {len(named) - MOST_NAMED_SERIES} more" if len(named) > MOST_NAMED_SERIES else ""
        said = "; ".join(named[:MOST_NAMED_SERIES])
        return f"A clear winner on {len(clear)} of {counted(len(tasks), 'task')}: {said}{more}."
    if not finite:
        return "No answer: with every series some run diverged."
    if len(tasks) > MOST_NAMED_SERIES or len(finite) < len(tasks):
        return f"No clear winner on any of {counted(len(tasks), 'task')}."
    ties = [(int(rows["tied"].sum()) + 1, task_words(task)) for task, rows in finite.items()]
    (count, first), *others = ties
    said = "".join(f"; {number} on {task}" for number, task in others)
    return f"No clear winner: {count} cannot be told apart on {first}{said}."


def _range(numbers: Series) -> str:
    """Return the smallest and the largest of some counts, or one number if they are equal."""
    return " to ".join(f"{number:,}" for number in dict.fromkeys((numbers.min(), numbers.max())))


def _warning(manifest: Mapping[str, Any], left_out: str) -> str:
    texts = [str(manifest["outdated"])] if "outdated" in manifest else []
    texts += [left_out] if left_out else []
    if failed := len(manifest["failures"]):
        share = f"{failed:,} of {manifest['units']:,} units"
        texts.append(f"{share} failed and are missing here; --resume tries them again.")
    return "".join(f'<p class="warning" role="note">{escape(text)}</p>' for text in texts)


ANSWER_HEADER = ("Task", "Lowest error", "Step size", "Error at the end", "95% interval", "How sure")
LOWEST = "Lowest error on each task"


def _answer_table(best: DataFrame) -> str:
    """Return the best series of each task under each metric; a script shows those of one metric."""
    kinds = ["", "", NUMBER, NUMBER, ""]
    rows = []
    for (task, metric), own in best.groupby(["task", "metric"], sort=False):
        first = _least(own)
        texts = [series_words(first.series), brief(first.schedule), *_mean_and_ends(first), how_sure(own)]
        cells = "".join(
            f'<td{kind} data-title="{title}">{escape(text)}</td>'
            for kind, title, text in zip(kinds, ANSWER_HEADER[1:], texts, strict=True)
        )
        link = escape(urlencode({"view": "best", "task": task, "metric": metric}))
        rows.append(
            f'<tr data-metric="{escape(metric)}"><th scope="row">'
            f'<a href="#{link}">{escape(task_words(str(task)))}</a></th>'
            f"{cells}</tr>"
        )
    head = "".join(
        f'<th scope="col"{kind}>{title}</th>' for kind, title in zip(["", *kinds], ANSWER_HEADER, strict=True)
    )
    body = "\n".join(rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{LOWEST}"><table class="cards">'
        f"<caption>{LOWEST}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>"
    )


def brief(schedule: str) -> str:
    """Return a step size with at most two digits, or that there is none.

    Examples
    --------
    >>> brief("0.00958732"), brief("63.0957/(t+1000)"), brief("none")
    ('0.0096', '63/(t+1000)', 'has none')
    """
    if schedule == "none":
        return "has none"
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.2g}", schedule)


def _mean_and_ends(row: Any) -> tuple[str, str]:
    """Return a mean and its interval, with two digits of the half width of the interval."""
    if row.instances < 2 or not (np.isfinite([row.mean, row.high]).all() and row.high > row.low):
        return number_text(row.mean), interval_words(row)
    mean, low, high = as_precise((row.mean, row.low, row.high), (row.high - row.low) / 2)
    return mean, f"{low} to {high}"


def _least(rows: DataFrame) -> Any:
    """Return the row with the smallest error."""
    return next(rows.sort_values("mean", kind="stable").itertuples())


MOST_RIVALS = 3
"""How many series are named that cannot be told apart from the best."""


def how_sure(rows: DataFrame) -> str:
    """Return in words how sure it is that the series with the smallest error on a task is the best.

    Parameters
    ----------
    rows : DataFrame
        The rows of one task and metric of `best_steps`.
    """
    first = _least(rows)
    if not np.isfinite(first.mean):
        return "all diverged"
    said = ["a better step size may lie beyond the grid"] if first.at_edge else []
    if first.instances < FEWEST_INSTANCES:
        return "; ".join([f"cannot be said: measured on only {counted(first.instances, 'instance')}", *said])
    rivals = [
        series_words(row.series) + " (at the edge of its grid)" * row.at_edge
        for row in rows[rows["tied"]].itertuples()
    ]
    if rivals:
        more = f" and {len(rivals) - MOST_RIVALS} more" if len(rivals) > MOST_RIVALS else ""
        named = "; ".join(rivals[:MOST_RIVALS])
        return "; ".join([f"not told apart from {named}{more}", *said])
    return "; ".join(["clear: all others are worse" if len(rows) > 1 else "no other was run", *said])


def _best_table(best: DataFrame) -> str:
    """Return the best steps of all tasks and metrics; a script shows the selected ones."""
    counts = _counts(best)
    kinds = [TASK, "", "", NUMBER, NUMBER, NUMBER, *[NUMBER for _ in counts]]
    titles = zip(kinds, [*HEADER, *counts], strict=True)
    head = "".join(f'<th scope="col"{kind}>{title}</th>' for kind, title in titles)
    rows = []
    for row in best.itertuples():
        edge = " (at the edge of the grid)" if row.at_edge else ""
        texts = [brief(row.schedule) + edge, *_mean_and_ends(row), _behind(row)]
        texts += [count_words(row, count) for count in counts.values()]
        pairs = zip(kinds[2:], texts, strict=True)
        cells = "".join(
            f'<td{kind} data-title="{title}">{escape(text)}</td>'
            for (kind, text), title in zip(pairs, [*HEADER, *counts][2:], strict=True)
        )
        marks = f'data-task="{escape(row.task)}" data-metric="{escape(row.metric)}"'
        names = f"<td{TASK}>{escape(task_words(row.task))}</td>"
        names += f'<th scope="row">{escape(series_words(row.series))}</th>'
        rows.append(f"<tr {marks}>{names}{cells}</tr>")
    body = "\n".join(rows)
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Best steps"><table class="cards">'
        f"<caption>Best steps</caption><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        f"<details><summary>How this was chosen</summary>{paragraph(NOTE)}</details>"
    )


TASK = ' class="task"'
"""Class of the cells of a column that is shown only where rows of several tasks stand in one table."""


def _behind(row: Any) -> str:
    """Return how far a series is behind the best, and whether the two cannot be told apart."""
    is_tied = bool(row.tied and row.instances >= FEWEST_INSTANCES)
    return behind_words(row) + ": not told apart" * is_tied


MOST_LISTED, LISTS = 100, ("failures", "diverged_units")
"""How many entries of lists in a manifest, one for each bad unit, are on the page; the file has all."""


def _what_was_run(manifest: Mapping[str, Any]) -> str:
    facts = {
        "Command": manifest["command"],
        "Finished": manifest["finished"],
        "Units of work": f"{manifest['units']:,}, of which {manifest['reused']:,} had been stored before",
        "Runs": f"{manifest['lanes']:,}, of which {manifest['diverged_lanes']:,} diverged",
        "Machines": ", ".join(manifest["machines"]),
        "gainbias": manifest["code"],
    }
    short = {name: listed[:MOST_LISTED] for name in LISTS if len(listed := manifest[name]) > MOST_LISTED}
    left_out = [f"{MOST_LISTED} of {len(manifest[name]):,} in {name.replace('_', ' ')}" for name in short]
    title = f"The manifest, {' and '.join(left_out)}" if left_out else "The whole manifest"
    text = escape(json.dumps({**manifest, **short}, indent=1, ensure_ascii=False))
    details = f'<summary>{title}</summary><pre tabindex="0">{text}</pre>'
    return f"{definitions(facts)}<details>{details}</details>"


def chart_data(points: DataFrame, best: DataFrame) -> dict[str, Any]:
    """Return the numbers of all charts of a sweep, ready for JSON.

    Returns
    -------
    dict
        "steps" of a run; "tasks" with their titles; "metrics"; "series" by name, with their looks and
        titles; "shared", step sizes that several series have; "points" by task, metric and series: errors at
        the last step by step size, the best step size, and learning curves by step size; "instances" by
        task, on which errors at best steps are measured; "together", tasks whose best steps are chosen on
        the same ones; "overPaths", tasks with intervals over the paths of one instance; "exact", whether
        there are exact curves, too; "leftOut", how many curves are missing; "thinned", whether checkpoints
        were left out.
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
            "best": {"schedule": chosen.schedule, **_point(chosen)},
            "curves": {
                schedule: _curve(curve)
                for schedule, curve in rows.groupby("schedule", sort=False)
                if (task, metric, series, schedule) in kept
            },
        }
    return {
        "steps": _range(points.groupby("task")["step"].max()),
        "tasks": {task: task_words(task) for task in found},
        "metrics": [str(metric) for metric in points["metric"].unique()],
        "series": {name: {**chart_look(look), "title": series_words(name)} for name, look in looks.items()},
        "shared": shared,
        "points": found,
        "instances": best.groupby("task")["instances"].max().to_dict(),
        "together": best.loc[~best["apart"].astype(bool), "task"].unique().tolist(),
        "overPaths": over_paths,
        "exact": bool(points["exact"].notna().any()),
        "leftOut": left_out,
        "thinned": bool(points.groupby(SWEEP_CURVE_COLUMNS, sort=False).size().max() > MOST_CURVE_POINTS),
    }


def _kept_curves(points: DataFrame, best: DataFrame, shared: list[str]) -> tuple[set[Any], int]:
    """Return the curves that a page has room for, and the number of those it has no room for."""
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


def _point(row: Any) -> dict[str, Any]:
    return {name: short(getattr(row, name)) for name in ("mean", "low", "high")}


def _curve(rows: DataFrame) -> dict[str, Any]:
    rows = rows[rows["step"] > 0].sort_values("step")
    rows = rows.iloc[thinned(len(rows))]
    kinds = ("mean", "low", "high", *(["exact"] if rows["exact"].notna().any() else []))
    numbers = {name: [short(number) for number in rows[name]] for name in kinds}
    return {**numbers, "steps": rows["step"].tolist(), "transitions": rows["transitions"].tolist()}
