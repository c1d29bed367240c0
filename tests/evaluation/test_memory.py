"""A streamed file is read in memory that does not depend on its length."""

import subprocess
import sys

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

READ = """
import sys
from pathlib import Path
import gainbias as gb

basis = gb.FourierBasis([0.0, 0.0], [1.0, 1.0], order=2)
for path in sys.argv[1:]:
    estimate = gb.evaluate_log(path, QUESTION)
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(estimate.diagnostics.num_transitions, float(peak) / 1024)
"""
"""Not resource.getrusage: a new process begins there with the peak of the one that started it."""

ROWS = 200_000
"""In a row group, of which the short file has six, enough to fill all buffers, and the long one thirty."""


QUESTIONS = {
    "the policy of the log": 'state=("x", "y"), features=basis',
    "another one, by counts": 'state="s", action="a", policy="random"',
    "another one, by features": 'state=("x", "y"), features=basis, action="a", policy="random"',
}


def write(path, groups):
    rng = np.random.default_rng(0)
    columns = {name: rng.random(ROWS) for name in ("x", "y", "reward")}
    table = pyarrow.table(columns | {"s": rng.integers(0, 200, ROWS), "a": rng.integers(0, 3, ROWS)})
    with parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(groups):
            writer.write_table(table)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read as Linux tells it")
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_file_five_times_as_long_takes_no_more_memory(tmp_path, question):
    short, long = tmp_path / "short.parquet", tmp_path / "long.parquet"
    write(short, 6)
    write(long, 30)
    larger = (long.stat().st_size - short.stat().st_size) / 2**20
    command = [sys.executable, "-c", READ.replace("QUESTION", QUESTIONS[question]), str(short), str(long)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (few, before), (many, after) = (map(float, line.split()) for line in printed.splitlines())
    assert (few, many) == (6 * ROWS - 1, 30 * ROWS - 1)
    assert larger > 80.0
    assert after - before < 0.25 * larger
