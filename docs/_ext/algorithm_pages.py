"""A page for each algorithm, from the registry and a short run."""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import gainbias as gb
from docs._ext.pictures import WEB, picture, save_pair
from docs._ext.tables import contents, escaped, table
from gainbias.algorithms.registry import describe_algorithms
from gainbias.report.figures.style import INK, drawing, look_of, new_figure, power_of_ten, tick_text

STEPS, SEEDS, SHRINKING = 10_000, 32, gb.Harmonic(50, 500)
LONGER = {"vrtd": 100_000}
"""Steps of algorithms whose values change at the ends of long epochs only, to show several of them."""

PICTURED = {"name": "mm1k-admission", "threshold": 3}
"""A queue for three customers: so small that exact curves take a moment, and open to every algorithm."""

CAPTION = (
    "{who} on a queue for at most three customers (`mm1k-admission` with `threshold=3`, one feature for each "
    "state), {steps}. {epochs}The error is the distance of the values to the algorithm's own limit, up to "
    "a constant. Coloured: root mean square over 32 runs, and the middle 80% of them. {exact}"
)


def write_algorithm_pages(source: Path) -> None:
    """Write ``algorithms/*.md`` with their pictures, and the table of all algorithms."""
    folder = source / "algorithms"
    folder.mkdir(exist_ok=True)
    entries = describe_algorithms()
    for entry in entries:
        text = algorithm_page(gb.ALGORITHMS[entry["id"]], entry, source)
        (folder / f"{entry['id']}.md").write_text(text, encoding="utf-8")
    rows = [
        [
            f"[`{entry['id']}`](algorithms/{entry['id']}.md)",
            entry["converges_to"],
            _uses(entry),
            _paper(entry),
        ]
        for entry in entries
    ]
    header = ["Algorithm", "Converges to", "Transitions a step", "In the paper's table"]
    text = table(header, rows) + contents([f"algorithms/{entry['id']}" for entry in entries])
    (source / "_generated" / "algorithms.md").write_text(text, encoding="utf-8")


def algorithm_page(algorithm: gb.Algorithm, entry: dict[str, Any], source: Path) -> str:
    """Return the page of an algorithm, and write its picture."""
    stem = f"_generated/pictures/algorithms/{algorithm.name}"
    figure, caption = learning_curve(algorithm)
    save_pair(figure, source / stem)
    references = "\n".join(f"- {reference}" for reference in entry["references"])
    return f"""# {algorithm.about.title}

{picture(stem, f"Learning curve of {algorithm.about.title}")}

{{.under-picture}}
{caption}

## The update

{_docstring(algorithm)}

## Facts

These are declared in its file; the contract suite holds it to them.

{table(["", ""], _facts(algorithm, entry))}

## Run it

```
gainbias run mm1k-admission --algorithm {algorithm.name} --set threshold=3 --seeds 3{_step_option(algorithm)}
```

## References

{references}
"""


def learning_curve(algorithm: gb.Algorithm) -> tuple[Any, str]:
    """Draw errors of a few runs beside the exact curve, and return the figure and its caption."""
    task = gb.task(**PICTURED)
    constant = algorithm.declared.constant_step
    shrinking_or_constant = SHRINKING if constant is None else gb.Constant(constant)
    size = None if algorithm.declared.step_free else shrinking_or_constant
    num_steps = LONGER.get(algorithm.name, STEPS)
    trace = gb.run(algorithm, task, num_steps, size, seeds=range(SEEDS), checkpoints=60)
    errors = np.sort(trace.errors("quotient", target="own"), axis=0)
    exact = _exact(algorithm, task, num_steps, size)
    look = look_of(algorithm.name)
    with drawing(WEB):
        figure = new_figure(WEB.width, 2.9)
        axes = figure.add_subplot()
        axes.fill_between(trace.steps, errors[3], errors[-4], color=look.colour, alpha=0.18, linewidth=0)
        axes.plot(
            trace.steps, np.sqrt((errors**2).mean(axis=0)), color=look.colour, linewidth=2, label="32 runs"
        )
        if exact is not None:
            axes.plot(exact.steps, exact.errors("quotient", target="own"), color=INK, linewidth=1)
            axes.lines[-1].set(linestyle=(0, (4, 2)), label="exact, without sampling")
        axes.set(xscale="log", yscale="log", xlabel="Steps", ylabel="Error", xlim=(1, num_steps))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: power_of_ten(value))
        axes.yaxis.set_major_formatter(lambda value, _: tick_text(value))
        axes.legend()
    steps = "no step sizes" if size is None else f"step sizes `{size!r}`"
    said = "Broken line: the exact curve." if exact is not None else "It has no exact curve."
    why = f"Its values change at the ends of epochs only, so there are {num_steps:,} steps. "
    epochs = why if algorithm.name in LONGER else ""
    return figure, CAPTION.format(who=algorithm.about.title, steps=steps, epochs=epochs, exact=said)


def _exact(algorithm: gb.Algorithm, task: gb.Task, num_steps: int, size: Any) -> gb.Curve | None:
    if algorithm.declared.sample_field is None:
        return None
    return gb.exact_curve(algorithm, task, num_steps, size, checkpoints=60)


def _facts(algorithm: gb.Algorithm, entry: dict[str, Any]) -> list[list[str]]:
    parameters = ", ".join(f"`{name}` = {value:g}" for name, value in algorithm.params()._asdict().items())
    declared = algorithm.declared
    facts = {
        "Id": f"`{algorithm.name}`",
        "Converges to": algorithm.about.converges_to,
        "Not guaranteed": algorithm.about.not_guaranteed,
        "Transitions a step": _uses(entry),
        "Parameters": parameters or "none",
        "Step sizes": _step_sizes(algorithm),
        "Exact learning curve": "yes"
        if declared.sample_field
        else "no: its step is not affine in its weights",
        "Rate": _rate(algorithm),
        "Rewards plus a constant": "change no weight" if declared.shift_invariant else "change the weights",
        "Features": "one for each state only" if declared.tabular_only else "tabular, dense or sparse",
        "Constants in the span": "must not be" if declared.needs_ones_outside_span else "may be or not",
        "In the paper's table": _paper(entry),
    }
    if algorithm.about.reconstructed:
        facts["Reconstructed"] = "from a description that leaves details open"
    return [[f"**{name}**", text] for name, text in facts.items()]


def _step_option(algorithm: gb.Algorithm) -> str:
    """Return the option that gives the step size of the page, if it is constant."""
    constant = algorithm.declared.constant_step
    return "" if constant is None else f" --step-size {constant:g}"


def _step_sizes(algorithm: gb.Algorithm) -> str:
    if algorithm.declared.step_free:
        return "none"
    constant = algorithm.declared.constant_step
    return "shrinking" if constant is None else f"constant, {constant:g}"


def _rate(algorithm: gb.Algorithm) -> str:
    rate = algorithm.declared.rate
    if rate is None:
        return "none is declared"
    return f"mean squared error falls as 1/t{f'^{rate:g}' if rate != 1.0 else ''}"


def _docstring(algorithm: gb.Algorithm) -> str:
    """Return the text of an algorithm's file or folder as Markdown, without its first line, the title."""
    module = import_module(f"gainbias.algorithms.{algorithm.name.replace('-', '_')}")
    _, *paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    return "\n\n".join(
        f"```text\n{textwrap.dedent(text)}\n```" if text.startswith("    ") else escaped(text)
        for text in paragraphs
    )


def _uses(entry: dict[str, Any]) -> str:
    return str(entry["transitions_per_step"])


def _paper(entry: dict[str, Any]) -> str:
    return entry["table_row"] or ("ours" if entry["ours"] else "no")
