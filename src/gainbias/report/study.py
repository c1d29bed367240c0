"""What was run, in a few lines: the manifest of a study as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gainbias.report.layout import Cell, Sheet, markdown
from gainbias.report.names import algorithm_title, exact_text

WARNING = (
    "**This is a quick look, not the study.** Each run has 1/{shorten} of the paper's steps, so errors are "
    "larger than they would be, and neither numbers nor verdicts can be compared with the paper's."
)


def study_summary(manifest: Mapping[str, Any]) -> str:
    """Return what was run, by which command, with which versions, as Markdown.

    Parameters
    ----------
    manifest : mapping
        Of `gainbias.experiments.manifest.make_manifest`.
    """
    parts = []
    if manifest["shorten"] != 1:
        parts.append(WARNING.format(shorten=manifest["shorten"]))
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
