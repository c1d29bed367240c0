"""The report on a sweep: tables, figures and the page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gainbias.experiments.results import Results, disk_full_in_words
from gainbias.experiments.study import Study
from gainbias.progress import Watch
from gainbias.report.data.results import read_manifest
from gainbias.report.data.sweeps import Summary, best_steps, common_schedule
from gainbias.report.figures.sweeps import write_sweep_figures
from gainbias.report.pages.frame import PAGE
from gainbias.report.pages.sweep import sweep_page
from gainbias.report.tables.sweeps import best_sheet
from gainbias.report.text import latex, markdown
from gainbias.store import write_whole


def report_on_sweep(results: Results, page: Path | None = None) -> dict[str, str]:
    """Write tables, figures and the interactive page of a finished sweep, and return where they are.

    Figures are left out where matplotlib is not installed. A sweep of which every unit failed has no report.

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
    table = results.folder / "runs.parquet"
    if not table.exists():
        return {}
    with Watch() as watch, disk_full_in_words(results.folder):
        watch.show("report: means and intervals", 0, 3)
        summary = _read(table, Study.from_dict(manifest["description"]).layout.optional)
        points, best = summary.points, best_steps(summary)
        html = sweep_page(points, best, manifest).encode()
        if page is not None:
            write_whole(page, html)
            return {"page": str(page)}
        folder = results.folder / "report"
        write_whole(folder / PAGE, html)
        watch.show("report: tables", 1, 3)
        sheets = [best_sheet(best, metric) for metric in points["metric"].unique()]
        for ending, lay_out in (("md", markdown), ("tex", latex)):
            text = "\n\n".join(map(lay_out, sheets))
            write_whole(folder / f"best-steps.{ending}", f"{text}\n".encode())
        write_whole(folder / "best-steps.csv", best.to_csv(index=False).encode())
        write_whole(folder / "summary.csv", points.to_csv(index=False).encode())
        written = {"page": folder / PAGE, "best steps": folder / "best-steps.md", "table": table}
        if find_spec("matplotlib"):
            watch.show("report: figures", 2, 3)
            write_sweep_figures(points, best, common_schedule(points), folder / "figures")
            written["figures"] = folder / "figures"
        results.drop_earlier_report()
    return {name: str(path) for name, path in written.items()}


def _read(table: Path, params: Sequence[str]) -> Summary:
    try:
        return Summary(table, params)
    except (ValueError, OSError, KeyError) as error:  # of which pyarrow's are
        raise ValueError(f"{table} is damaged: write it again with --resume") from error
