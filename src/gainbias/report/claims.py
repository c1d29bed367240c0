"""The folder of claims that were put to the test: checked before work, written, and read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gainbias.experiments.claims.claim import ClaimResult, notice
from gainbias.experiments.results import MADE_WITH
from gainbias.report.figures.claims import draw_chart
from gainbias.report.figures.style import SIZES, save_figure
from gainbias.report.pages.claims import write_claims_page
from gainbias.report.tables.claims import claims_markdown, claims_sheet
from gainbias.report.text import latex
from gainbias.store import write_whole

CLAIMS_FILE = "claims.json"
"""The file with all that was measured."""


def check_claims_folder(folder: Path, overwrite: bool = False) -> None:
    """Refuse a folder to which claims must not be written.

    Parameters
    ----------
    folder : Path
        May be new or empty, or hold what an interrupted test of claims left.
    overwrite : bool
        Whether claims that it holds may be replaced. Anything else never is.

    Raises
    ------
    ValueError
        If it holds claims and they may not be replaced, or if it holds something else.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "thesis.tex").write_text("years of work")
    ...     check_claims_folder(Path(folder))
    Traceback (most recent call last):
    ValueError: ... is not empty and holds no claims: choose another folder with --output
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder with --output")
    if (folder / CLAIMS_FILE).exists():
        if not overwrite:
            raise ValueError(
                f"{folder} already holds {_held(folder / CLAIMS_FILE)}: choose another folder with "
                "--output, or replace them with --overwrite (overwrite=True in Python)"
            )
        return
    found = (
        {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        if folder.exists()
        else set()
    )
    if found - {"units", MADE_WITH}:
        raise ValueError(f"{folder} is not empty and holds no claims: choose another folder with --output")


def _held(stored: Path) -> str:
    """Return which claims a folder holds, in words, as far as they can be read."""
    try:
        results = [ClaimResult.from_dict(result) for result in json.loads(stored.read_bytes())]
    except (ValueError, TypeError, KeyError):
        return "claims that cannot be read"
    quick = {True: "quick look", False: "full test", None: "not recorded how"}
    kinds = ", ".join(dict.fromkeys(quick[result.quick] for result in results))
    return f"{len(results)} claims ({kinds}): {', '.join(result.id for result in results)}"


def store_claims(results: Sequence[ClaimResult], folder: Path, overwrite: bool = False) -> list[Path]:
    """Write everything about claims to a folder, and return the paths of its files.

    These are ``claims.json``, ``.md`` and ``.tex``, the interactive page, and all charts. Where the test was
    a quick one, the Markdown and the caption of the LaTeX table say so.

    Parameters
    ----------
    results : sequence of ClaimResult
    folder : Path
        See `check_claims_folder`; it is made if it does not exist.
    overwrite : bool
        Whether claims that it holds may be replaced. Their figures go, so that all that are there belong to
        the same test.

    Raises
    ------
    ValueError
        If the folder must not be written to.
    """
    check_claims_folder(folder, overwrite)
    for figure in _figures(folder):
        figure.unlink()
    stored, text, for_print = folder / CLAIMS_FILE, folder / "claims.md", folder / "claims.tex"
    answer = json.dumps([result.to_dict() for result in results], indent=1) + "\n"
    write_whole(stored, answer.encode())
    told, sheet = notice(results), claims_sheet(results)
    write_whole(text, ((f"**{told}**\n\n" if told else "") + claims_markdown(results)).encode())
    marked = sheet._replace(caption=f"{sheet.caption} {told}".strip())
    write_whole(for_print, latex(marked).encode() + b"\n")
    paths = [stored, text, for_print, write_claims_page(results, stored)]
    for result in results:
        for number, chart in enumerate(result.charts, 1):
            name = result.id if len(result.charts) == 1 else f"{result.id}-{number}"
            for size in SIZES:
                paths += save_figure(draw_chart(chart, size), folder / "figures" / size / name, SIZES[size])
    return paths


def _figures(folder: Path) -> list[Path]:
    """Return the figures of the claims that a folder holds, and no other file."""
    try:
        names = [
            (stored["id"], len(stored["charts"]))
            for stored in json.loads((folder / CLAIMS_FILE).read_bytes())
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    stems = {name for name, _ in names} | {
        f"{name}-{k}" for name, charts in names for k in range(1, charts + 1)
    }
    return [path for path in folder.glob("figures/*/*.*") if path.stem in stems]


def read_claims(path: Path) -> list[ClaimResult]:
    """Return the results that `store_claims` wrote to ``claims.json``."""
    try:
        return [ClaimResult.from_dict(stored) for stored in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged or was written by another version: put the claims to the test again"
        ) from error
