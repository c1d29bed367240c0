"""Answers that JSON can hold."""

from __future__ import annotations

import math
from typing import Any


def plain(answer: Any) -> Any:
    """Return an answer with ``None`` for numbers that JSON does not have: infinite ones, and nan.

    Examples
    --------
    >>> plain({"interval": (0.5, float("inf")), "share": float("nan")})
    {'interval': [0.5, None], 'share': None}
    """
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [plain(value) for value in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer
