"""A page for each task: its source, its exact answer, and what the paper prints for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import gainbias as gb
from docs._ext.pictures import WEB, picture, save_pair
from docs._ext.tables import contents, table
from docs._ext.task_pictures import draw_bias
from gainbias.algorithms.registry import short_title
from gainbias.report.figures.style import drawing
from gainbias.tasks.registry import describe_tasks, task_title

NAMES = {"eta1": "η₁", "eta2": "η₂", "eta2_literal": "η₂ as printed", "eta3": "η₃"}


def write_task_pages(source: Path) -> None:
    """Write ``tasks/*.md`` with their pictures, and the table of all tasks."""
    folder = source / "tasks"
    folder.mkdir(exist_ok=True)
    rows = []
    for entry in describe_tasks():
        task = gb.task(entry["id"])
        (folder / f"{task.name}.md").write_text(task_page(task, entry, source), encoding="utf-8")
        states, gain = f"{task.problem.mrp.num_states:,}", f"{task.problem.solution.gain:.4g}"
        link = f"[`{task.name}`](tasks/{task.name}.md)"
        rows.append([link, entry["summary"], states, str(task.problem.num_features), gain])
    text = table(["Task", "", "States", "Features", "Exact gain"], rows, numbers=3)
    text += contents([f"tasks/{entry['id']}" for entry in describe_tasks()])
    (source / "_generated" / "tasks.md").write_text(text, encoding="utf-8")


def task_page(task: gb.Task, entry: dict[str, Any], source: Path) -> str:
    """Return the page of a task, and write its picture."""
    stem = f"_generated/pictures/tasks/{task.name}"
    with drawing(WEB):
        figure, caption = draw_bias(task)
    save_pair(figure, source / stem)
    settings = [[f"`{name}`", _plain(value)] for name, value in task.settings.items()]
    return f"""# {task_title(task.name)}

{entry["summary"]}

{picture(stem, f"The exact bias of {task_title(task.name)}")}

{{.under-picture}}
{caption}

## Exact answer

All numbers are those of `gb.task("{task.name}")`: seed 0, protocol literal, default settings.

{table(["", ""], _answer(task))}

{_in_the_paper(task)}
## Settings

{table(["Setting", "Default"], settings)}

What they mean is on the page [Tasks](../tasks.md).

## Try it

```
gainbias solve {task.name}
gainbias run {task.name} --algorithm single-chain --seeds 3
```

## Source

{entry["citation"]}
"""


def _answer(task: gb.Task) -> list[list[str]]:
    problem, solution = task.problem, task.problem.solution
    numbers = problem.condition_numbers
    facts = {
        "States": f"{problem.mrp.num_states:,}",
        "Features": f"{problem.num_features}, {problem.features.kind}",
        "Gain": f"{solution.gain:.9g}",
        "Bias": f"from {solution.bias.min():.6g} to {solution.bias.max():.6g}",
        "Error of these, at most": f"{solution.error_bound:.0e}",
        "Fixed point is the bias": _distance(problem),
        **{name: f"{getattr(numbers, key):.3g}" for key, name in NAMES.items()},
        "Fingerprint": f"`{task.fingerprint}`",
    }
    source = ", ".join(f"{key} {value}" for key, value in task.source.items() if key in SHOWN)
    if source:
        facts["Made from"] = source
    return [[f"**{name}**", text] for name, text in facts.items()]


SHOWN = ("environment", "gymnasium", "mo-gymnasium", "depth", "steps_per_unit_of_time")


def _distance(problem: gb.Problem) -> str:
    """Say how far the values at the paper's fixed point are from the bias."""
    values, bias = problem.features.combine(problem.fixed_point), problem.solution.bias
    away = float(np.abs(values - bias).max() / np.ptp(bias))
    return "yes" if away < 1e-6 else f"no: up to {away:.2g} of its range away"


def _in_the_paper(task: gb.Task) -> str:
    paper = task.paper
    if paper is None:
        return ""
    ours = task.problem.condition_numbers
    etas = [
        [NAMES[key], f"{value:.3g}", f"{getattr(ours, key):.3g}"]
        for key, value in paper.condition_numbers.items()
    ]
    errors = [[short_title(name), f"{mean:.2f} ± {std:.2f}"] for name, (mean, std) in paper.distances.items()]
    smoothing = "no smoothing" if paper.epsilon is None else f"smoothing ε = {paper.epsilon:g}"
    return f"""## In the paper

{paper.num_steps:,} steps of sizes {paper.step_numerator:g} / (t + {paper.step_offset:g}),
{paper.num_features} features, {smoothing}. The distances that it prints after the last step, mean ± standard
deviation of three runs; ours stand beside them on the page of a [reproduction](../reproduction.md):

{table(["Algorithm", "Distance"], errors, numbers=1)}

{table(["Condition number", "Paper", "Ours, this instance"], etas, numbers=2)}

"""


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"{entry:g}" for entry in value)
    return (
        f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )
