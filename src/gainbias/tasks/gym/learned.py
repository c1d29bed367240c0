"""From a table of episodes to the paper's chain: learn a policy, join the episodes, smooth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.gym.continuing import continuing
from gainbias.tasks.gym.q_learning import LearnedPolicy, q_learning
from gainbias.tasks.gym.smoothing import ergodic
from gainbias.tasks.gym.table import TransitionTable, scalarise
from gainbias.tasks.settings import as_numbers, as_seed
from gainbias.tasks.task import MakeProcess, Settings, Source

LEARNING: Settings = MappingProxyType(
    {
        "episodes": 10_000,
        "learning_rate": 0.1,
        "discount": 0.99,
        "exploration": 0.1,
        "initial_value": 0.0,
        "max_steps": 1_000,
    }
)
"""Settings of Q-learning, which the paper does not tell; tasks change some."""


@dataclass(frozen=True)
class Model:
    """A table, plain facts about where it came from, and what the components of its rewards count."""

    table: TransitionTable
    source: Source
    weights: tuple[float, ...] | None = None


def learned_process(read: Callable[[], Model]) -> MakeProcess:
    """Return the maker of processes for a recipe whose settings include those of `LEARNING`.

    Parameters
    ----------
    read : callable
        Returns the model; called once.
    """
    model = cache(read)

    @lru_cache(maxsize=16)
    def table(weights: tuple[float, ...] | None) -> TransitionTable:
        return model().table if weights is None else scalarise(model().table, weights)

    @lru_cache(maxsize=1024, typed=True)  # 1 and True are the same key otherwise
    def policy(weights: tuple[float, ...] | None, **learning: Any) -> LearnedPolicy:
        return q_learning(table(weights), **learning)

    def make(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
        weights = _weights(settings.get("weights"), model().weights)
        learning = {name: settings[name] for name in LEARNING}
        learning["seed"] = seed
        if settings["policy_seed"] is not None:
            learning["seed"] = as_seed(settings["policy_seed"], "policy_seed")
        learned = policy(weights, **learning)
        if not learned.always_ends:
            raise ValueError(
                f"the policy that was learned with seed {learning['seed']} from {settings['episodes']} "
                "episodes may go on for ever: learn from more episodes, or explore more"
            )
        chain = continuing(table(weights), learned.actions, states="all", endings="restart")
        source = {**model().source, "table": model().table.fingerprint}
        if weights is not None:
            source["weights"] = weights
        return ergodic(chain, settings["epsilon"]), source

    return make


def _weights(given: Any, default: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return default if given is None else tuple(as_numbers(given, "weights"))
