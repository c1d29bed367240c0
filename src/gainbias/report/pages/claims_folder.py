"""The folder of claims: refused where it holds others, written, and marked where the test was a quick one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gainbias.experiments.claims.record import ClaimResult, notice
from gainbias.experiments.results import MADE_WITH
from gainbias.report.pages.headline import CLAIMS, claims_page, claims_sheet, show_claims, write_claims
from gainbias.report.tables.layout import latex
from gainbias.store import write_whole


def show_marked_claims(results: list[dict[str, Any]]) -> None:
    """Show results on a terminal; what is no full test says so above and below."""
    told = notice([ClaimResult.from_dict(result) for result in results])
    console = Console()
    if told:
        console.print(Text(told, style="bold"))
    show_claims(results)
    if told:
        console.print(Text(told, style="bold"))


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
    if (folder / CLAIMS).exists():
        if not overwrite:
            raise ValueError(
                f"{folder} already holds {_held(folder / CLAIMS)}: choose another folder with --output, or "
                "replace them with --overwrite (overwrite=True in Python)"
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
    """Say which claims a folder holds, as far as that can be read."""
    try:
        results = [ClaimResult.from_dict(result) for result in json.loads(stored.read_bytes())]
    except (ValueError, TypeError, KeyError):
        return "claims that cannot be read"
    quick = {True: "quick look", False: "full test", None: "not recorded how"}
    kinds = ", ".join(dict.fromkeys(quick[result.quick] for result in results))
    return f"{len(results)} claims ({kinds}): {', '.join(result.id for result in results)}"


def store_claims(results: Sequence[ClaimResult], folder: Path, overwrite: bool = False) -> list[Path]:
    """Write everything about claims to a folder, and return the paths of its files.

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
    paths = write_claims(results, folder)
    if told := notice(results):
        write_whole(folder / "claims.md", f"**{told}**\n\n{claims_page(results)}".encode())
        sheet = claims_sheet(results)
        marked = sheet._replace(caption=f"{sheet.caption} {told}")
        write_whole(folder / "claims.tex", latex(marked).encode() + b"\n")
    return paths


def _figures(folder: Path) -> list[Path]:
    """Return the figures of the claims that a folder holds, and no other file."""
    try:
        names = [
            (stored["id"], len(stored["charts"])) for stored in json.loads((folder / CLAIMS).read_bytes())
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    stems = {name for name, _ in names} | {
        f"{name}-{k}" for name, charts in names for k in range(1, charts + 1)
    }
    return [path for path in folder.glob("figures/*/*.*") if path.stem in stems]
