"""Units of work on several processes; whoever finishes first is served first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gainbias.experiments.unit import Columns, Unit


def execute(units: Sequence[Unit], workers: int | None = None) -> Iterator[tuple[Unit, dict[str, Columns]]]:
    """Iterate over finished units and their results.

    Parameters
    ----------
    units : sequence of Unit
        What is to be done.
    workers : int, optional
        Number of processes, by default one for each core; with 1 everything happens in this process.
    """
    count = workers or os.cpu_count() or 1
    if count == 1 or len(units) == 1:
        for unit in units:
            yield unit, unit.compute()
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", n_jobs=count, inner_max_num_threads=1):
        pool = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        yield from pool(delayed(_computed)(unit) for unit in units)


def _computed(unit: Unit) -> tuple[Unit, dict[str, Columns]]:
    return unit, unit.compute()
