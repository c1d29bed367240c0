"""Pictures in the house style, one for light pages and one for dark ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gainbias.report.figures.style import FAINT, INK, Size, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEB = Size(width=7.0, columns=3, legend_columns=4, panel_height=2.2, letters=9.0)
"""The width of a page's text."""

NIGHT = {INK: "#d8dee6", FAINT: "#5b6672", "#000000": "#ffffff"}
"""What ink becomes on a dark page."""

LIGHTER = 0.3
"""Share of the way to white for all other colours, as on the pages of reports."""


def save_pair(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Write a figure as ``<stem>-light.svg`` and ``<stem>-dark.svg``, without a background.

    Parameters
    ----------
    figure : Figure
        Drawn within ``drawing(WEB)``.
    stem : Path
        Path without its ending.
    """
    light, dark = (stem.with_name(f"{stem.name}-{kind}.svg") for kind in ("light", "dark"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    with drawing(WEB):
        figure.savefig(light, transparent=True, dpi=160, metadata={"Date": None, "Creator": None})
    dark.write_text(in_the_dark(light.read_text(encoding="utf-8")), encoding="utf-8")
    return light, dark


def in_the_dark(svg: str) -> str:
    """Return a picture with its ink and colours changed for a dark page.

    Examples
    --------
    >>> in_the_dark('<path style="fill: #222222; stroke: #0072b2"/>')
    '<path style="fill: #d8dee6; stroke: #4c9cc9"/>'
    """
    return re.sub("#[0-9a-f]{6}", lambda found: NIGHT.get(found[0]) or _lighter(found[0]), svg)


def _lighter(colour: str) -> str:
    parts = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(part + LIGHTER * (255 - part)):02x}" for part in parts)


def picture(stem: str, alt: str) -> str:
    """Return Markdown that shows a pair of pictures, each on pages of its kind.

    Parameters
    ----------
    stem : str
        Address without ``-light.svg``, from the folder of these pages.
    alt : str
        What is to be seen, for those who cannot see it.
    """
    shown = [
        f"```{{image}} /{stem}-{kind}.svg\n:alt: {alt}\n:class: only-{kind} picture\n```"
        for kind in ("light", "dark")
    ]
    return "\n\n".join(shown)
