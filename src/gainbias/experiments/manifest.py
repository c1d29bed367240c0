"""The manifest of a study: what was run, how, with what, and when."""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gainbias.experiments.provenance import code_version, package_versions
from gainbias.experiments.reproduce.instance import Instance
from gainbias.experiments.reproduce.protocols import PROTOCOLS, ProtocolMethod
from gainbias.experiments.results import CONDITION_RUNS
from gainbias.experiments.units import Unit, hash_of

PAPER_STEP_SIZE = "the paper's, a / (t + c0)"


def make_manifest(
    units: Sequence[Instance],
    instances: Sequence[Mapping[str, Any]],
    *,
    settings: Mapping[str, Any],
    command: str,
    reused: int,
    seconds: float,
) -> dict[str, Any]:
    """Return the manifest of a reproduction: what was run, how, with what, and when.

    Parameters
    ----------
    units : sequence of Instance
        The study.
    instances : sequence of mappings
        Rows of the table "instances".
    settings : mapping
        Changes to the settings of tasks.
    command : str
        What was typed.
    reused : int
        How many units had been stored before.
    seconds : float
        How long the others took.
    """
    return {
        **circumstances(units, command=command, reused=reused, seconds=seconds),
        "shorten": units[0].shorten,
        "settings": dict(settings),
        "condition_instances": CONDITION_RUNS,
        "protocols": {name: _protocol(name, units) for name in dict.fromkeys(u.protocol for u in units)},
        "tasks": {name: _task(name, instances) for name in dict.fromkeys(u.task for u in units)},
    }


def circumstances(units: Sequence[Unit], *, command: str, reused: int, seconds: float) -> dict[str, Any]:
    """Return the part of a manifest that any study has; see `make_manifest`."""
    finished = time.time()
    return {
        "study": hash_of(sorted(unit.id for unit in units)),
        "command": command,
        "started": _clock(finished - seconds),
        "finished": _clock(finished),
        "seconds": round(seconds, 1),
        "code": code_version(),
        "python": sys.version.split()[0],
        "platform": platform.machine(),
        "packages": package_versions(),
        "units": len(units),
        "reused": reused,
    }


def _protocol(name: str, units: Sequence[Instance]) -> dict[str, Any]:
    protocol = PROTOCOLS[name]
    return {
        "summary": protocol.summary,
        "seeds": sorted({unit.run for unit in units if unit.protocol == name}),
        "target": protocol.target,
        "norms": list(protocol.norms),
        "methods": {method.name: _method(method) for method in protocol.methods},
    }


def _method(method: ProtocolMethod) -> dict[str, Any]:
    facts = asdict(method)
    facts.pop("name")
    # JSON has no infinity: a radius of that size means no projection.
    params = {name: value if math.isfinite(value) else None for name, value in method.params.items()}
    return {**facts, "step_size": method.step_size or PAPER_STEP_SIZE, "params": params}


def _task(name: str, instances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all instances of a task share, and the fingerprint of each by protocol and seed."""
    rows = [row for row in instances if row["task"] == name]
    sources = [json.loads(row["source"]) for row in rows]
    fingerprints: dict[str, dict[str, str]] = {}
    for row in rows:
        fingerprints.setdefault(row["protocol"], {})[str(row["seed"])] = row["fingerprint"]
    return {
        "settings": json.loads(rows[0]["settings"]),
        "source": {
            key: value
            for key, value in sources[0].items()
            if all(source.get(key) == value for source in sources)
        },
        "fingerprints": fingerprints,
    }


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
