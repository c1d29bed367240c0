"""From a log and other policies to estimates: which model is used, and both readings.

Start with `evaluate_targets`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import comb
from numbers import Real
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.another.chances import (
    MOST_PAIR_FEATURES,
    ActionFeatures,
    Chances,
    PairFeatures,
    chances_of,
    table_width,
)
from gainbias.evaluation.another.counted import Alone, Counting
from gainbias.evaluation.another.fitted import Fitting
from gainbias.evaluation.another.linear import durations_of
from gainbias.evaluation.another.passes import Asked, FirstReading, GivenChances, LogReading, Passing
from gainbias.evaluation.another.record import NoAnswer, widened
from gainbias.evaluation.estimate import Estimate
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import GainEstimate, check_divisor, estimate_gain
from gainbias.evaluation.observations import ObservationMap, observation_map
from gainbias.evaluation.reading import Display
from gainbias.evaluation.sources.columns import Columns, Name, as_columns
from gainbias.evaluation.sources.logs import OpenLog
from gainbias.evaluation.sources.spaces import Limits
from gainbias.evaluation.stream import (
    STEP,
    BrokenStream,
    ObservedSteps,
    OnTermination,
    Timed,
    check_on_termination,
    peeked,
)
from gainbias.evaluation.values.methods import Learning
from gainbias.progress import Interruptions, Watch

TARGET_METHODS = ("auto", *get_args(Alone))
"""How the answer is computed; all methods except the first are for comparison."""

AUTOMATIC_PAIR_FEATURES = 300
"""Most features of state-actions that are chosen automatically."""

MOST_ACTIONS = 100_000
"""Most actions that are told apart: the probabilities of all of them are kept for each state."""

HIGH_DEGREE, HIGH_DEGREE_FEATURES = 5, 100
"""Highest degree of polynomials that are chosen automatically, and most features for one above 3: a degree of
3 is too poor for one or two numbers, and a higher one has too many features for four."""


def evaluate_targets(reading: LogReading, asked: Asked) -> tuple[list[Estimate], GainEstimate | None]:
    """Return an estimate for each policy, and one of the difference of the gains of the first two."""
    half = None if asked.time_limit is None else asked.time_limit / 2.0
    with Interruptions() as interruptions:
        with Watch(half) as watch:
            first, gathering = _first_reading(reading, asked, Passing(interruptions, Display(watch)))
            if first.unit != STEP:
                check_divisor(first.duration / first.steps)
            try:
                answers: list[Any] = list(gathering.answers(first, asked, reading))
            except NoAnswer as error:
                raise NoAnswer(f"{first.cut.words}; {error}" if first.cut else str(error)) from None
        with Watch() as watch:
            difference = BatchMeans() if len(answers) > 1 else None

            def take(steps: ObservedSteps) -> None:
                terms = [answer.add(steps) for answer in answers]
                if difference is not None:
                    difference.add(terms[0] - terms[1])

            opened = reading.opened([], [], num_actions=first.num_actions or None)
            source = Timed(opened.pieces)
            again = reading.steps(opened, source, [], first.steps)
            second = Passing(interruptions, Display(watch))
            second.over(again, take)
            if second.steps != first.steps:  # interrupted, or another log
                raise ValueError(
                    f"the second reading of the log ended after {second.steps:,} of {first.steps:,} "
                    "transitions, and there is no interval without it: let it end, and let the log be"
                )
        first.seconds.append(source.seconds)
    estimates = [answer.estimate() for answer in answers]
    if difference is None:
        return estimates, None
    plain = answers[0].unweighted
    apart = estimate_gain(difference, asked.confidence, find_warm_up=False, unweighted=plain)
    unknown = float(np.hypot(*(answer.unknown_error() for answer in answers[:2])))
    return estimates, widened(apart, max(answer.widening() for answer in answers[:2]), unknown)


def _first_reading(
    reading: LogReading, asked: Asked, passing: Passing
) -> tuple[FirstReading, Counting | Fitting]:
    """Read a log for the first time."""
    started, notes = time.perf_counter(), list[str]()
    warnings: list[str] = []
    widths = [table_width(policy) for policy in (*asked.policies, asked.behaviour) if policy is not None]
    known = [width for width in widths if width is not None]
    opened = reading.opened(notes, warnings, num_actions=min(known) if known else None)
    if not opened.has_states:
        raise ValueError("another policy needs states: say which column has them, state=...")
    num_actions = _number_of_actions(opened, reading.features)
    source = Timed(opened.pieces)
    first, pieces = peeked(source)
    observed = _observed(opened.limits, reading, num_actions, first.observations)
    gathering: Counting | Fitting
    if observed.is_tabular and not isinstance(reading.features, ActionFeatures):
        if asked.ratio_features is not None:
            raise ValueError(
                "ratio_features are for features, and states are counted here: pass features too, or leave "
                "out ratio_features"
            )
        gathering = Counting(observed, num_actions)
    else:
        gathering = _fitting(observed, opened.limits, reading, asked, num_actions, first.observations, notes)
    column = reading.options["columns"].get("chance")
    given = None if column is None or not num_actions else GivenChances(column, num_actions)
    duration = 0.0

    def take(steps: ObservedSteps) -> None:
        nonlocal duration
        gathering.add(steps)
        if given is not None:
            given.add(steps)
        duration += float(durations_of(steps).sum())

    cut = passing.over(reading.steps(opened, pieces, notes), take)
    warnings += [] if given is None else given.warnings()
    record = FirstReading(
        observed,
        num_actions,
        passing.steps,
        cut,
        notes,
        warnings,
        opened.unit,
        duration,
        [source.seconds],
        started,
    )
    return record, gathering


def _number_of_actions(opened: OpenLog, features: Any) -> int:
    """Return the number of actions in the log; 0 if they are continuous, which features then handle."""
    limits = opened.actions
    if limits is not None and limits.whole and not limits.shape:
        if limits.high >= MOST_ACTIONS:
            raise ValueError(
                f"actions go up to {limits.high:,.0f}, and at most {MOST_ACTIONS:,} are told apart: number "
                "them from 0, for example with pandas.factorize"
            )
        return int(limits.high) + 1
    if limits is not None and isinstance(features, ActionFeatures) and features.expected is not None:
        return 0
    raise ValueError(
        f"actions must be integers from 0, in one column{_first_that_is_none(opened)}: number other things, "
        "for example with pandas.factorize; for continuous actions pass features=gb.ActionFeatures(features, "
        "expected)"
    )


def _first_that_is_none(opened: OpenLog) -> str:
    """Return in words the first action of a log that is not an integer, with its row."""
    try:
        for piece in opened.pieces:
            actions = piece.beside["action"]
            if actions.ndim > 1:
                return f", found {actions.shape[1]} columns"
            if (wrong := np.flatnonzero((actions != np.floor(actions)) | (actions < 0.0))).size:
                return f", found {actions[wrong[0]]:g} in row {piece.beside['row'][wrong[0]]}"
    except BrokenStream as error:
        return f" ({error})"
    return ", found whole numbers that are stored as floats: store them as integers"


def _observed(limits: Limits, reading: LogReading, num_actions: int, first: NDArray[Any]) -> ObservationMap:
    """Return how observations become states, or features."""
    features = reading.features
    if isinstance(features, ActionFeatures):
        features = "auto" if limits.whole else "polynomial,1"  # only its limits are used
    elif not limits.whole and isinstance(features, str) and features == "auto":
        return _automatic(limits, reading, num_actions, first)
    return observation_map(limits, features, first, reading.on_termination)


def _automatic(limits: Limits, reading: LogReading, num_actions: int, first: NDArray[Any]) -> ObservationMap:
    """Return polynomials of a degree for which the features of all actions are not too many."""
    numbers = int(np.prod(limits.shape))
    for degree in range(HIGH_DEGREE, 0, -1):
        most = MOST_PAIR_FEATURES if degree == 1 else AUTOMATIC_PAIR_FEATURES
        if comb(numbers + degree, degree) * num_actions <= (HIGH_DEGREE_FEATURES if degree > 3 else most):
            return observation_map(limits, f"polynomial,{degree}", first, reading.on_termination)
    raise ValueError(
        f"observations of {numbers} numbers and {num_actions} actions are too many to choose features "
        "automatically: pass features, a function from observations (m, ...) to rows of features (m, d)"
    )


def _fitting(
    observed: ObservationMap,
    limits: Limits,
    reading: LogReading,
    asked: Asked,
    num_actions: int,
    first: NDArray[Any],
    notes: list[str],
) -> Fitting:
    given = reading.features if isinstance(reading.features, ActionFeatures) else None
    values, ratios = [], []
    for policy in asked.policies:
        chances: Chances | None = None
        if num_actions:
            chances = chances_of(policy, limits, num_actions, "the policy", notes)
        values.append(PairFeatures(observed, given, chances, num_actions))
        ratio, other = asked.ratio_features, observed
        if ratio is None:
            own = (
                values[-1] if given is not None else PairFeatures(observed, None, chances, num_actions, True)
            )
            ratios.append(own)
            continue
        if not isinstance(ratio, ActionFeatures):
            other = _observed(limits, replace(reading, features=ratio), num_actions, first)
            if other.is_tabular:
                raise ValueError("ratio_features must be features, found discrete states: pass a matrix")
        asked_for = ratio if isinstance(ratio, ActionFeatures) else None
        ratios.append(PairFeatures(other, asked_for, chances, num_actions))
    behaviour = None
    if asked.behaviour is not None and not isinstance(asked.behaviour, str) and num_actions:
        behaviour = chances_of(asked.behaviour, limits, num_actions, "the behaviour", notes)
    return Fitting(values, ratios, num_actions, behaviour)


def reading_of(
    log: Any,
    *,
    action: str | None,
    behaviour: Any = None,
    state: Name | None = None,
    reward: str | None = None,
    reward_rate: str | None = None,
    time: str | None = None,
    duration: str | None = None,
    end: Any = None,
    per: str | float | None = None,
    columns: Columns | Mapping[str, Name] | None = None,
    features: Any = "auto",
    num_states: int | None = None,
    gaps: str = "error",
    on_termination: OnTermination = "zero",
) -> tuple[LogReading, Any]:
    """Return how a log is read, and the behaviour if it is a policy, given arguments of `evaluate_log`."""
    check_on_termination(on_termination)
    named = asdict(as_columns(columns))
    named["next"] = named.pop("next_state")
    given = {"state": state, "reward": reward, "reward_rate": reward_rate, "action": action, **named}
    if isinstance(behaviour, str) and behaviour != "random":
        given["chance"], behaviour = behaviour, None
    options = {"columns": given, "time": time, "duration": duration, "end": end, "per": per}
    options |= {"num_states": num_states, "gaps": gaps}
    return LogReading(log, options, features, on_termination), behaviour


def check_question(
    log: Any, action: str | None, learning: Learning, clock: str | None, discount: float | None
) -> None:
    """Refuse a question about another policy that cannot be answered."""
    if action is None and not hasattr(log, "iterate_episodes"):
        raise ValueError(
            "policy is another policy than the one that made the log, so the actions in the log must be "
            "known: say which column has them, action=..."
        )
    if learning.algorithm not in TARGET_METHODS:
        raise ValueError(
            f"for another policy algorithm must be one of {', '.join(map(repr, TARGET_METHODS))}, found "
            f"{learning.algorithm!r}"
        )
    if discount is None:
        return
    if not (isinstance(discount, Real) and 0.0 <= discount < 1.0):
        raise ValueError(f"discount must be at least 0 and below 1, found {discount!r}")
    if clock is not None:
        raise ValueError("discount is per row, and rows last for different times: leave out one of them")


def refuse_unasked(**arguments: Any) -> None:
    """Refuse arguments that are for another policy if there is none."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"{name} is for another policy than the one that made the log: say which, policy=..., or "
                f"leave out {name}"
            )
