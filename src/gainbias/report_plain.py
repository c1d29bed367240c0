"""Answers as JSON."""

from __future__ import annotations

import json
from typing import Any

from gainbias.plain import plain


def as_json(answer: Any) -> str:
    """Return an answer as JSON, with null for numbers that JSON does not have.

    Examples
    --------
    >>> print(as_json({"gain": float("nan")}))
    {
      "gain": null
    }
    """
    return json.dumps(plain(answer), indent=2, allow_nan=False)
