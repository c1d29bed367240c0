"""All files of a report on a sweep."""

from __future__ import annotations

from gainbias.experiments.results import Results


def report_on_sweep(results: Results) -> dict[str, str]:
    """Write the report into the folder of a sweep, and return where its parts are."""
    return {"table": str(results.folder / "runs.parquet")}
