"""The unit of work of a study: one instance of one task, run by all methods of a protocol."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np

from gainbias.engine.run import run
from gainbias.engine.schedules import Harmonic
from gainbias.engine.trace import Kind, Target, Trace
from gainbias.experiments.provenance import code_version
from gainbias.experiments.reproduce.protocols import PROTOCOLS, Protocol
from gainbias.experiments.results import CONDITION_RUNS, CONDITIONS
from gainbias.experiments.tables import Columns, Layout
from gainbias.experiments.units import BATCH_SECONDS, hash_of, is_defined, refuse_interrupted
from gainbias.tasks.places import NOWHERE, Places, places_of
from gainbias.tasks.registry import task
from gainbias.tasks.task import Task

CHECKPOINT_HALVINGS = 12
"""The first checkpoint is at the last step, halved this many times."""

LAYOUT = Layout(
    "reproduction",
    {
        "runs": ["algorithm", "kind", "target", "norm", "step"],
        "instances": [],
        "conditions": [],
        "states": [],
        "values": [],
    },
    with_csv=("runs", "instances", "conditions", "states"),
)
"""The tables; units come by protocol, task and run."""


@dataclass(frozen=True)
class Instance:
    """One instance of one task, run by all methods of a protocol.

    Attributes
    ----------
    protocol, task : str
        Their ids.
    run : int
        Number of the instance, which is also the seed of its task and of its sample path.
    shorten : int
        Steps are divided by this number; 1 for the study itself.
    settings : mapping of str to number or str
        Changes to the settings of the task.
    code : str
        Version of the sources that the result is to come from.
    """

    protocol: str
    task: str
    run: int
    shorten: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = field(default_factory=code_version)

    seconds = BATCH_SECONDS  # one at a time
    lane_steps = 0

    @cached_property
    def id(self) -> str:
        """Hash of everything that determines the result, sources and versions included."""
        return hash_of([asdict(self), asdict(PROTOCOLS[self.protocol])])

    @property
    def label(self) -> str:
        """The unit in a few words."""
        return f"{self.protocol}: {self.task} {self.run}"

    @property
    def place(self) -> tuple[str, str, int]:
        """Where its rows are in the tables."""
        return self.protocol, self.task, self.run

    def compute(self) -> dict[str, Columns]:
        """Run all methods on the instance, and return the columns of all tables.

        Returns
        -------
        dict
            Columns of the tables "runs", with a row for each algorithm, checkpoint and measure; "instances"
            and "conditions", with one row; "states", with one for each state, and "values", with one for each
            algorithm and checkpoint. "conditions" has none for later instances, and the last two have
            rows for the first instance of a task with a map only.
        """
        protocol = PROTOCOLS[self.protocol]
        made = task(self.task, seed=self.run, protocol=protocol.name, **self.settings)
        steps, size = self.budget(made)
        parts, values = [], []
        places = places_of(made) if self.run == 0 else None
        for method in protocol.methods:
            trace = run(
                method.algorithm,
                made.problem,
                steps,
                size if method.step_size is None else method.step_size,
                seeds=self.run,
                params=method.params,
                checkpoints=_checkpoints(steps),
                threads=1,
            )
            refuse_interrupted(trace)
            parts.append(self._rows(method.name, protocol, trace))
            values.append(self._values(method.name, trace, wanted=places is not None))
        return {
            "runs": _joined(parts),
            "instances": self._instance(made),
            "conditions": self._conditions(made),
            "states": self._states(made, places),
            "values": _joined(values),
        }

    def budget(self, made: Task) -> tuple[int, Harmonic]:
        """Return the number of steps and the paper's step size."""
        assert made.paper is not None
        return made.paper.num_steps // self.shorten, Harmonic(
            made.paper.step_numerator, made.paper.step_offset
        )

    @property
    def _key(self) -> Columns:
        return {name: np.array([getattr(self, name)]) for name in ("protocol", "task", "run")}

    def _instance(self, made: Task) -> Columns:
        """Return one row of facts: what was run, and where it came from."""
        steps, size = self.budget(made)
        facts = {
            "seed": self.run,
            "num_states": made.problem.mrp.num_states,
            "num_features": made.problem.num_features,
            "gain": made.problem.solution.gain,
            "ones_in_span": made.problem.ones_in_span,
            "step_numerator": size.a,
            "step_offset": size.c0,
            "num_steps": steps,
            "epsilon": float(made.settings.get("epsilon", 0.0)),
            "fingerprint": made.fingerprint,
            "settings": json.dumps(dict(made.settings)),
            "source": json.dumps(dict(made.source)),
        }
        return self._key | {name: np.array([fact]) for name, fact in facts.items()}

    def _conditions(self, made: Task) -> Columns:
        """Return one row of condition numbers; none for later instances, because it takes long."""
        wanted = self.run < CONDITION_RUNS
        numbers = made.problem.condition_numbers if wanted else None
        row = {name: np.array([getattr(numbers, name, 0.0)]) for name in CONDITIONS}
        return {name: values[: int(wanted)] for name, values in (self._key | row).items()}

    def _states(self, made: Task, places: Places | None) -> Columns:
        """Return where each state is on the map, and its exact bias; no row if there is no map."""
        where = places or NOWHERE
        count = len(where.panels)
        return {
            "protocol": np.full(count, self.protocol),
            "task": np.full(count, self.task),
            "state": np.arange(count),
            "panel": where.panels,
            "title": np.where(where.panels >= 0, np.array(where.titles)[where.panels], ""),
            "row": where.rows,
            "column": where.columns,
            "bias": made.problem.solution.bias[:count],
        }

    def _values(self, method: str, trace: Trace, wanted: bool) -> Columns:
        """Return the estimates of all states at each checkpoint; half the digits are enough for a map."""
        steps = trace.steps[: None if wanted else 0]
        with np.errstate(over="ignore", invalid="ignore"):  # of a lane that diverges
            values = trace.problem.features.combine(trace.weights[0, : len(steps)].T).T.astype(np.float32)
        count = len(steps)
        return {
            "protocol": np.full(count, self.protocol),
            "task": np.full(count, self.task),
            "algorithm": np.full(count, method),
            "step": steps,
            "values": values,
        }

    def _rows(self, method: str, protocol: Protocol, trace: Trace) -> Columns:
        measures = [
            (kind, target, norm)
            for kind, target, norm in itertools.product(get_args(Kind), get_args(Target), protocol.norms)
            if is_defined(trace, kind, target) and (norm == "euclidean" or target == "bias")
        ]
        errors = [trace.errors(kind, target=target, norm=norm)[0] for kind, target, norm in measures]
        count, times = len(trace.steps), len(measures)
        kinds, targets, norms = (np.repeat([m[i] for m in measures], count) for i in range(3))
        return {
            "protocol": np.full(count * times, self.protocol),
            "task": np.full(count * times, self.task),
            "algorithm": np.full(count * times, method),
            "run": np.full(count * times, self.run),
            "seed": np.full(count * times, self.run),
            "step": np.tile(trace.steps, times),
            "transitions": np.tile(trace.transitions, times),
            "kind": kinds,
            "target": targets,
            "norm": norms,
            "error": np.concatenate(errors),
            "gain": np.tile(trace.gain[0], times),
        }


def _checkpoints(steps: int) -> list[int]:
    """Return steps that halve every second time, so that half of the steps, in transitions, is among them."""
    exponents = np.arange(2 * CHECKPOINT_HALVINGS + 1) / 2
    return sorted({max(1, round(steps * 2.0**-exponent)) for exponent in exponents})


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
