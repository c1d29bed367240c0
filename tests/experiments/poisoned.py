"""The command line, with a unit that kills its worker: python -m tests.experiments.poisoned sweep ..."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from gainbias import cli
from gainbias.experiments.cell import Cell
from gainbias.experiments.study import Study
from gainbias.report import sweep

KILLER = ("td-lambda", 3)
"""Algorithm and instance of the unit."""


class Poison(Cell):
    """Kills its worker, as a system does that has no memory left; it has the id of the unit itself."""

    def compute(self) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def poisoned(cells: Iterator[Cell]) -> Iterator[Cell]:
    for cell in cells:
        is_killer = (cell.algorithm, cell.instance) == KILLER
        yield Poison(**{one.name: getattr(cell, one.name) for one in fields(cell)}) if is_killer else cell


def main() -> int:
    calm, sweep.report_on_sweep = Study.cells, lambda *_: []  # nothing here is about pages
    Study.cells = lambda *args, **choices: poisoned(calm(*args, **choices))  # type: ignore[method-assign]
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    from tests.experiments.poisoned import main as by_name  # as workers find the class, too

    sys.exit(by_name())
