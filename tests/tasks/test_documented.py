"""The page on tasks: its numbers are those of the solver, and it names every setting."""

import re
from pathlib import Path

import pytest

import gainbias as gb

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## Other tasks") : PAGE.index("## Your own")].replace("\N{MINUS SIGN}", "-")
OTHERS = [name for name, recipe in gb.TASKS.items() if recipe.paper is None]


def test_all_tasks_are_there():
    assert re.findall(r"^\| `([\w-]+)` \| \d", SECTION, flags=re.MULTILINE) == OTHERS


@pytest.mark.parametrize("name", OTHERS)
def test_numbers(name):
    row = re.search(rf"^\| `{name}` \| (.*) \|$", SECTION, flags=re.MULTILINE)[1].split(" | ")
    problem = gb.task(name).problem
    tabular = problem.features.kind == "tabular"
    assert int(row[0]) == problem.mrp.num_states
    assert row[1].split(",")[0].split()[0] == ("tabular" if tabular else str(problem.num_features))
    solution = problem.solution
    assert float(row[2]) == pytest.approx(solution.gain, abs=6e-10)
    assert float(row[3]) == pytest.approx(solution.bias.min(), abs=6e-7)
    assert float(row[4]) == pytest.approx(solution.bias.max(), abs=6e-7)
    assert float(row[5]) == pytest.approx(problem.condition_numbers.eta1, rel=0.05)


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_is_explained(name):
    (text,) = re.findall(rf"^\*\*`{name}`\*\*(.*?)(?:\n\n|\Z)", SECTION, flags=re.MULTILINE | re.DOTALL)
    for setting in gb.TASKS[name].settings.keys() - {"num_features"}:
        assert re.search(rf"`{setting}[`\[]", text), setting
