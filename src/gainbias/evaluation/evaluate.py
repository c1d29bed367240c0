"""`evaluate` and `evaluate_log`: from an environment or a log to an `Estimate`.

Both open a stream of transitions, read it once, and make an estimate of it: see the module `reading`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from gainbias.algorithms.algorithm import Algorithm
from gainbias.evaluation.another.answer import check_question, evaluate_targets, reading_of, refuse_unasked
from gainbias.evaluation.another.chances import ActionFeatures
from gainbias.evaluation.another.passes import Asked
from gainbias.evaluation.collection import Collection
from gainbias.evaluation.estimate import Estimate
from gainbias.evaluation.observations import Choice
from gainbias.evaluation.reading import (
    Display,
    FollowingPlan,
    check_confidence,
    check_time_limit,
    estimate_of,
    follow,
    opened,
    read,
)
from gainbias.evaluation.sources.columns import Columns, Name, as_columns
from gainbias.evaluation.sources.environments import Environment
from gainbias.evaluation.sources.logs import log_stream
from gainbias.evaluation.sources.policies import Policy
from gainbias.evaluation.stream import OnTermination
from gainbias.evaluation.values.methods import Learning, NoLearning, as_learning, value_method
from gainbias.kernels import count_threads, using_threads
from gainbias.progress import Interruptions, Watch

USUAL_STEPS = 100_000
MOST_STEPS = 10_000_000
"""Most steps on the way to a half width, unless the user gives another number."""


def evaluate(
    env: Environment,
    policy: Policy,
    *,
    features: Choice = "auto",
    algorithm: Learning | Algorithm | str = "auto",
    num_steps: int | None = None,
    target_half_width: float | None = None,
    anytime: bool = False,
    chains: int | None = None,
    seed: int = 0,
    on_termination: OnTermination = "zero",
    duration: str | None = None,
    confidence: float = 0.95,
    time_limit: float | None = None,
    deterministic: bool | None = None,
) -> Estimate:
    """Estimate what a policy earns per step in the long run, and which states are good, with intervals.

    Parameters
    ----------
    env : gymnasium.Env, str, gymnasium.vector.VectorEnv, VecEnv or callable
        An environment, its id, a vector environment of Gymnasium or Stable-Baselines3, or a function without
        arguments that makes one of these. Time limits are removed: the policy is followed forever.
    policy : callable, object with a method predict, array_like or "random"
        A function from an observation to an action (for a vector environment: from all observations to all
        actions); an agent such as those of Stable-Baselines3; a PyTorch module, whose output is an action,
        or logits of discrete actions; for discrete observations the action of each, or the probability of
        each action, (n, A); or ``"random"``.
    features : str, FeatureMap, Tabular, callable, or (n, d) array or sparse array
        ``"auto"`` makes each discrete observation a state and chooses a map for boxes; if there is none,
        as for images, the answer is the gain alone, and a note says so. With `Tabular`, the integers in a
        box that turn up are also states. ``"tiles"``, ``"fourier"``,
        ``"radial"`` and ``"polynomial"`` name a map of the package, with bounds from the space; its settings
        may follow, as in ``"tiles,8,4"`` for 8 tiles in each of 4 tilings. A function takes
        observations (m, ...) and returns rows of features (m, d). A matrix has a row for each discrete
        observation. Features may have any scale.
    algorithm : str, Algorithm or Learning
        How values are learned. ``"auto"`` is least squares for up to 500 features, or 3,000 that are sparse
        or tabular, and otherwise centred-td. `Learning` also sets the step sizes and parameters of an
        algorithm that learns step by step.
    num_steps : int, optional
        Transitions of all chains together, by default 100,000. With `target_half_width`, the most
        transitions, by default 10,000,000.
    target_half_width : float, optional
        Continue until the interval of the gain reaches no further than this to either side. These are
        intervals as with `anytime`, so stopping at a good moment does not spoil them.
    anytime : bool
        Whether you may look again, at a longer run with the same seed, and stop when you like what you see:
        then intervals of the gain, also those of `Estimate.history`, hold for all looks together. They are
        about 1.5 times as wide, and there is none before the run is long enough for a first look.
    chains : int, optional
        Independent copies of the environment. By default four where they can be made: not if an environment
        object is given together with a function, which may look at it.
    seed : int
        Of environments and actions. The same seed gives the same answer if environment and policy take all
        their random numbers from Gymnasium's generators.
    on_termination : {"zero", "reward"}
        Whether the end of an episode leads back to the start by an extra step with reward 0, or by the last
        step itself, with its reward.
    duration : str, optional
        The key under which the dictionary that `step` returns last says how long the step took. The answer
        is then per unit of time. The extra step from the end of an episode back to the start takes no time.
    confidence : float
        Nominal coverage of the intervals.
    time_limit : float, optional
        Seconds, after which the estimate is made from the data so far.
    deterministic : bool, optional
        Whether an agent or a module takes its best action, which is the default, or draws one. A note says
        which it did.

    Returns
    -------
    Estimate
        Also if the run was cut short by Ctrl-C, by the time limit or by an error in environment or policy:
        then `diagnostics.warnings` begins with the reason.

    Raises
    ------
    ValueError
        If an argument is wrong, or if something goes wrong before there is anything to estimate.

    Examples
    --------
    >>> import gainbias as gb
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=40_000)
    >>> estimate.features
    'tabular: a state for each of 16 observations, and one for ends'
    >>> estimate.gain_interval[0] < estimate.gain < estimate.gain_interval[1]
    True
    """
    if num_steps is None:
        num_steps = USUAL_STEPS if target_half_width is None else MOST_STEPS
    plan = FollowingPlan(
        features=features,
        learning=as_learning(algorithm),
        num_steps=num_steps,
        target_half_width=target_half_width,
        chains=chains,
        seed=seed,
        on_termination=on_termination,
        confidence=confidence,
        anytime=anytime,
        deterministic=deterministic,
        duration=duration,
    )
    check_time_limit(time_limit)
    plan.check()
    sequence = plan.sequence()
    with Watch(time_limit) as watch, Interruptions() as interruptions:
        collection, cut = follow(env, policy, plan, watch, interruptions, sequence=sequence)
        if sequence is not None and sequence.first_look is None and not anytime:
            sequence = None  # the run ended before its first look, so this is the only one
        return estimate_of(collection, confidence, cut, sequence)


def evaluate_log(
    log: Any,
    *,
    state: Name | None = None,
    reward: str | None = None,
    reward_rate: str | None = None,
    time: str | None = None,
    duration: str | None = None,
    end: Any = None,
    per: str | float | None = None,
    columns: Columns | Mapping[str, Name] | None = None,
    features: Choice | ActionFeatures = "auto",
    algorithm: Learning | Algorithm | str = "auto",
    action: str | None = None,
    policy: Policy | None = None,
    behaviour: Policy | str | None = None,
    ratio_features: Choice | ActionFeatures | None = None,
    discount: float | None = None,
    num_states: int | None = None,
    gaps: Literal["error", "break"] = "error",
    on_termination: OnTermination = "zero",
    confidence: float = 0.95,
    time_limit: float | None = None,
    threads: int | None = None,
) -> Estimate:
    """Estimate gain and values from a log of what a policy did, of that policy or of another one.

    With `policy` the answer is what that policy would have earned, although it never ran; otherwise it is
    for the policy that made the log.

    The gain is per row, or with `time` or `duration` per unit of time. If neither is given, columns that look
    like times are not used: a note names each, and a warning says if rows are not evenly spaced by one,
    because the mean per unit of time may then be different.

    Parameters
    ----------
    log : mapping, tuple of arrays, list of records, table, path or dataset
        Columns by name; ``(states, rewards)`` or ``(states, rewards, next)``; a list of named tuples, data
        classes, dictionaries or (time, value) pairs; a pandas, polars or PyArrow table; the path of a
        Parquet file, of a folder of them, of a CSV file or of JSON lines (.jsonl, .ndjson), which may be
        larger than memory, or of a file that `read_requests` reads; or a Minari dataset.
        Rows are in order of time. A row has a state, the reward of the step out of it, and perhaps where
        that step led; otherwise it led to the state of the next row, unless an episode was over.
    state : str or tuple of str, optional
        Column of states, or several columns that together are the state; by default one with a usual name,
        such as "state" or "observation". Without states the answer is the gain alone, without values; see
        also `evaluate_series`.
    reward : str, optional
        Column of rewards, by default "reward". With times it is what is paid at once, and may be missing if
        there is a `reward_rate`.
    reward_rate : str, optional
        Column of rewards per unit of time, the same unit as that of the answer: the rate of a row is paid for
        as long as the row lasts.
    time, duration : str, optional
        Column that says when each row begins, which then lasts until the next row of the same episode begins;
        or column that says how long each row lasts. Give only one of them; it has numbers, dates or ISO
        texts. A row counts if its duration is known. A pandas index without a name is called "(index)".
    end : number, date or str, optional
        When the last row ended. Without it that row is not counted. It is also the end of the last row of
        every episode after which `time` restarts.
    per : str or number, optional
        Unit of time. For dates "second", "minute", "hour", "day" or "week", by default "hour". For plain
        numbers, how many of their units make one, by default one.
    columns : Columns or mapping, optional
        Columns of next states, episodes, their ends and steps, as in ``{"episode": "run"}``. Those with usual
        names, such as "next_state", "episode" and "terminated", are found automatically, and none is
        required.
    features, algorithm, on_termination, confidence, time_limit
        As for `evaluate`. States that are single integers are discrete, from 0. For another policy
        `algorithm` is ``"auto"``, or for comparison ``"model"``, ``"ratio"`` or ``"importance-sampling"``.
    action : str, optional
        Column of actions, integers from 0. Only the answer for another policy needs it.
    policy : callable, object with a method predict, array_like or "random", optional
        The policy in question, as for `evaluate`; one that draws its actions is given by the
        probabilities of all actions, (n, A), or a function that returns them.
    behaviour : str, callable, object with a method predict or array_like, optional
        The policy that made the log, if it is known, or the column of the probabilities with which it took
        its actions. It is only compared with the log; the answer does not need it.
    ratio_features : as features, or ActionFeatures, optional
        If the answer for another policy uses features: those of the density ratio, by default the same as
        those of values. The answer is right if either are rich enough, so different ones are a second chance.
        Features of observations become features of actions by a block for each action; `ActionFeatures` are
        functions of both, and the only way for continuous actions.
    discount : float, optional
        Between 0 and 1: values are then discounted sums of rewards, row by row, in which the end of an
        episode is worth nothing. The gain does not change.
    num_states : int, optional
        Number of discrete states. Without it the log is read a first time to find the largest.
    gaps : {"error", "break"}
        What to do if a row does not follow from the one before it, by the columns of next states, steps or
        episodes.
    threads : int, optional
        How many threads share the work on a long log, at most; the number changes no result. By default one
        for each core that this process may use, or as many as GAINBIAS_THREADS in the environment says. The
        answer for another policy is computed by one.

    Returns
    -------
    Estimate
        If a row is wrong, the estimate is made from the rows before it, and `diagnostics.warnings` begins
        with the reason.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> states = np.random.default_rng(0).integers(0, 2, 10_000)
    >>> estimate = gb.evaluate_log({"state": states, "reward": 1.0 * states})
    >>> round(estimate.gain, 1), round(estimate.value(1) - estimate.value(0), 1)
    (0.5, 1.0)

    What would another policy have earned? The log takes both actions at random; the policy always takes 1.

    >>> actions = np.random.default_rng(1).integers(0, 2, 10_000)
    >>> log = {"state": states, "a": actions, "reward": states + 1.0 * actions}
    >>> other = gb.evaluate_log(log, action="a", policy=[1, 1])
    >>> other.gain_interval[0] < 1.5 < other.gain_interval[1], round(estimate.gain, 1)
    (True, 0.5)

    A queue, logged at its events: how many are there on average, not per row but over time?

    >>> log = {"at": [0.0, 2.0, 3.0, 7.0, 8.0], "queue": [0, 1, 2, 1, 0]}
    >>> gb.evaluate_log(log, time="at", reward_rate="queue", end=10.0).gain
    1.0
    """
    check_confidence(confidence)
    check_time_limit(time_limit)
    learning, others = as_learning(algorithm), as_columns(columns)
    count = count_threads(threads)
    if policy is not None:
        check_question(log, action, learning, duration if time is None else time, discount)
        reading, made_by = reading_of(
            log,
            action=action,
            behaviour=behaviour,
            state=state,
            reward=reward,
            reward_rate=reward_rate,
            time=time,
            duration=duration,
            end=end,
            per=per,
            columns=columns,
            features=features,
            num_states=num_states,
            gaps=gaps,
            on_termination=on_termination,
        )
        chosen = str(learning.algorithm)
        asked = Asked([policy], made_by, ratio_features, discount, chosen, confidence, time_limit)
        [estimate], _ = evaluate_targets(reading, asked)
        return estimate
    refuse_unasked(action=action, behaviour=behaviour, ratio_features=ratio_features, discount=discount)
    if isinstance(features, ActionFeatures):
        raise ValueError("ActionFeatures are for another policy than the one that made the log: policy=...")
    with using_threads(count), Watch(time_limit) as watch, Interruptions() as interruptions:
        with opened(
            interruptions,
            lambda: log_stream(
                log,
                features=features,
                state=state,
                reward=reward,
                reward_rate=reward_rate,
                time=time,
                duration=duration,
                end=end,
                per=per,
                num_states=num_states,
                gaps=gaps,
                on_termination=on_termination,
                **asdict(others),
            ),
        ) as stream:
            if stream.has_states:
                stream.notes.append("the answer is for the policy that made the log")
            learned = partial(value_method, learning, stream.observed, stream.is_timed)
            method = learned if stream.has_states else NoLearning
            display = Display(watch)
            collection = Collection(stream, method, interruptions, display.show)
            cut = read(collection, None, display)
        return estimate_of(collection, confidence, cut)
