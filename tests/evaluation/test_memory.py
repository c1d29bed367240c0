"""A streamed file is read in memory that does not depend on its length."""

import subprocess
import sys

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

READ = """
import resource, sys
import gainbias as gb

basis = gb.FourierBasis([0.0, 0.0], [1.0, 1.0], order=2)
for path in sys.argv[1:]:
    estimate = gb.evaluate_log(path, state=("x", "y"), features=basis)
    print(estimate.diagnostics.num_transitions, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""

ROWS = 200_000
"""In a row group, of which the short file has two and the long one twenty."""


def write(path, groups):
    rng = np.random.default_rng(0)
    table = pyarrow.table({name: rng.random(ROWS) for name in ("x", "y", "reward")})
    with parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(groups):
            writer.write_table(table)


@pytest.mark.slow
def test_a_file_ten_times_as_long_takes_no_more_memory(tmp_path):
    short, long = tmp_path / "short.parquet", tmp_path / "long.parquet"
    write(short, 2)
    write(long, 20)
    larger = (long.stat().st_size - short.stat().st_size) / 2**20
    command = [sys.executable, "-c", READ, str(short), str(long)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (few, before), (many, after) = (map(float, line.split()) for line in printed.splitlines())
    assert (few, many) == (2 * ROWS - 1, 20 * ROWS - 1)
    assert larger > 80.0
    assert after - before < 0.25 * larger
