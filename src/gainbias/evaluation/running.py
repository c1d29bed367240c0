"""`RunningMean`: the mean of numbers as they come, with intervals that hold however often one looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from gainbias.evaluation.gain.anytime import ConfidenceSequence
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import GainEstimate
from gainbias.store import check_free
from gainbias.types import Floats

RUNNING_KIND = "gainbias running mean"
RUNNING_VERSION = 1


class RunningMean:
    """The mean of a stream of numbers, with intervals that hold at all looks together.

    Feed it numbers as they come, look whenever you like, and stop when you have seen enough: with the given
    confidence no interval that you could have seen from the first look on misses the mean. They may depend on
    each other. It needs about 200 kB, however long the stream is.

    Parameters
    ----------
    confidence : float
        The chance that all intervals together hold the mean.
    skip : int
        The first numbers are left out, as many as this: those of a warm-up. It must be said before, because
        intervals that were looked at cannot be taken back.
    first_look : int, optional
        Numbers after those left out before the first interval, at least 100. By default the first interval
        comes when the numbers are worth 500 independent ones and nothing speaks against it; this is looked
        at after 2,048 numbers, 4,096, 8,192 and so on.

    Attributes
    ----------
    confidence, skip
        As they were given.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> rng, waits = np.random.default_rng(0), gb.RunningMean()
    >>> waits.update(rng.exponential(size=1_000))
    >>> waits.interval is None, waits.notes
    (True, ('no interval yet: the first comes after 500 autocorrelation times, ...',))
    >>> while waits.interval is None or waits.half_width > 0.02:
    ...     waits.update(rng.exponential(size=1_000))
    >>> low, high = waits.interval
    >>> low < 1.0 < high, waits.warnings
    (True, ())
    """

    def __init__(self, confidence: float = 0.95, *, skip: int = 0, first_look: int | None = None) -> None:
        if skip < 0:
            raise ValueError(f"skip must not be negative, found {skip}")
        self._sequence = ConfidenceSequence(confidence, first_look)
        self.confidence, self.skip = confidence, skip
        self._numbers, self._skipped = BatchMeans(), 0
        self._seen: tuple[int, GainEstimate | None] = 0, None

    def update(self, numbers: ArrayLike) -> None:
        """Add the next numbers: one, or a list or an array of them.

        Raises
        ------
        ValueError
            If one of them is not finite, or they are no numbers; then none of them was added.
        """
        array = self._checked(numbers)
        left_out = min(self.skip - self._skipped, len(array))
        self._skipped += left_out
        array = array[left_out:]
        while len(array):
            check = self._sequence.next_check(self.steps)
            room = len(array) if check is None else check - self.steps
            self._numbers.add(array[:room])
            array = array[room:]
            if self.steps == check:
                self._sequence.check(self._numbers, find_warm_up=False)

    @property
    def steps(self) -> int:
        """Numbers so far, without those left out."""
        return self._numbers.steps

    @property
    def mean(self) -> float:
        """Mean of all numbers so far; nan if there are none."""
        return self._numbers.mean if self.steps else float("nan")

    @property
    def first_look(self) -> int | None:
        """Numbers before the first interval; None if that is not known yet."""
        return self._sequence.first_look

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval now; None before the first look, and if the numbers never change."""
        look = self._look()
        return look.interval if look is not None and look.has_interval else None

    @property
    def half_width(self) -> float:
        """Half the width of the interval; infinite as long as there is none."""
        return float("inf") if (ends := self.interval) is None else (ends[1] - ends[0]) / 2.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the interval may be wrong, or why there is none; empty if nothing speaks against it."""
        return () if (look := self._look()) is None else look.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """Since when intervals hold, or when the first will come."""
        return () if (look := self._look()) is None else look.notes

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write all that is needed to go on to a file, which `RunningMean.load` reads.

        A file that is there already is refused unless it may be replaced; folders that are missing are made.
        """
        from gainbias.evaluation.storage import write_archive

        check_free(Path(path), overwrite)
        numbers, arrays = self._numbers.state()
        record = {
            "confidence": self.confidence,
            "skip": self.skip,
            "skipped": self._skipped,
            "first_look": self.first_look,
            "numbers": numbers,
        }
        write_archive(Path(path), RUNNING_KIND, RUNNING_VERSION, record, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a running mean that `save` wrote: it goes on as if it had never been saved, to the last bit.

        Raises
        ------
        ValueError
            If the file is damaged, is something else, or was written by another version.

        Examples
        --------
        >>> import tempfile
        >>> import gainbias as gb
        >>> running = gb.RunningMean()
        >>> running.update([1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     running.save(f"{folder}/waits.npz")
        ...     again = gb.RunningMean.load(f"{folder}/waits.npz")
        >>> again.update(6.0)
        >>> again.steps, again.mean
        (3, 3.0)
        """
        from gainbias.evaluation.storage import read_archive

        record, arrays = read_archive(Path(path), RUNNING_KIND, RUNNING_VERSION, "RunningMean.save")
        made = cls(record["confidence"], skip=record["skip"], first_look=record["first_look"])
        made._skipped, made._numbers = record["skipped"], BatchMeans.restored(record["numbers"], arrays)
        return made

    def __repr__(self) -> str:
        ends = "no interval"
        if (interval := self.interval) is not None:
            ends = f"{self.confidence:.0%} interval {interval[0]:.6g} to {interval[1]:.6g}"
        lines = [
            f"mean      {self.mean:.6g} of {self.steps:,} numbers, {ends}",
            *(f"warning   {warning}" for warning in self.warnings),
            *(f"note      {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def _look(self) -> GainEstimate | None:
        """Return what is seen now, None for fewer than two numbers; kept, so that asking again is free."""
        if self._seen[0] != self.steps and self.steps > 1:
            look = self._sequence.estimate(self._numbers, find_warm_up=False, skipped=self._skipped)
            self._seen = self.steps, look
        return self._seen[1]

    def _checked(self, numbers: Any) -> Floats:
        array = np.atleast_1d(np.asarray(numbers))
        if array.ndim != 1 or (array.size and array.dtype.kind not in "biuf"):
            raise ValueError(
                f"numbers must be one number, or a list or array of numbers, found shape {array.shape} and "
                f"type {array.dtype}"
            )
        array = array.astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            place = int(np.argmin(np.isfinite(array)))
            raise ValueError(
                f"numbers must be finite, found {array[place]} at place {place} of these, after "
                f"{self._skipped + self.steps:,} earlier ones: none of these was added"
            )
        return array
