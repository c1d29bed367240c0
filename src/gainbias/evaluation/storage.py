"""Estimates in files: one .npz archive with nothing that could be executed, checked when it is read.

An archive holds arrays and a member ``record`` with the rest as JSON. Arrays are named by their place in the
record: ``learned.weights`` and so on. A sparse matrix is stored in parts.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.evaluation.another.record import Alternative, Overlap, Place, Target
from gainbias.evaluation.diagnostics import Diagnostics
from gainbias.evaluation.estimate import Estimate, History
from gainbias.evaluation.gain.quantiles import QuantileEstimate
from gainbias.evaluation.gain.verdict import Verdict
from gainbias.evaluation.observations import Choice, ObservationMap, observation_map, seen_states
from gainbias.evaluation.series_estimate import SeriesDiagnostics, SeriesEstimate
from gainbias.evaluation.sources.spaces import Leaf, Limits
from gainbias.evaluation.stream import STEP, OnTermination
from gainbias.evaluation.values.learner import LearnedValues
from gainbias.evaluation.values.least_squares import ValueEstimate
from gainbias.evaluation.values.methods import NoValues
from gainbias.features.maps import FeatureMap, FourierBasis, PolynomialBasis, RadialBasis, TileCoding
from gainbias.features.matrix import Tabular
from gainbias.store import DamagedError, write_whole

KIND = "gainbias estimate"
SERIES_KIND = "gainbias series"
VERSION = 2
ARCHIVE = b"PK"
"""The first bytes of every archive."""

RECORDS = {
    record.__name__: record
    for record in (
        Alternative,
        Diagnostics,
        History,
        Leaf,
        LearnedValues,
        Limits,
        NoValues,
        Overlap,
        Place,
        QuantileEstimate,
        SeriesDiagnostics,
        SeriesEstimate,
        Target,
        ValueEstimate,
        Verdict,
    )
}
MAPS = {made.__name__: made for made in (FourierBasis, PolynomialBasis, RadialBasis, TileCoding)}

Arrays = dict[str, Any]


def save_estimate(estimate: Estimate, path: Path) -> None:
    """Write an estimate to a file, whole or not at all."""
    arrays: Arrays = {}
    if estimate.target is not None:  # functions are not stored
        estimate = replace(estimate, target=replace(estimate.target, pair_rows=None))
    observed = estimate.observed
    record = {
        "gain": estimate.gain,
        "gain_interval": list(estimate.gain_interval),
        "confidence": estimate.confidence,
        "per": estimate.per,
        **{
            name: _packed(getattr(estimate, name), name, arrays)
            for name in ("diagnostics", "history", "learned", "target")
        },
        "limits": _packed(observed.limits, "limits", arrays),
        "features": _packed_choice(observed, arrays),
    }
    write_archive(path, KIND, VERSION, record, arrays)


def save_series(estimate: SeriesEstimate, path: Path) -> None:
    """Write an estimate of a series to a file, whole or not at all."""
    arrays: Arrays = {}
    write_archive(path, SERIES_KIND, VERSION, _packed(estimate, "series", arrays), arrays)


def load_estimate(path: str | Path, features: Any = None) -> Estimate:
    """Read an estimate that `Estimate.save` wrote.

    Parameters
    ----------
    path : str or Path
    features : callable, optional
        The function from observations to features with which the estimate was made, if it was one: it is not
        in the file.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        If the file is damaged, is something else, or was written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> estimate = gb.evaluate_log({"state": [0, 1] * 500, "reward": [1.0, 3.0] * 500})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimate.save(f"{folder}/estimate.npz")
    ...     again = gb.load_estimate(f"{folder}/estimate.npz")
    >>> again.gain, again.value(0) == estimate.value(0)
    (1.998998998998999, True)
    """
    record, arrays = _read(Path(path))
    limits = _unpacked(record["limits"], arrays)
    return _estimate(record, arrays, _observed(record["features"], limits, arrays, features))


def load_series(path: str | Path) -> SeriesEstimate:
    """Read an estimate of a series that `SeriesEstimate.save` wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    SeriesEstimate

    Raises
    ------
    ValueError
        If the file is damaged, is something else, or was written by another version.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> estimate = gb.evaluate_series([1.0, 3.0, 2.0, 5.0] * 100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimate.save(f"{folder}/series.npz")
    ...     gb.load_series(f"{folder}/series.npz").to_dict() == estimate.to_dict()
    True
    """
    record, arrays = read_archive(Path(path), SERIES_KIND, VERSION, "SeriesEstimate.save")
    found: SeriesEstimate = _unpacked(record, arrays)
    return found


def load_to_show(path: str | Path) -> Estimate | SeriesEstimate:
    """Read an estimate to show it; it has no values if its features are a function, which is not stored."""
    if _kind(Path(path)) == SERIES_KIND:
        return load_series(path)
    record, arrays = _read(Path(path))
    facts, limits = record["features"], _unpacked(record["limits"], arrays)
    if facts["kind"] != "function":
        return _estimate(record, arrays, _observed(facts, limits, arrays, None))
    estimate = _estimate(
        record,
        arrays,
        ObservationMap(facts["description"], facts["num_features"], limits, scale=facts["scale"]),
    )
    reason = "their features are a function, which the file of an estimate does not contain"
    return replace(estimate, learned=NoValues(facts["num_features"], (reason,)))


def _estimate(record: dict[str, Any], arrays: Arrays, observed: ObservationMap) -> Estimate:
    return Estimate(
        gain=record["gain"],
        gain_interval=tuple(record["gain_interval"]),
        confidence=record["confidence"],
        **{name: _unpacked(record[name], arrays) for name in ("diagnostics", "history", "learned")},
        observed=observed,
        per=record.get("per", STEP),
        target=_unpacked(record.get("target"), arrays),
    )


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    return read_archive(path, KIND, VERSION, "Estimate.save")


def write_archive(path: Path, kind: str, version: int, record: dict[str, Any], arrays: Arrays) -> None:
    """Write a record of this kind and its arrays to one file, with a checksum."""
    head = {"kind": kind, "version": version, "checksum": _checksum(record, arrays), "record": record}
    buffer = io.BytesIO()
    np.savez(buffer, record=np.array(json.dumps(head)), **arrays)
    write_whole(path, buffer.getvalue())


def read_archive(path: Path, kind: str, version: int, writer: str) -> tuple[dict[str, Any], Arrays]:
    """Return the record and the arrays of a file, if they are what `writer` wrote."""
    what = kind.removeprefix("gainbias ")
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    try:
        content = path.read_bytes()
        if not content.startswith(ARCHIVE):  # NumPy would take it for a pickle, and say how to load that
            raise ValueError("it is not an archive")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = dict(archive)
        head = json.loads(str(arrays.pop("record", "{}")))
    except Exception as error:  # NumPy may raise anything where bits are wrong
        raise DamagedError(f"{path} is damaged, or no {what} of gainbias: {error}") from None
    if not isinstance(head, dict) or head.get("kind") != kind:
        raise ValueError(f"{path} is no {what} of gainbias, which {writer} writes")
    if not (isinstance(head.get("version"), int) and {"record", "checksum"} <= head.keys()):
        raise DamagedError(f"{path} is damaged: its header is incomplete")
    if head["version"] != version:
        advice = "update gainbias" if head["version"] > version else f"make the {what} again"
        raise ValueError(
            f"{path} has version {head['version']}, this gainbias reads version {version}: {advice}"
        )
    if head["checksum"] != _checksum(head["record"], arrays):
        raise DamagedError(f"{path} is damaged: its checksum does not match")
    return head["record"], arrays


def _kind(path: Path) -> Any:
    """Return the content of a file; ``None`` if it is incomplete, for which `read_archive` has a message."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return json.loads(str(archive["record"]))["kind"]
    except Exception:
        return None


def _checksum(record: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _packed(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value as JSON knows it, with arrays put aside under names."""
    if is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        packed = {key: _packed(part, f"{name}.{key}", arrays) for key, part in parts.items()}
        return {"record": type(value).__name__, "parts": packed}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, sparse.csr_array):
        arrays |= {f"{name}.{key}": getattr(value, key) for key in ("data", "indices", "indptr")}
        arrays[f"{name}.shape"] = np.array(value.shape)
        return {"sparse": name}
    if isinstance(value, tuple):
        return {"tuple": [_packed(part, f"{name}.{place}", arrays) for place, part in enumerate(value)]}
    return value.item() if isinstance(value, np.generic) else value


def _unpacked(value: Any, arrays: Arrays) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "sparse" in value:
        data, indices, indptr, shape = (
            arrays[f"{value['sparse']}.{key}"] for key in ("data", "indices", "indptr", "shape")
        )
        return sparse.csr_array((data, indices, indptr), tuple(shape.tolist()))
    if "tuple" in value:
        return tuple(_unpacked(part, arrays) for part in value["tuple"])
    return RECORDS[value["record"]](**{key: _unpacked(part, arrays) for key, part in value["parts"].items()})


def _packed_choice(observed: ObservationMap, arrays: Arrays) -> dict[str, Any]:
    """Return the maker of the features; a user's function is only named."""
    choice: Any = observed.choice
    has_end = observed.is_tabular and observed.num_features > observed.end
    facts = {
        "description": observed.description,
        "num_features": observed.num_features,
        "scale": observed.scale,
        "has_end": has_end,
    }
    if observed.seen is not None:
        return facts | {"kind": "seen", "known": _packed(observed.seen.known, "known", arrays)}
    if isinstance(choice, Tabular):
        return facts | {"kind": "tabular"}
    if isinstance(choice, FeatureMap) and type(choice).__name__ in MAPS:
        return facts | {"kind": "map", "map": _packed(choice, "map", arrays)}
    if callable(choice):
        return facts | {"kind": "function"}
    return facts | {"kind": "matrix", "matrix": _packed(choice, "matrix", arrays)}


def _observed(facts: dict[str, Any], limits: Limits, arrays: Arrays, features: Any) -> ObservationMap:
    choice: Choice
    on_termination: OnTermination = "zero" if facts["has_end"] else "reward"
    if facts["kind"] == "function":
        if features is None:
            raise ValueError(
                "the features of this estimate are a function, which is not in the file: pass it, as "
                "load_estimate(path, features=function)"
            )
        choice = features
    elif features is not None:
        raise ValueError(f"the features are in the file ({facts['description']}): leave out features")
    elif facts["kind"] == "seen":
        observed = seen_states(limits, on_termination, _unpacked(facts["known"], arrays))
        return replace(observed, description=facts["description"])
    elif facts["kind"] == "map":
        parts = facts["map"]["parts"]
        choice = MAPS[facts["map"]["record"]](**{key: _unpacked(part, arrays) for key, part in parts.items()})
    else:
        choice = Tabular() if facts["kind"] == "tabular" else _unpacked(facts["matrix"], arrays)
    example = np.clip(np.zeros((1, *limits.shape)), limits.low, limits.high)
    example = example.astype(np.int64 if limits.whole else np.float64)
    observed = observation_map(limits, choice, example, on_termination, facts["scale"])
    if observed.num_features != facts["num_features"]:
        raise ValueError(
            f"the function returns {observed.num_features} features, the estimate was made with "
            f"{facts['num_features']}"
        )
    return replace(observed, description=facts["description"])
