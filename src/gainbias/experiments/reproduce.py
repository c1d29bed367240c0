"""The paper's study, rebuilt: fifteen tasks, three protocols, one results folder.

In the order of reading: `reproduce` runs the study. A `Protocol` says which methods are run and how:
exactly as in the paper's text, as fits its numbers best, or fairly; titles and order of the methods come
with it. An `Instance`, one instance of one task run by all methods of a protocol, is the unit of work. At
the end `make_manifest` says what was run.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gainbias.algorithms.registry import ALGORITHM_HOMES, as_algorithm, long_title, short_title
from gainbias.engine.run import run
from gainbias.engine.schedules import Harmonic
from gainbias.engine.stacked import LaneFound, StackedRun, run_stacked
from gainbias.engine.trace import Kind, Norm, Target, Trace
from gainbias.experiments.engines import EngineName, check_choice, check_gpu, opened, with_gpu
from gainbias.experiments.provenance import Reach, circumstances, code_of, hash_of
from gainbias.experiments.results import Layout, Results
from gainbias.experiments.runner import complete, refuse_failures, refuse_outdated, show_labels
from gainbias.experiments.units import BATCH_SECONDS, Columns, is_defined, refuse_interrupted
from gainbias.extras import require
from gainbias.progress import Watch
from gainbias.suggest import known_names
from gainbias.tasks.registry import TASK_HOMES, TASKS, task
from gainbias.tasks.task import NOWHERE, Places, ProtocolName, Task, as_integer, places_of

INSTANCES = 30
"""Instances of each task in the fair protocol, in the full study."""


def paper_tasks() -> list[str]:
    """Return the ids of the tasks of the paper.

    Examples
    --------
    >>> len(paper_tasks())
    15
    """
    return [name for name, recipe in TASKS.items() if recipe.paper is not None]


def reproduce(
    folder: Path | str = "results/reproduction",
    *,
    protocols: Iterable[str] | None = None,
    tasks: Iterable[str] | None = None,
    instances: int = INSTANCES,
    shorten: int = 1,
    settings: Mapping[str, Any] | None = None,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    wait: float | str | None = None,
    device: Literal["cpu", "gpu"] = "cpu",
    overwrite: bool = False,
    resume: bool = False,
    recompute: bool = False,
    command: str = "gainbias.reproduce",
) -> Results:
    """Run the paper's study and store it.

    Parameters
    ----------
    folder : path
        Results folder; it must be new unless `overwrite` or `resume` says otherwise.
    protocols : iterable of str, optional
        Some of "literal", "inferred" and "fair"; by default all three.
    tasks : iterable of str, optional
        Ids of tasks; by default the fifteen of the paper.
    instances : int
        Instances of each task in the fair protocol; the paper's own have three.
    shorten : int
        Divide the number of steps by this, for a quick look; 1 is the study itself.
    settings : mapping, optional
        Changes to the settings of tasks; each takes those that it has.
    engine, workers, address, wait
        Where it is computed, see `gainbias.sweep`. It changes no result.
    device : {"cpu", "gpu"}
        Where the steps of most methods are made. A GPU takes those of all instances of a task at once, and
        the processes do the rest: it saves a good third of the time at most, after some seconds for
        compiling. The tables are the same, and a study that was begun with one goes on with the other.
    overwrite, resume : bool
        What to do with a folder that already holds a study: start afresh, or go on. A study can be resumed
        with more or fewer instances, tasks and protocols, but not with other `settings` or `shorten`. A
        notice on standard error says first what will be computed, and why. Until new tables are there, those
        from before stay, and `Results.outdated` says so.
    recompute : bool
        Whether finished units may be computed again if their code or versions have changed; see `sweep`.
    command : str
        What is recorded as the command that was typed.

    Returns
    -------
    Results
        Tables "runs", "instances" and "conditions", and the manifest.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"tasks": ["random-walk-50"], "protocols": ["literal"], "shorten": 1000, "workers": 1}
    ...     results = gb.reproduce(f"{folder}/quick-look", **options)
    ...     sorted(results.frame("runs").algorithm.unique())
    ['double-chain', 'implicit-td', 'lstd', 'single-chain', 'td-lambda', 'vrtd', 'vrtd-all-data']
    """
    settings = _as_stored(settings or {})
    check_choice(engine, workers, address, wait)
    check_gpu(device, engine)
    units = plan(protocols, tasks, instances, shorten, settings)
    of_tasks = (module for unit in units for module in TASKS[unit.task].needs)
    require(*dict.fromkeys(of_tasks), "pandas", "pyarrow", "matplotlib")
    results, started = Results(folder), time.monotonic()
    choices = {"shorten": shorten, "settings": settings}
    results.check(LAYOUT.kind, choices, overwrite=overwrite, resume=resume)
    refuse_outdated(units, results, recompute or overwrite)
    with Watch() as watch:
        try_settings(units, watch)
        way = with_gpu(workers) if device == "gpu" else opened(engine, workers, address, wait=wait)
        turns = task_by_task(units) if device == "gpu" else units
        with way as where, results.log:
            results.begin(LAYOUT, choices, units, overwrite=overwrite)
            progress = complete(turns, results, where, lambda now: show_labels(watch, now, where.workers))
        refuse_failures(results, units)
        in_order = sorted(units, key=lambda unit: unit.place)
        results.write_tables(in_order, LAYOUT)
    manifest = make_manifest(
        units,
        results.read_table("instances").to_dict("records"),
        settings=settings,
        command=command,
        reused=progress.reused,
        seconds=time.monotonic() - started,
    )
    results.write_manifest(manifest)
    return results


def _as_stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are stored and read again, so that they can be compared."""
    try:
        stored: dict[str, Any] = json.loads(json.dumps(dict(settings), default=lambda array: array.tolist()))
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"settings must be numbers, words and lists of these by name, found {settings!r}"
        ) from error
    return stored


def try_settings(units: Sequence[Instance], watch: Watch) -> None:
    """Make an instance of each task with changes, so that wrong settings are refused before work begins."""
    for unit in {unit.task: unit for unit in reversed(units) if unit.settings}.values():
        watch.show(f"trying the settings on {unit.task}")
        try:
            task(unit.task, seed=unit.run, protocol=PROTOCOLS[unit.protocol].name, **unit.settings)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{unit.task} refuses the settings {dict(unit.settings)}: {error}") from error


def plan(
    protocols: Iterable[str] | None,
    tasks: Iterable[str] | None,
    instances: int,
    shorten: int,
    settings: Mapping[str, Any],
) -> list[Instance]:
    """Return all units of a study, instance by instance, so that stopping early leaves some of everything."""
    for what, names in (("protocols", protocols), ("tasks", tasks)):
        if isinstance(names, str):
            raise ValueError(f"{what} must be a list of ids, found {names!r}")
    instances = as_integer(instances, "instances", least=1)
    of_the_paper = {name: recipe.paper for name, recipe in TASKS.items() if recipe.paper is not None}
    most = min(paper.num_steps for paper in of_the_paper.values())
    shorten = as_integer(shorten, "shorten", least=1, most=most)
    chosen = list(of_the_paper) if tasks is None else known_names(tasks, of_the_paper, "task of the paper")
    own = {name: {key: settings[key] for key in TASKS[name].settings if key in settings} for name in chosen}
    for name in settings:
        known_names([name], sorted({key for task in chosen for key in TASKS[task].settings}), "setting")
    units = [
        Instance(protocol, task, run, shorten, own[task])
        for protocol in known_names(PROTOCOLS if protocols is None else protocols, PROTOCOLS, "protocol")
        for run in range(instances if protocol == "fair" else PROTOCOLS[protocol].runs)
        for task in chosen
    ]
    if not units:
        raise ValueError("there is nothing to run: name at least one protocol and one task")
    return units


def task_by_task(units: Sequence[Instance]) -> list[Instance]:
    """Return units sorted so that those which a GPU takes together follow each other."""
    kinds = list(dict.fromkeys((unit.protocol, unit.task) for unit in units))
    return sorted(units, key=lambda unit: kinds.index((unit.protocol, unit.task)))


@dataclass(frozen=True)
class ProtocolMethod:
    """An algorithm with the step size and the parameters that a protocol gives it.

    Attributes
    ----------
    name : str
        Its name in the tables.
    algorithm : str
        Id of the algorithm, by default the same.
    step_size : float, optional
        A constant step size; by default it is the paper's for the task, a / (t + c0).
    params : dict of str to float
        All parameters of the algorithm; those that are not given are filled in with its defaults.

    Examples
    --------
    >>> ProtocolMethod("single-chain").params["mean_ratio"]
    1.0
    """

    name: str
    algorithm: str = ""
    step_size: float | None = None
    params: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in the algorithm and all parameters, so that the record says what is run."""
        algorithm = as_algorithm(self.algorithm or self.name)
        defaults: Any = algorithm.params()
        object.__setattr__(self, "algorithm", algorithm.name)
        object.__setattr__(self, "params", {**defaults._asdict(), **self.params})

    @property
    def goes_on_gpu(self) -> bool:
        """Whether a GPU makes its steps: d^2 numbers for each instance would have it wait for its memory."""
        return self.algorithm != "lstd"


PAPER_METHODS = tuple(map(ProtocolMethod, ("double-chain", "single-chain", "td-lambda", "implicit-td")))
"""The four methods of the paper's table of distances; it calls the last two coupled SA and implicit."""

VARIANCE_REDUCED = (
    ProtocolMethod("vrtd", step_size=0.5),
    ProtocolMethod("vrtd-all-data", "vrtd", step_size=0.5, params={"skip": 1.0}),
)
"""The method that the paper calls much slower, without data; run by one rule for all tasks, without tuning.

The step size is the largest that is safe for feature rows no longer than 1; all parameters are the defaults
of the package, because the constants that its authors would choose are not known to us. Its theory thins a
Markov chain, which leaves three transitions of four unused. Since this decides how slow it is, it is also
run with all transitions.
"""

FLOOR_METHOD = ProtocolMethod("lstd")


@dataclass(frozen=True)
class Protocol:
    """One way to run the study: its methods, its instances and its scores.

    Attributes
    ----------
    name : str
        Its id, which is also that of the features `task` makes for it.
    summary : str
        What is particular about it.
    methods : tuple of ProtocolMethod
        The algorithms; least squares are the floor with which others are compared.
    runs : int
        Instances of each task; an instance has its own features, policy and sample path.
    target : str
        The target of the paper's score: the "bias", or the values of the "paper" fixed point.
    norms : tuple of str
        In which norms errors are stored.
    """

    name: ProtocolName
    summary: str
    methods: tuple[ProtocolMethod, ...]
    runs: int
    target: Target
    norms: tuple[Norm, ...]


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "literal",
            "what the paper's text says: one scale for all features, distances to the bias, three runs",
            (*PAPER_METHODS, *VARIANCE_REDUCED, FLOOR_METHOD),
            3,
            "bias",
            ("euclidean",),
        ),
        Protocol(
            "inferred",
            "what fits the paper's numbers best: each feature row scaled alone, distances to its fixed point",
            (*PAPER_METHODS, *VARIANCE_REDUCED, FLOOR_METHOD),
            3,
            "paper",
            ("euclidean",),
        ),
        Protocol(
            "fair",
            "every method by every measure, budgets in transitions, many instances, least squares as floor",
            (*PAPER_METHODS, ProtocolMethod("relative-td"), *VARIANCE_REDUCED, FLOOR_METHOD),
            30,
            "bias",
            ("euclidean", "stationary"),
        ),
    )
}
"""The protocols by name."""

METHOD_TITLES = {"vrtd-all-data": "Variance-reduced TD, all data"}
"""Titles of methods that are not called by the id of their algorithm."""

METHOD_ORDER = tuple(method.name for method in PROTOCOLS["fair"].methods)
"""All methods of the study in the order in which they are listed and drawn; fair runs them all."""


def method_title(name: str, *, with_id: bool = False) -> str:
    """Return the title of a method in tables and figures; with its id if the paper has a different name.

    Examples
    --------
    >>> method_title("vrtd-all-data"), method_title("lstd"), method_title("td-lambda", with_id=True)
    ('Variance-reduced TD, all data', 'Least squares', 'Coupled SA (td-lambda)')
    """
    if name in METHOD_TITLES:
        return METHOD_TITLES[name]
    return long_title(name) if with_id else short_title(name)


def in_method_order(names: Iterable[str]) -> list[str]:
    """Return names of methods in the order of the study; others come last, in the order given.

    Examples
    --------
    >>> in_method_order(["lstd", "my-own", "vrtd", "single-chain"])
    ['single-chain', 'vrtd', 'lstd', 'my-own']
    """
    places = {name: place for place, name in enumerate(METHOD_ORDER)}
    return sorted(names, key=lambda name: places.get(name, len(places)))


CONDITIONS = ("eta1", "eta2", "eta2_literal", "eta3")
CONDITION_RUNS = 10
"""Condition numbers are computed only for the first instances of a task, because they take long."""

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
        Hash of the code that the result is to come from; by default that of what is installed.
    """

    protocol: str
    task: str
    run: int
    shorten: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    seconds = BATCH_SECONDS  # one at a time
    lane_steps = 0

    def __post_init__(self) -> None:
        """Fill in the code."""
        object.__setattr__(self, "code", self.code or code_of(self.reach))

    @property
    def reach(self) -> Reach:
        """Modules in which the unit begins: this one, and those of its task and of all methods."""
        methods = {ALGORITHM_HOMES[method.algorithm]: None for method in PROTOCOLS[self.protocol].methods}
        return (__name__, TASK_HOMES[self.task], *methods)

    @cached_property
    def id(self) -> str:
        """Hash of everything that determines the result, code and versions included."""
        return hash_of([asdict(self), asdict(PROTOCOLS[self.protocol])])

    @property
    def label(self) -> str:
        """The unit in a few words."""
        return f"{self.protocol}: {self.task} {self.run}"

    @property
    def place(self) -> tuple[str, str, int]:
        """The position of its rows in the tables."""
        return self.protocol, self.task, self.run

    @property
    def companions(self) -> tuple[Any, ...]:
        """What is equal for instances of one task."""
        return self.protocol, self.task, self.shorten, self.settings, self.code

    def compute(self) -> dict[str, Columns]:
        """Run all methods on the instance, and return the columns of all tables."""
        return self.finish(self.begin(), {})

    def begin(self) -> tuple[Task, dict[str, Trace]]:
        """Make the task, and run the methods that no GPU takes."""
        made = task(self.task, seed=self.run, protocol=PROTOCOLS[self.protocol].name, **self.settings)
        methods = PROTOCOLS[self.protocol].methods
        return made, {one.name: self._run(one, made) for one in methods if not one.goes_on_gpu}

    def run_stacked(self, begun: Sequence[tuple[Task, Mapping[str, Trace]]]) -> list[Mapping[str, LaneFound]]:
        """Return by name what methods find on a GPU for some instances of the task.

        Parameters
        ----------
        begun : sequence of tuple
            What `begin` returned for each.
        """
        tasks = [made for made, _ in begun]
        methods = [method for method in PROTOCOLS[self.protocol].methods if method.goes_on_gpu]
        runs = [StackedRun(method.algorithm, **self._choices(method, tasks[0])) for method in methods]
        found = run_stacked(runs, [made.problem for made in tasks], [made.seed for made in tasks])
        names = [method.name for method in methods]
        return [dict(zip(names, lanes, strict=True)) for lanes in found]

    def finish(
        self, begun: tuple[Task, Mapping[str, Trace]], found: Mapping[str, LaneFound]
    ) -> dict[str, Columns]:
        """Return the columns of all tables.

        Parameters
        ----------
        begun : tuple
            What `begin` returned.
        found : mapping of str to LaneFound
            What methods have found; the others are run.

        Returns
        -------
        dict
            Columns of the tables "runs", with a row for each algorithm, checkpoint and measure; "instances"
            and "conditions", with one row; "states", with one for each state, and "values", with one for each
            algorithm and checkpoint. "conditions" has none for later instances, and the last two have
            rows for the first instance of a task with a map only.
        """
        protocol, (made, traces) = PROTOCOLS[self.protocol], begun
        parts, values = [], []
        places = places_of(made) if self.run == 0 else None
        for method in protocol.methods:
            if method.name in found:
                trace = found[method.name].trace(made.problem)
            else:
                trace = traces.get(method.name) or self._run(method, made)
            parts.append(self._rows(method.name, protocol, trace))
            values.append(self._values(method.name, trace, wanted=places is not None))
        return {
            "runs": _joined(parts),
            "instances": self._instance(made),
            "conditions": self._conditions(made),
            "states": self._states(made, places),
            "values": _joined(values),
        }

    def _run(self, method: ProtocolMethod, made: Task) -> Trace:
        choices = self._choices(method, made)
        trace = run(method.algorithm, made.problem, seeds=self.run, threads=1, **choices)
        refuse_interrupted(trace)
        return trace

    def _choices(self, method: ProtocolMethod, made: Task) -> dict[str, Any]:
        """Return how a method is run on any instance of the task."""
        steps, size = self.budget(made)
        return {
            "num_steps": steps,
            "step_size": size if method.step_size is None else method.step_size,
            "params": method.params,
            "checkpoints": _checkpoints(steps),
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
        with np.errstate(over="ignore", invalid="ignore"):  # from a lane that diverges
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
        **circumstances((unit.id for unit in units), command=command, reused=reused, seconds=seconds),
        "shorten": units[0].shorten,
        "settings": dict(settings),
        "condition_instances": CONDITION_RUNS,
        "protocols": {name: _protocol(name, units) for name in dict.fromkeys(u.protocol for u in units)},
        "tasks": {name: _task(name, instances) for name in dict.fromkeys(u.task for u in units)},
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
