"""Take pictures of what people see, and put those of two versions beside each other.

Run it from the root of a checkout, with the packages of ``make docs`` and with Chromium and its driver::

    python -m tools.screens take shots/after                          # pages and pictures of this version
    python -m tools.screens take shots/before --checkout ../old       # and of another, by its own sources
    python -m tools.screens pair shots/before shots/after docs/looks  # before | after, a file for each page

The pages are small: what takes minutes is cut down, and the same commands make them in both versions. A page
that a version does not have is named, and its place stays empty. Pages that are there already are not made
again, so delete ``pages`` in the folder of pictures to make them anew.
"""

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]

WAITS = "waits.csv"
CLAIMS = "reward-estimate splitting one-limit double-sampling dimension rate condition-numbers eta-order"


class Page(NamedTuple):
    """A page: its file, and the command that writes it, if it is one of ours."""

    file: str
    command: str = ""


PAGES = {
    "readme": Page("readme.html"),
    "study": Page(
        "study/report/index.html", "reproduce --output study --instances 8 --shorten 10 --workers 2"
    ),
    "sweep": Page(
        "sweep/report/index.html", "sweep {checkout}/examples/step-sizes.toml --output sweep --workers 2"
    ),
    "estimate": Page(
        "estimate.html", "evaluate FrozenLake-v1 --policy random --steps 100000 --page estimate.html"
    ),
    "series": Page("series.html", f"evaluate {WAITS} --column wait --page series.html"),
    "claims": Page("claims/index.html", f"claims {CLAIMS} --quick --output claims --workers 2"),
    "demo": Page("demo/index.html", "demo --output demo"),
    "docs-index": Page("docs/index.html"),
    "docs-start": Page("docs/start.html"),
    "docs-evaluation": Page("docs/evaluation.html"),
}
"""What pictures are taken of."""

START = "import sys; from gainbias.cli import main; sys.exit(main())"
"""What the command ``gainbias`` runs."""

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")

README_STYLE = """\
body { max-width: 980px; margin: 0 auto; padding: 32px 16px; color-scheme: light dark;
  background: light-dark(#fff, #0d1117); color: light-dark(#1f2328, #f0f6fc);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1, h2 { padding-bottom: .3em; border-bottom: 1px solid light-dark(#d1d9e0, #3d444d); }
a { color: light-dark(#0969da, #4493f8); text-decoration: none; }
code { padding: .2em .4em; border-radius: 6px; background: light-dark(#818b981f, #656c7633); font-size: 85%; }
pre { overflow: auto; padding: 16px; border-radius: 6px; line-height: 1.45;
  background: light-dark(#f6f8fa, #151b23); }
pre code { padding: 0; background: none; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid light-dark(#d1d9e0, #3d444d); }
img { max-width: 100%; }
"""
"""Roughly that of the place where the README is read most."""

QUALITY = 60
"""Of pictures of two versions, in percent."""

SHEET_STYLE = """\
body { display: grid; grid-template-columns: repeat(2, max-content); gap: 12px 28px; width: max-content;
  margin: 0; padding: 14px; background: #888; color: #fff;
  font: 600 16px system-ui, "DejaVu Sans", sans-serif; }
div { display: grid; grid-template-columns: 640px 195px; gap: 10px; height: 422px; }
img { width: 100%; }
"""


def make_pages(checkout: Path, pages: Path) -> None:
    """Write all pages of the version in a checkout; what it does not have is left out."""
    pages.mkdir(parents=True, exist_ok=True)
    write_waits(pages / WAITS)
    (pages / "readme.html").write_text(readme_html(checkout), encoding="utf-8")
    for name, page in PAGES.items():
        if page.command and not (pages / page.file).exists():
            words = page.command.format(checkout=checkout).split()
            done = run([sys.executable, "-c", START, *words], checkout, pages)
            if done.returncode:
                print(f"{name}: there is no such page, {done.stderr.strip().splitlines()[-1]}")
    if not (pages / "docs" / "index.html").exists():
        words = [sys.executable, "-m", "sphinx", "-q", str(checkout / "docs"), str(pages / "docs")]
        run(words, checkout, checkout).check_returncode()


def run(words: list[str], checkout: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder with the sources of a checkout."""
    sources = os.pathsep.join([str(checkout / "src"), str(checkout)])
    return subprocess.run(
        words, cwd=folder, env={**os.environ, "PYTHONPATH": sources}, capture_output=True, text=True
    )


def write_waits(path: Path) -> None:
    """Write the waiting times of the customers of a queue, one in each row."""
    import numpy as np

    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.exponential(0.8, 50_000) - rng.exponential(1.0, 50_000))
    waits = walk - np.minimum.accumulate(np.minimum(walk, 0.0))
    path.write_text("wait\n" + "\n".join(f"{wait:.4f}" for wait in waits) + "\n")


def readme_html(checkout: Path) -> str:
    """Return the README of a checkout as a page."""
    from markdown_it import MarkdownIt

    body = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .render((checkout / "README.md").read_text(encoding="utf-8"))
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><base href="{checkout.as_uri()}/">'
        f'<meta name="viewport" content="width=device-width"><style>{README_STYLE}</style>{body}</html>'
    )


def take(shots: Path, checkout: Path) -> None:
    """Make the pages of a version, and take pictures of the first screen of each."""
    from tests.report.interactive.browser import Browser

    make_pages(checkout, shots / "pages")
    with chromium() as driver:
        for name, page in PAGES.items():
            if not (shots / "pages" / page.file).exists():
                continue
            for size, (width, height) in SIZES.items():
                for scheme in SCHEMES:
                    browser = Browser(driver, shots / "pages" / page.file)
                    browser.open(width=width, height=height, scheme=scheme)
                    browser.picture(shots / f"{name}-{size}-{scheme}.png")


def pair(before: Path, after: Path, folder: Path) -> None:
    """Put the pictures of two versions beside each other, one file for each page."""
    folder.mkdir(parents=True, exist_ok=True)
    sheet = after / "sheet.html"
    with chromium() as driver:
        for name in PAGES:
            sheet.write_text(sheet_html(name, before, after), encoding="utf-8")
            driver.get(sheet.as_uri())
            size = driver.execute_script("return [document.body.scrollWidth, document.body.scrollHeight]")
            found = driver.execute_cdp_cmd(
                "Page.captureScreenshot",
                {
                    "format": "webp",
                    "quality": QUALITY,
                    "captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1},
                },
            )
            path = folder / f"{name}.webp"
            path.write_bytes(base64.b64decode(found["data"]))
            print(f"{path}: {size[0]} x {size[1]}, {path.stat().st_size / 1000:.0f} kB")
    sheet.unlink()


def sheet_html(name: str, before: Path, after: Path) -> str:
    """Return a page with all pictures of one page: before on the left, dark below light."""
    cells = [f"<div>{pictures(name, scheme, shots)}</div>" for scheme in SCHEMES for shots in (before, after)]
    return (
        f'<!doctype html><meta charset="utf-8"><style>{SHEET_STYLE}</style>'
        f"<span>before</span><span>after</span>{''.join(cells)}"
    )


def pictures(name: str, scheme: str, shots: Path) -> str:
    """Return the pictures of a page in one scheme, or that there is no such page."""
    found = [shots / f"{name}-{size}-{scheme}.png" for size in SIZES]
    if not all(path.exists() for path in found):
        return "There was no such page."
    return "".join(f'<img src="{escape(path.resolve().as_uri())}">' for path in found)


@contextmanager
def chromium() -> Iterator[Any]:
    """Give the browser that the tests use."""
    from tests.report.interactive.browser import find_programs, start_driver

    programs = find_programs()
    if programs is None:
        sys.exit("no Chromium with chromedriver here: apt-get install chromium chromium-driver")
    driver = start_driver(programs)
    try:
        yield driver
    finally:
        driver.quit()


def main(words: list[str] | None = None) -> None:
    """Understand the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("take", help="make pages, and take pictures of them")
    one.add_argument("shots", type=Path, help="folder of pictures")
    one.add_argument("--checkout", type=Path, default=ROOT, help="of which version (default: this one)")
    two = verbs.add_parser("pair", help="put pictures of two versions beside each other")
    for name in ("before", "after", "folder"):
        two.add_argument(name, type=Path)
    options = parser.parse_args(words)
    if options.verb == "take":
        take(options.shots.resolve(), options.checkout.resolve())
    else:
        pair(options.before, options.after, options.folder)


if __name__ == "__main__":
    main()
