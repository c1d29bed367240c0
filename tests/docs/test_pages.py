"""Every code block of the documentation runs, and every command in it is understood."""

import json
import re
import shlex
from pathlib import Path

import pytest

from docs._ext.execute import Session, Shown, blocks_of
from docs._ext.notebooks import notebook_of
from gainbias.cli.options import parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = [DOCS / "_build", DOCS / "_generated", DOCS / "algorithms", DOCS / "tasks"]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if not any(map(page.is_relative_to, GENERATED))),
]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    return FENCE.findall(page.read_text(encoding="utf-8"))


def commands(page):
    """Return the lines of a page that call gainbias, in blocks and in running text."""
    text = page.read_text(encoding="utf-8")
    shells = "\n".join(code for language, code in blocks(page) if language in ("", "sh", "console"))
    lines = re.findall(r"^\s*(gainbias .*)$", shells, re.MULTILINE)
    return [line.split("  #")[0] for line in lines] + re.findall(r"(?<!`)`(gainbias [a-z][^`]*)`", text)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page.read_text())], ids=name_of)
def test_blocks_run(page):
    """And make a notebook of them, which holds what was run and nothing that only a page understands."""
    session, text = Session(), page.read_text(encoding="utf-8")
    shown = [session.run(code) for code in blocks_of(text)]
    book = json.loads(json.dumps(notebook_of(text, shown, page.parent)))
    cells = book["cells"]
    assert [cell["source"] for cell in cells if cell["cell_type"] == "code"] == list(
        map(str.strip, blocks_of(text))
    )
    assert [bool(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"] == [
        bool(one.text or one.figures) for one in shown
    ]
    if page.parent.name == "tutorials":
        texts = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
        assert "{" + "literalinclude" not in texts
        assert not re.search(r"\]\((?!https?:)|\{\w+\}`", texts)


def test_a_notebook_has_text_code_and_what_it_showed(tmp_path):
    (tmp_path / "shop.py").write_text("X = 1\n\ndef sell(n):\n    return n\n")
    page = (
        "# A shop\n\nSee [there](../x.md), [Gym](https://g.org) and {download}`log <../a.csv>`.\n\n"
        "```{literalinclude} shop.py\n:language: python\n:pyobject: sell\n```\n\n"
        "```{run}\n:alt: nothing\n\nx = 1\n```\n\n```{run}\nprint(x)\n```\n"
    )
    cells = notebook_of(page, [Shown("", []), Shown("1\n", [])], tmp_path)["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code"]
    assert cells[0]["source"] == (
        "# A shop\n\nSee there, [Gym](https://g.org) and log.\n\n```python\ndef sell(n):\n    return n\n```"
    )
    assert [cell["source"] for cell in cells[1:]] == ["x = 1", "print(x)"]
    assert cells[1]["outputs"] == []
    assert cells[2]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "1\n"}]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_is_run_in_one_of_two_ways(page):
    """Python stands in examples with prompts, which pytest runs from two folders, or in blocks ``{run}``."""
    for language, code in blocks(page):
        if language.startswith("python"):
            assert code.startswith(">>> "), f"not run: {code[:60]!r}"
            assert page.parent in (ROOT, DOCS), f"pytest does not look for examples in {page}"


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_commands_are_understood(page):
    for command in commands(page):
        words = shlex.split(command.replace("…", ""))[1:]
        parser().parse_args([word for word in words if word != "..."])


def test_a_block_that_fails_is_noticed():
    with pytest.raises(ZeroDivisionError):
        Session().run("1 / 0")


def test_blocks_share_names_and_show_what_they_draw():
    session = Session()
    session.run("import matplotlib.pyplot as plt\nx = [1, 2]")
    shown = session.run("print('drawn')\nplt.plot(x)")
    assert shown.text == "drawn\n"
    assert [len(figure.axes) for figure in shown.figures] == [1]
    assert session.run("x").text == "[1, 2]\n"
    assert session.run("y = 3").text == ""
