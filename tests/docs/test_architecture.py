"""The map of the package agrees with the package."""

import re
from pathlib import Path

import gainbias

PACKAGE = Path(gainbias.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
ROWS = re.findall(r"^\| `([\w/]+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)


def modules_of(folder: Path) -> set[str]:
    return {source.stem for source in folder.glob("*.py")} - {"__init__", "__main__"}


def test_every_room_and_every_module_is_on_the_map():
    drawn = {room.strip("/"): set(re.findall(r"`(\w+)`", modules)) for room, modules in ROWS}
    rooms = {source.parent for source in PACKAGE.rglob("*.py")}
    there = {str(room.relative_to(PACKAGE)).strip("."): modules_of(room) for room in rooms}
    assert drawn == there


def test_every_place_that_is_named_exists():
    places = set(re.findall(r"`((?:[\w-]+/)+[\w.]*)`", PAGE.partition("## Where things happen")[2]))
    assert len(places) > 10
    assert [place for place in sorted(places) if not (PACKAGE / place).exists()] == []


def test_the_arrows_are_those_that_are_checked():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    layers = re.findall(
        r'^    "([\w| ]+)",$', project.partition("layers = [")[2].partition("]")[0], re.MULTILINE
    )
    assert f"\n{' > '.join(layers)}\n" in PAGE


def test_every_room_says_what_it_is_for():
    for room in {source.parent for source in PACKAGE.rglob("*.py")}:
        text = (room / "__init__.py").read_text()
        assert text.startswith('"""'), room
        assert len(text.partition('"""')[2].partition('"""')[0]) > 40, room
