"""What was run, in a few lines: the manifest of a study as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gainbias.experiments.reproduce.protocols import PROTOCOLS
from gainbias.experiments.reproduce.reproduce import INSTANCES, paper_tasks
from gainbias.report.names import algorithm_title, exact_text
from gainbias.report.tables.layout import Cell, Sheet, markdown

WARNING = (
    "**This is a quick look, not the study.** Each run has 1/{shorten} of the paper's steps, so errors are "
    "larger than they would be, and neither numbers nor verdicts can be compared with the paper's."
)


PART = "**This is a part of the study.** It has {parts}. Verdicts and means are of this part only."


def shortfalls(manifest: Mapping[str, Any]) -> list[str]:
    """Return in what a study falls short of that of the paper, as sentences in Markdown.

    Examples
    --------
    >>> from gainbias.experiments.reproduce.reproduce import paper_tasks
    >>> protocols = {"literal": {"seeds": [0]}, "inferred": {"seeds": [0]}, "fair": {"seeds": [0, 1]}}
    >>> study = {"shorten": 1, "tasks": dict.fromkeys(paper_tasks()), "protocols": protocols}
    >>> shortfalls(study)[0][:91]
    '**This is a part of the study.** It has 2 of 30 instances of each task in the protocol fair'
    """
    protocols, parts = manifest["protocols"], []
    known = paper_tasks()
    if len(run := set(manifest["tasks"]) & set(known)) < len(known):
        parts.append(f"{len(run)} of the paper's {len(known)} tasks")
    if missing := [name for name in PROTOCOLS if name not in protocols]:
        parts.append(f"no protocol {' and no protocol '.join(missing)}")
    if "fair" in protocols and (count := len(protocols["fair"]["seeds"])) < INSTANCES:
        parts.append(f"{count} of {INSTANCES} instances of each task in the protocol fair")
    found = [WARNING.format(shorten=manifest["shorten"])] if manifest["shorten"] != 1 else []
    return [*found, PART.format(parts="; ".join(parts))] if parts else found


def study_summary(manifest: Mapping[str, Any]) -> str:
    """Return what was run, by which command, with which versions, as Markdown.

    Parameters
    ----------
    manifest : mapping
        Of `gainbias.experiments.manifest.make_manifest`.
    """
    parts = shortfalls(manifest)
    rows = [[[Cell(words), Cell(text)]] for words, text in study_facts(manifest).items()]
    parts.append(markdown(Sheet("study", "", ["What was run", ""], rows, text_columns=2)))
    parts.append("All of it, with the fingerprint of every instance, is in `manifest.json`.")
    return "\n\n".join(parts)


def study_facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what was run, each fact under its name."""
    versions = {"Python": manifest["python"], **manifest["packages"]}
    protocols = manifest["protocols"]
    return {
        "Command": manifest["command"],
        "Finished": f"{manifest['finished']}, after {_duration(manifest['seconds'])}{_reused(manifest)}",
        "Tasks": f"{len(manifest['tasks'])}" + _task_names(manifest["tasks"]),
        "Instances of each task": ", ".join(f"{len(p['seeds'])} {name}" for name, p in protocols.items()),
        "Seeds": ", ".join(f"{_span(p['seeds'])} {name}" for name, p in protocols.items()),
        "Changed settings": _pairs(manifest["settings"]) or "none",
        **_own_step_sizes(protocols),
        "gainbias": manifest["code"],
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "Environments": ", ".join(_environments(manifest["tasks"])) or "none",
    }


def _own_step_sizes(protocols: Mapping[str, Any]) -> dict[str, str]:
    """Say how methods are run that do not take the paper's step sizes."""
    return {
        algorithm_title(name): (
            f"constant step size {exact_text(method['step_size'])}, {_pairs(method['params'])}"
        )
        for protocol in protocols.values()
        for name, method in protocol["methods"].items()
        if not isinstance(method["step_size"], str)
    }


def _pairs(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {exact_text(value)}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )


def _environments(tasks: Mapping[str, Any]) -> list[str]:
    found = [task["source"]["environment"] for task in tasks.values() if "environment" in task["source"]]
    return list(dict.fromkeys(found))


def _task_names(tasks: Mapping[str, Any]) -> str:
    return f": {', '.join(tasks)}" if len(tasks) < 15 else ""


def _reused(manifest: Mapping[str, Any]) -> str:
    if not manifest["reused"]:
        return ""
    return f"; {manifest['reused']} of {manifest['units']} instances had been stored before"


def _span(seeds: list[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
