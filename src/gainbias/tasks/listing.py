"""The tasks as plain facts, for the command line and the documentation."""

from __future__ import annotations

from typing import Any

from gainbias.tasks.registry import TASKS


def describe_tasks() -> list[dict[str, Any]]:
    """Return the facts of all registered tasks.

    Examples
    --------
    >>> next(entry["num_states"] for entry in describe_tasks() if entry["id"] == "frozen-lake")
    16
    """
    return [
        {
            "id": recipe.name,
            "summary": recipe.summary,
            "num_states": recipe.num_states,
            "citation": recipe.citation,
            "settings": dict(recipe.settings),
            "in_the_paper": recipe.paper is not None,
        }
        for recipe in TASKS.values()
    ]
