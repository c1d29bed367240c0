"""Pages that are made from the registries, and their pictures."""

import pytest

import gainbias as gb
from docs._ext.algorithm_pages import algorithm_page
from docs._ext.task_pages import task_page
from gainbias.algorithms.listing import describe_algorithms
from gainbias.tasks.listing import describe_tasks


def entry_of(entries, name):
    return next(entry for entry in entries if entry["id"] == name)


@pytest.mark.parametrize(("name", "exact"), [("td-lambda", True), ("lstd", False)])
def test_the_page_of_an_algorithm(tmp_path, name, exact):
    algorithm = gb.ALGORITHMS[name]
    page = algorithm_page(algorithm, entry_of(describe_algorithms(), name), tmp_path)
    assert page.startswith(f"# {algorithm.title}\n")
    assert f"| **Converges to** | {algorithm.converges_to} |" in page
    assert ("Broken line: the exact curve." in page) == exact
    light, dark = (
        (tmp_path / f"_generated/pictures/algorithms/{name}-{kind}.svg").read_text()
        for kind in ("light", "dark")
    )
    assert "#222222" in light
    assert "#222222" not in dark
    assert f"pictures/algorithms/{name}-dark.svg" in page


@pytest.mark.parametrize(
    "name", ["river-swim", "frozen-lake", "resource-gathering", "fruit-tree-5", "deep-sea"]
)
def test_the_page_of_a_task(tmp_path, name):
    task = gb.task(name)
    page = task_page(task, entry_of(describe_tasks(), name), tmp_path)
    assert f"| **Gain** | {task.problem.solution.gain:.9g} |" in page
    assert ("## In the paper" in page) == (task.paper is not None)
    assert f"\n## Source\n\n{task.citation}" in page
    assert (tmp_path / f"_generated/pictures/tasks/{name}-light.svg").exists()
