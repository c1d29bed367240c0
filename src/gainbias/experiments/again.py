"""What a resumed study computes, and why: said before work begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gainbias.experiments.provenance import made_with
from gainbias.experiments.results import FAILURE, MACHINE, Results
from gainbias.experiments.work import Unit


def resume_notice(
    units: Sequence[Unit],
    waiting: Mapping[str, Unit],
    results: Results,
    damaged: Collection[str],
    changes: str = "",
) -> str:
    """Return what will be computed and why; empty if nothing was stored, or if nothing will change.

    Parameters
    ----------
    units : sequence of Unit
        All of the study.
    waiting : mapping of str to Unit
        By id, those that will be computed.
    results : Results
        Where others are stored.
    damaged : collection of str
        Ids of units whose records are damaged.
    changes : str
        How the description of the study differs from the stored one.

    Examples
    --------
    >>> resume_notice([], {}, Results("results/nothing-yet"), [])
    ''
    """
    records = results.log.records()
    stored = {name for name in records if not name.startswith((MACHINE, FAILURE))}
    if not any(not name.startswith(MACHINE) for name in records):
        return ""
    unknown, lines, left = stored - {unit.id for unit in units}, list[str](), dict(waiting)

    def take(ids: Collection[str], one: str, several: str) -> None:
        found = [left.pop(name) for name in ids if name in left]
        if found:
            lines.append(f"{_count(len(found), 'unit')} {one if len(found) == 1 else several}")

    damage = "again, because what is stored of {} is damaged"
    take(damaged, damage.format("it"), damage.format("them"))
    for code, facts in results.made_with().items():
        if not unknown:
            break
        older = {replace(unit, code=code).id: unit for unit in units if unit.code != code}  # type: ignore[type-var]
        here = unknown & older.keys()
        unknown -= here
        now = units[0].code
        why = f"again, because {_why(facts, code, now)}"
        take([older[name].id for name in here], why, why)
    failed = [name for name in left if FAILURE + name in records]
    take(failed, "again, because it failed", "again, because they failed")
    new = f"not stored yet{f' ({changes})' if changes else ''}"
    take(list(left), f"that is {new}", f"that are {new}")
    if unknown:
        what = _count(len(unknown), "stored unit")
        lines.append(
            f"not used: {what} of other settings, or of sources that are not known; the tables will not have "
            f"{'it' if len(unknown) == 1 else 'them'}"
        )
    if not lines:
        return ""
    counts = (
        f"{len(waiting):,} of {_count(len(units), 'unit')} to compute, {len(units) - len(waiting):,} kept"
    )
    return "\n".join([f"resuming {results.folder}: {counts}", *(f"  {line}" for line in lines)])


def _why(before: Mapping[str, Any], old: str, new: str) -> str:
    """Say what has changed between two codes: sources, versions, or both."""
    now, words = made_with(new), []
    packages = before.get("packages")
    if before.get("sources", now["sources"]) != now["sources"] or packages == now["packages"]:
        words.append("the sources of gainbias have changed")
    if packages is not None and packages != now["packages"]:
        changed = [
            f"{name} {packages.get(name) or 'missing'} -> {version or 'missing'}"
            for name, version in now["packages"].items()
            if packages.get(name) != version
        ]
        words.append(f"versions have changed ({', '.join(changed)})")
    found = " and ".join(words) or "the sources of gainbias, or versions of others, have changed"
    return f"{found} ({old} -> {new})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
