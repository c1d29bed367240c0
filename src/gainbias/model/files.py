"""Processes in files."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse as sparse

from gainbias.model.process import MarkovRewardProcess

EXPECTED = (
    "an .npz file with the array `rewards`, (n,) or (n, n), optionally `labels`, and either a dense array "
    "`transitions` or the parts of a sparse matrix under the names that scipy.sparse.save_npz uses "
    "(`format`, `shape`, `data`, `indices`, `indptr`)"
)


def read_process(path: str) -> MarkovRewardProcess:
    """Read a process from an .npz file; pickled objects in it are refused.

    Raises
    ------
    ValueError
        If the file is something else, or damaged.
    """
    expected = f"must be {EXPECTED}"
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is no .npz file, {expected}")
    try:
        with np.load(path, allow_pickle=False) as parts:
            names = set(parts.files)
            if "rewards" not in names or not names & {"transitions", "data"}:
                raise ValueError(f"{path} holds {sorted(names)}, {expected}")
            rewards = parts["rewards"]
            labels = parts["labels"].tolist() if "labels" in names else None
            dense = parts["transitions"] if "transitions" in names else None
        transitions: Any = sparse.load_npz(path) if dense is None else dense
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): write it again") from error
    return MarkovRewardProcess(transitions, rewards, labels)
