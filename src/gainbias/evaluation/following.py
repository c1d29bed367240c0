"""Following a policy in an environment by a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gainbias.algorithms.algorithm import Algorithm
from gainbias.evaluation.observations import Choice
from gainbias.evaluation.reading import FEWEST_STEPS, Display, check_confidence, check_target, opened, read
from gainbias.evaluation.sources.environments import environment_stream
from gainbias.evaluation.sources.environments_opening import Environment
from gainbias.evaluation.sources.policies import Policy
from gainbias.evaluation.stream.collection import Collection
from gainbias.evaluation.stream.stream import OnTermination, check_counts
from gainbias.evaluation.values.methods import value_method
from gainbias.features.matrix import FloatArray
from gainbias.interruptions import Interruptions
from gainbias.progress import Watch

BATCH = 1024
"""Steps of each chain between two looks at the clock."""


@dataclass(frozen=True)
class Plan:
    """How a policy is followed; the attributes are the arguments of `evaluate`."""

    features: Choice
    algorithm: Algorithm | str
    num_steps: int
    target_half_width: float | None
    max_steps: int
    chains: int | None
    seed: int
    on_termination: OnTermination
    confidence: float
    step_size: Any
    params: Mapping[str, float] | None

    def check(self) -> None:
        """Refuse what is wrong before anything is made."""
        counts = {"num_steps": self.num_steps, "max_steps": self.max_steps}
        check_counts(**counts, chains=1 if self.chains is None else self.chains)
        check_confidence(self.confidence)
        check_target(self.target_half_width)


def follow(
    env: Environment,
    policy: Policy,
    plan: Plan,
    watch: Watch,
    interruptions: Interruptions,
    hear: Callable[[FloatArray], None] | None = None,
) -> tuple[Collection, list[str]]:
    """Follow a policy, and return what was read, and in words why it ended before its goal.

    All rewards are passed on to `hear`, (chains, count) at a time.
    """
    plan.check()
    display = Display(watch)

    def make() -> Any:
        return environment_stream(
            env,
            policy,
            features=plan.features,
            copies=plan.chains,
            seed=plan.seed,
            on_termination=plan.on_termination,
            batch_size=BATCH,
            beat=display.beat,
        )

    with opened(interruptions, make) as stream:
        most = plan.num_steps if plan.target_half_width is None else plan.max_steps
        per_chain = max(FEWEST_STEPS, -(-most // stream.num_chains))
        method = partial(
            value_method, plan.algorithm, stream.observed, step_size=plan.step_size, params=plan.params
        )
        display.begin(per_chain, stream.num_chains)
        collection = Collection(stream, method, interruptions, display.show, hear)
        return collection, read(collection, per_chain, plan.confidence, plan.target_half_width, display)
