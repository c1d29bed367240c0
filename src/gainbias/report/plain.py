"""Answers as JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def as_json(answer: Any) -> str:
    """Return an answer as JSON, with null for numbers that JSON does not have.

    Examples
    --------
    >>> print(as_json({"gain": float("nan")}))
    {
      "gain": null
    }
    """
    return json.dumps(_plain(answer), indent=2, allow_nan=False)


def _plain(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: _plain(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_plain(value) for value in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer
