"""Units of work on several processes; whoever finishes first is served first."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import cache

from gainbias.experiments.unit import Columns, Unit


def execute(units: Sequence[Unit], workers: int) -> Iterator[tuple[Unit, dict[str, Columns]]]:
    """Iterate over finished units and their results; they are begun in their order.

    Parameters
    ----------
    units : sequence of Unit
        What is to be done.
    workers : int
        Number of processes; with 1 everything happens in this process.
    """
    if workers == 1 or len(units) == 1:
        for unit in units:
            yield unit, unit.compute()
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1), warnings.catch_warnings():
        # Said when a study is interrupted, which is no fault.
        warnings.filterwarnings("ignore", ".*limit unnecessary computation time", UserWarning)
        pool = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        try:
            yield from pool(delayed(_computed)(unit) for unit in units)
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a worker process ended, perhaps because memory ran out; what was finished is kept: go on "
                "with --resume, and with fewer workers if memory is short"
            ) from error


def _computed(unit: Unit) -> tuple[Unit, dict[str, Columns]]:
    _end_with_the_study()
    return unit, unit.compute()


@cache
def _end_with_the_study() -> None:
    """Let a worker end when the process that began it does: one that is killed cannot end its workers."""
    study = os.getppid()

    def watch() -> None:
        while os.getppid() == study:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
