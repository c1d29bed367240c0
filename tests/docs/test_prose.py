"""Prose: links lead somewhere, and sentences are plain English; codespell checks the spelling."""

import re
from pathlib import Path

import pytest

from tests.docs.test_pages import DOCS, PAGES, ROOT, name_of

TEXTS = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "examples/README.md"))]
SOURCES = sorted(path for end in ("py", "html") for path in (ROOT / "src").rglob(f"*.{end}"))
GENERATED = ("algorithms", "tasks")
"""Folders of pages that are made when the documentation is built."""

ODD = re.compile(
    r"(?i)all there is is"
    r"|\bso many\b(?! (?:\w+ ){0,4}that\b)"  # "so many that" is English
    r"|\bspeaks? (?:for|against)\b"
    r"|\bso long the\b"
    r"|is no praise"
    r"|hits? both alike"
    r"|\bbeware of it\b"
    r"|\bwhat regards\b"
    r"|\bas well known\b"
    r"|\bof one's own\b"
    r"|\b(?:has|have|had|with) the bits of\b"
    r"|\bfor ever\b"
    r"|\bin the order of time\b"
    r"|\bthe gravest\b"
    r"|\bplays? no part\b"
    r"|\bmethods? that iterates?\b"
    r"|\b(?:up to|by) rounding only\b"
    r"|\bfolders that are missing\b"
    r"|\bWhat is not there\b"
)
"""Literal translations, and phrases that sent readers back to the start of the sentence."""

BARE_ORDERS = re.compile(r'"""(?:Begin|Make one step|Do it|Go on)\."""')
"""Docstrings that say nothing about what they stand in."""

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source)[^>]+(?:src|srcset)=\"([^\"]+)\"")
FENCE = re.compile(r"^(```+|~~~+).*?^\1", re.DOTALL | re.MULTILINE)


def odd_places(text: str) -> list[str]:
    """Return the phrases of a text that read oddly."""
    return [found.group() for found in ODD.finditer(" ".join(text.split()))]


def rows_without_header(text: str) -> list[str]:
    """Return the first rows of tables that have no header, which are shown as plain text."""
    lines = ["", *FENCE.sub("", text).splitlines(), ""]
    begins = [k for k, line in enumerate(lines) if line.startswith("|") and not lines[k - 1].startswith("|")]
    return [lines[k] for k in begins if not re.fullmatch(r"\|[\s:|-]+\|", lines[k + 1])]


def anchors_of(page: str) -> set[str]:
    """Return the anchors of a page: those of its headings, as GitHub and Sphinx make them, and its own."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.MULTILINE)
    made = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
    return {*made, *re.findall(r'id="([^"]+)"', page), *re.findall(r"^\(([\w-]+)\)=$", page, re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to files or anchors that do not exist."""
    found = []
    for pair in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        link = pair[0] or pair[1]
        if re.match(r"https://[\w-]+\.\w", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if target.parent in [DOCS / name for name in GENERATED]:
            continue
        is_there = target.exists()
        if not is_there or (anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A *good* page\n\n[a](page.md#a-good-page) [b](page.md#bad) [c](none.md) [d](http://x)\n"
    )
    assert broken_links(page) == ["page.md#bad", "none.md", "http://x"]


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_pages_read_as_english(page: Path) -> None:
    assert odd_places(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_tables_have_headers(page: Path) -> None:
    assert rows_without_header(page.read_text(encoding="utf-8")) == []


def test_a_table_that_is_torn_apart_is_found() -> None:
    assert rows_without_header("| a | b |\n|---|--:|\n| 1 | 2 |\n\n| 3 | 4 |\n") == ["| 3 | 4 |"]


def test_docstrings_messages_and_comments_read_as_english() -> None:
    texts = {name_of(source): source.read_text(encoding="utf-8") for source in SOURCES}
    assert {name: odd for name, text in texts.items() if (odd := odd_places(text))} == {}
    assert [name for name, text in texts.items() if BARE_ORDERS.search(text)] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Return so many\n    numbers.", 1),
        ("There are so many rare events that nothing is known.", 0),
        ("All there is is a stream, and chance hits both alike.", 2),
        ("What speaks for it, and what\n    speaks against it.", 2),
        ("It has the bits of the\n    processor, for ever, in the order of time.", 3),
        ("It keeps the bits of both, forever, in order of time.", 0),
    ],
)
def test_an_odd_phrase_is_found_across_lines(text: str, count: int) -> None:
    assert len(odd_places(text)) == count
