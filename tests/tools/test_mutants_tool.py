"""The tool that measures whether tests notice wrong code: what it changes, how it draws, what it counts."""

import ast
import doctest
import json
import re
import tomllib
from pathlib import Path

import pytest

from tools import mutants, mutations

SOURCE = '''
"""Docstring with 1 + 1."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 1

TOLERANCE = 1e-9
Pair = tuple[int, int]


@kernel
def total(values: "array[2]", n: int = 3) -> float:
    """Add 1 + 1."""
    out = 0.0
    for i in range(n):
        if not values[i] > 0.5 and n != 2:
            continue
        out += abs(values[i])
    values.sort(
        axis=0,
    )
    if n < 0:
        raise ValueError(f"{n + 1} is more than {2 * n}")
    return max(out, values[1:n].sum() ** 2) / n


class Shown:
    def __repr__(self):
        return "x" * 3
'''


def changes(source: str) -> dict[str, set[str]]:
    """Return the operators that are offered, by line."""
    found: dict[str, set[str]] = {}
    for place in mutations.places_of(source, "a.py"):
        for mutant in place:
            found.setdefault(mutant.text, set()).add(mutant.operator)
    return found


def test_what_is_changed_and_what_is_left_out() -> None:
    assert changes(SOURCE) == {
        "TOLERANCE = 1e-9": {"1e-9 to 1e-05"},
        'def total(values: "array[2]", n: int = 3) -> float:': {"3 to 4", "3 to -3"},
        "out = 0.0": {"0.0 to 1.0"},
        "if not values[i] > 0.5 and n != 2:": {
            *("not dropped", "index + 1", "> to >=", "> to <=", "and to or", "!= to ==", "2 to 3", "2 to -2"),
            *("0.5 to 1.0", "0.5 to 0.25", "0.5 to -0.5"),
        },
        "continue": {"continue to break"},
        "out += abs(values[i])": {"+= to -=", "dropped", "abs dropped", "index + 1"},
        "values.sort(": {"dropped"},
        "axis=0,": {"0 to 1"},
        "if n < 0:": {"< to <=", "< to >=", "0 to 1"},
        "return max(out, values[1:n].sum() ** 2) / n": {
            *("sign of what is returned", "max to min", "index + 1", "index - 1", "** to *", "/ to *"),
            *("2 to 3", "2 to -2"),
        },
    }


def test_every_mutant_is_another_program_with_as_many_lines_and_a_name_of_its_own() -> None:
    every = [mutant for place in mutations.places_of(SOURCE, "a.py") for mutant in place]
    original = ast.dump(ast.parse(SOURCE))
    for mutant in every:
        changed = mutant.apply(SOURCE)
        assert ast.dump(ast.parse(changed)) != original
        assert changed.count("\n") == SOURCE.count("\n")
        assert mutant.text in mutant.diff(SOURCE)
    assert len({mutant.id for mutant in every}) == len({mutant.key for mutant in every}) == len(every)
    assert {mutant.compiled for mutant in every if mutant.text != "TOLERANCE = 1e-9"} == {True}


def test_lines_with_letters_outside_ascii() -> None:
    (place,) = mutations.places_of('a = "é", b + c', "a.py")
    assert place[0].apply('a = "é", b + c') == 'a = "é", b - c'


def test_the_ids_of_a_file_do_not_depend_on_what_stands_above() -> None:
    ids = {mutant.id for place in mutations.places_of(SOURCE, "a.py") for mutant in place}
    moved = {mutant.id for place in mutations.places_of("x = y\n\n" + SOURCE, "a.py") for mutant in place}
    assert ids == moved


@pytest.fixture(scope="module")
def rooms() -> dict[str, list[mutations.Place]]:
    return mutants.all_places()


def test_a_draw_is_repeatable_spread_and_part_of_a_larger_one(rooms) -> None:
    assert tuple(rooms) == mutants.TARGETS
    drawn = mutations.draw(rooms, 300, seed=0)
    assert len(drawn) == 300
    assert drawn == mutations.draw(rooms, 300, seed=0) != mutations.draw(rooms, 300, seed=1)
    assert {m.id for m in mutations.draw(rooms, 40, seed=0)} <= {m.id for m in drawn}
    total = sum(map(len, rooms.values()))
    for room, places in rooms.items():
        count = sum(mutant.path.startswith(room) for mutant in drawn)
        assert abs(count - 300 * len(places) / total) < 1
    for mutant in drawn[::5]:
        compile(mutant.apply((mutants.PACKAGE / mutant.path).read_text()), mutant.path, "exec")
    assert sum(mutant.compiled for mutant in drawn) > 30


def test_every_target_has_tests_and_they_exist() -> None:
    for room in mutants.TARGETS:
        for file in (mutants.PACKAGE / room).rglob("*.py"):
            for test in mutants.tests_of(file.relative_to(mutants.PACKAGE).as_posix()):
                assert (mutants.ROOT / test).exists(), test
    for prefix in mutants.TESTS:
        assert list(mutants.PACKAGE.glob(f"{prefix}*")), f"no module begins with {prefix}"


def test_mutants_that_are_called_equivalent_exist_are_few_and_come_with_an_argument(rooms) -> None:
    known = {m.id for places in rooms.values() for place in places for m in place}
    listed = tomllib.loads(mutants.EQUIVALENT.read_text()).get("mutant", [])
    assert {entry["id"] for entry in listed} <= known
    assert all(len(entry["argument"]) > 20 for entry in listed)
    assert len(listed) <= mutants.MOST_EQUIVALENT * 300


def test_summary() -> None:
    rows = [("engine", "killed")] * 5 + [
        ("engine", "timed out"),
        ("engine", "survived"),
        ("engine", "survived"),
    ]
    table = mutants.summary([*rows, ("engine", "equivalent"), ("algorithms", "killed")])
    assert mutants.markdown(table).splitlines()[2:] == [
        "| engine | 9 | 5 | 1 | 2 | 1 | 75.0% |",
        "| algorithms | 1 | 1 | 0 | 0 | 0 | 100.0% |",
    ]


def test_a_result_is_used_again_only_while_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "RESULTS", tmp_path)
    killed, survived = mutations.draw(mutants.all_places("engine"), 2, seed=0)
    for mutant, outcome in ((killed, "killed"), (survived, "survived")):
        mutants.keep(mutant, {"outcome": outcome})
    run = mutants.Run([killed, survived], workers=1)
    assert {name: record["outcome"] for name, record in run.outcomes().items()} == {
        killed.id: "killed",
        survived.id: "survived",
    }
    monkeypatch.setattr(mutants, "tests_of", lambda path: ("conftest.py",))
    assert set(run.known()) == {killed.id}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "cli"], "there is nothing to change in the targets that begin with 'cli'"),
        (["--only", "engine", "--write"], "leave out --only or --write"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, message, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mutants.main(arguments)
    assert message in capsys.readouterr().err


def test_a_mutant_is_shown_by_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    mutants.main(["--only", "engine/schedules", "--sample", "1", "--list"])
    key = capsys.readouterr().out.split()[0]
    mutants.main(["--only", "engine/schedules", "--show", key])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("engine/schedules.py | ")
    assert shown[2] == f"+++ {key}"


def test_a_report_lists_survivors_and_goes_into_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{mutants.BEGIN}\nold\n{mutants.END}\nafter\n")
    monkeypatch.setattr(mutants, "RESULTS", tmp_path)
    monkeypatch.setattr(mutants, "PAGE", page)
    killed, survived = drawn = mutations.draw(mutants.all_places("engine"), 2, seed=0)
    mutants.report(drawn, {killed.id: "killed", survived.id: "survived"}, json_instead=False, write=True)
    assert f"survived: {survived.id}" in capsys.readouterr().out
    before, table, after = re.split(r"<!--.*-->", page.read_text())
    assert (before, after) == ("before\n", "\nafter\n")
    assert "| all | 2 | 1 | 0 | 1 | 0 | 50.0% |" in table
    assert [*json.loads((tmp_path / "summary.json").read_text())["survivors"]] == [survived.id]


@pytest.mark.slow
def test_a_mutant_dies_in_a_copy_and_the_checkout_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "warm").mkdir()
    laboratory = mutants.Laboratory(tmp_path / "copy", tmp_path / "warm")
    path = "engine/schedules.py"
    before = (mutants.PACKAGE / path).read_text()
    tests = ["tests/engine/test_schedules.py"]
    assert laboratory.run(tests, 300.0, tmp_path / "warm")["outcome"] == "survived"
    every = [place[0] for place in mutations.places_of(before, path)]
    wrong = next(m for m in every if m.operator == "sign of what is returned")
    found = laboratory.try_mutant(wrong, tests, 300.0)
    assert found["outcome"] == "killed"
    assert found["failing"][0].startswith(tests[0])
    assert laboratory.try_mutant(wrong, tests, 0.5)["outcome"] == "timed out"
    assert laboratory.run(tests, 300.0, tmp_path / "warm")["outcome"] == "survived"
    assert (mutants.PACKAGE / path).read_text() == before


@pytest.mark.parametrize("module", [mutants, mutations])
def test_examples(module) -> None:
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed
