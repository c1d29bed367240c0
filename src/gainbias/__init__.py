"""What a policy is worth in the long run: the gain and the bias of Markov reward processes.

The public names below are imported on first use (PEP 562), so that ``import gainbias`` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ConvergenceError": "gainbias.model.solution",
    "MarkovRewardProcess": "gainbias.model.process",
    "MultichainSolution": "gainbias.model.solution",
    "Problem": "gainbias.model.problem",
    "Solution": "gainbias.model.solution",
    "Structure": "gainbias.model.structure",
    "Tabular": "gainbias.features",
    "solve": "gainbias.model.solve",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gainbias' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
