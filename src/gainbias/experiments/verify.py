"""Whether stored numbers can be computed again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainbias.experiments.cell import Cell
from gainbias.experiments.engines import EngineName, opened
from gainbias.experiments.execute import execute
from gainbias.experiments.provenance import code_version, machine
from gainbias.experiments.results import FAILURE, MACHINE, Results
from gainbias.experiments.status import planned
from gainbias.experiments.tables import Layout, unpacked
from gainbias.progress import Watch
from gainbias.tasks.settings import as_integer

TOLERANCE = 1e-9
"""Between kinds of machines, results agree to this."""

OF_BITS = "fingerprint"
"""A column that changes with the last digit of a task."""


@dataclass(frozen=True)
class Verification:
    """What came of computing units again.

    Attributes
    ----------
    checked : int
        How many.
    identical : int
        How many have the same bits.
    close : int
        How many have not, but agree to 1e-9.
    different : list of str
        The others.
    damaged : list of str
        Stored units that are damaged or missing, and files that are not as they were written.
    exact : bool
        Whether bits must be the same: same sources, and one kind of machine, which is this one.
    """

    checked: int
    identical: int
    close: int
    different: list[str]
    damaged: list[str]
    exact: bool

    @property
    def passed(self) -> bool:
        """Whether the stored numbers can be computed again."""
        return not (self.different or self.damaged) and (self.identical == self.checked or not self.exact)

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return {**asdict(self), "passed": self.passed}


def verify(
    folder: str | Path,
    sample: int = 10,
    *,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    rng: random.Random | None = None,
) -> Verification:
    """Compute a random sample of the stored units again, and compare; look for damage in all of them.

    Parameters
    ----------
    folder : path
        Results folder of a sweep.
    sample : int
        How many units.
    engine, workers, address
        See `sweep`.
    rng : random.Random, optional
        Chooses; by default it is different each time.
    """
    results = Results(folder)
    every = planned(results)
    stored, _ = results.finished(every)
    units = {unit.id: unit for unit in every if unit.id in stored}
    if not units:
        raise ValueError(f"{results.folder} holds no whole units that could be verified")
    count = min(as_integer(sample, "sample", least=1), len(units))
    chosen = (rng or random.Random()).sample(sorted(units), count)
    again = {unit.id: name for name in chosen for unit in [replace(units[name], code=code_version())]}
    records, found = results.log.records(), dict[str, str]()
    with Watch() as watch, opened(engine, workers, address) as where:
        for finished in execute([replace(units[name], code=code_version()) for name in chosen], where):
            for answer in finished.answers:
                name = again[answer.id]
                found[name] = _compared(records[name].read(), answer.payload)
                watch.show("computing units again", len(found), count)
    machines = {name.removeprefix(MACHINE) for name in records if name.startswith(MACHINE)}
    words = list(found.values())
    return Verification(
        checked=count,
        identical=words.count("identical"),
        close=words.count("close"),
        different=[units[name].label for name in found if found[name] == "different"],
        damaged=_damage(results, every, stored),
        exact=results.note["code"] == code_version() and machines == {machine()},
    )


def _damage(results: Results, units: list[Cell], stored: set[str]) -> list[str]:
    """Say what a finished study had and has no more, and which units of another are damaged."""
    records = results.log.records()
    lost = [unit for unit in units if unit.id in records and unit.id not in stored]
    found = [f"{unit.label}: its record is damaged" for unit in lost]
    if results.outdated or not (results.folder / "manifest.json").exists():
        return found
    gone = [unit for unit in units if not {unit.id, FAILURE + unit.id} & records.keys()]
    found += [f"{unit.label}: its record is missing" for unit in gone]
    try:
        written = results.manifest.get("tables", {})
    except (ValueError, AttributeError):
        return [*found, "manifest.json: is damaged"]
    now = results.checksums(Layout("sweep", {"runs": []}))
    return found + [f"{name}: is not as it was written" for name in written if now.get(name) != written[name]]


def _compared(stored: bytes, again: bytes | None) -> str:
    """Say whether two results are identical, close or different; none is different from all."""
    if again is None:
        return "different"
    pairs = dict(_columns(stored, again))
    if all(np.array_equal(_bits(one), _bits(other)) for one, other in pairs.values()):
        return "identical"
    alike = all(_are_close(*pair) for name, pair in pairs.items() if name != OF_BITS)
    return "close" if alike else "different"


def _columns(stored: bytes, again: bytes) -> Iterator[tuple[str, tuple[Any, Any]]]:
    one, other = unpacked(stored)["runs"], unpacked(again)["runs"]
    for name in dict.fromkeys(one.column_names + other.column_names):
        both = name in one.column_names and name in other.column_names
        yield name, (one[name].to_numpy(), other[name].to_numpy()) if both else (np.zeros(1), np.ones(1))


def _bits(column: Any) -> Any:
    return column.view(np.int64) if column.dtype == np.float64 else column


def _are_close(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != np.float64:
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
