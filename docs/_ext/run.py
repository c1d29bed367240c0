"""The directive ``{run}``: code that is run when the page is built, followed by what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from docs._ext.execute import Session
from docs._ext.pictures import save_pair

WIDE = 5.0
"""A figure of more inches scrolls on a phone: its letters would be too small to read."""


class Run(SphinxDirective):
    """A block of Python; the blocks of a page share their names. A failure fails the build."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Run the block and return code, text and pictures."""
        code = "\n".join(self.content)
        session = self.env.temp_data.setdefault("session", Session())
        try:
            shown = session.run(code)
        except Exception as error:
            raise self.error(f"this block failed: {type(error).__name__}: {error}") from error
        self.env.temp_data.setdefault("shown", []).append(shown)
        if shown.figures and "alt" not in self.options:
            raise self.error("a block that draws must say in :alt: what is to be seen")
        parts: list[nodes.Node] = [nodes.literal_block(code, code, language="python")]
        if shown.text:
            text = shown.text.rstrip("\n")
            parts.append(nodes.literal_block(text, text, language="text", classes=["shown"]))
        for figure in shown.figures:
            parts += self._pictures(figure)
        return parts

    def _pictures(self, figure: Any) -> list[nodes.Node]:
        number = self.env.temp_data["pictures"] = self.env.temp_data.get("pictures", 0) + 1
        place = f"_generated/pictures/{self.env.docname}-{number}"
        save_pair(figure, Path(self.env.srcdir) / place)
        is_wide = figure.get_size_inches()[0] > WIDE
        look = ["picture"] if is_wide else ["picture", "narrow"]
        pictures = [
            nodes.image(uri=f"/{place}-{kind}.svg", alt=self.options["alt"], classes=[f"only-{kind}", *look])
            for kind in ("light", "dark")
        ]
        return [nodes.container("", *pictures, classes=["wide-picture"])] if is_wide else pictures


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("run", Run)
    return {"parallel_read_safe": True}
