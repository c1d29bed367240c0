"""A small study, copies of results and of the sources, and what is remembered about sources."""

import shutil
from pathlib import Path

import gainbias as gb
from gainbias.experiments import provenance
from gainbias.experiments.results import FAILURE, MACHINE, Results

SMALL = {"tasks": ["random-walk-50", "frozen-lake"], "instances": 2, "shorten": 200}


def run_small(folder: Path, **options: object) -> Results:
    return gb.reproduce(folder, **{"workers": 1, **SMALL, **options})  # type: ignore[arg-type]


def table_bytes(results: Results) -> dict[str, bytes]:
    paths = [path for ending in ("parquet", "csv.gz") for path in sorted(results.folder.glob(f"*.{ending}"))]
    assert len(paths) == 9
    return {path.name: path.read_bytes() for path in paths}


def stored_units(results: Results) -> int:
    """Count the units in a log, which also names the machines they come from."""
    return sum(not name.startswith((MACHINE, FAILURE)) for name in results.log.records())


def copy(results: Results, tmp_path: Path) -> Path:
    return Path(shutil.copytree(results.folder, tmp_path / "copy"))


def copy_of_sources(tmp_path: Path) -> Path:
    kept = shutil.ignore_patterns("__pycache__", "*.nb?")
    return Path(shutil.copytree(provenance.PACKAGE, tmp_path / "gainbias", ignore=kept))


def forget() -> None:
    """Have sources and versions looked at again."""
    for known in (
        provenance.code_of,
        provenance.code_version,
        provenance.package_versions,
        provenance.reached,
    ):
        known.cache_clear()
