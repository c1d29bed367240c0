"""Pictures of two versions side by side: each page has one, and what a version does not have is said."""

from pathlib import Path

import pytest

from tests.report.interactive.conftest import programs  # noqa: F401
from tools import screens

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "looks"


def test_each_page_has_a_small_picture_that_is_shown():
    shown = (ROOT / "docs" / "looks.md").read_text(encoding="utf-8")
    assert {path.stem for path in KEPT.iterdir()} == set(screens.PAGES)
    for path in KEPT.iterdir():
        assert path.stat().st_size < 200_000
        assert f"](looks/{path.name})" in shown


def test_the_readme_becomes_a_page():
    page = screens.readme_html(ROOT)
    assert "<h1>gainbias</h1>" in page
    assert "<table>" in page
    assert f'<base href="{ROOT.as_uri()}/">' in page


@pytest.mark.slow
def test_pictures_of_two_versions(programs, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(screens, "make_pages", write_page)
    monkeypatch.setattr(screens, "PAGES", {"old": screens.Page("old.html"), "new": screens.Page("new.html")})
    screens.main(["take", str(tmp_path / "before"), "--checkout", str(tmp_path / "old")])
    screens.main(["take", str(tmp_path / "after"), "--checkout", str(tmp_path / "new")])
    assert sorted(path.name for path in (tmp_path / "before").glob("*.png")) == [
        f"old-{size}-{scheme}.png" for size in ("desktop", "phone") for scheme in ("dark", "light")
    ]
    screens.main(["pair", *(str(tmp_path / name) for name in ("before", "after", "sheets"))])
    assert "old.webp: 1" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "sheets").iterdir()) == ["new.webp", "old.webp"]
    for path in (tmp_path / "sheets").iterdir():
        assert path.read_bytes()[8:12] == b"WEBP"
    assert "There was no such page." in screens.sheet_html("new", tmp_path / "before", tmp_path / "after")
    assert screens.sheet_html("new", tmp_path / "after", tmp_path / "after").count("<img") == 8


def write_page(checkout, pages):
    pages.mkdir(parents=True)
    (pages / f"{checkout.name}.html").write_text("<h1>A page</h1>")
