"""Every example runs as a script and ends with the answer next to a reference, which must agree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBER = r"(-?\d+\.\d+)"
ANSWER = re.compile(
    rf"{NUMBER}, interval {NUMBER} to {NUMBER}; (?:exact|reference) {NUMBER}(?: \+- {NUMBER})?"
)
ANSWERS = {"queue_admission": 2, "inventory": 4, "access_control": 4, "parquet_log": 4, "pendulum": 1}
"""How many numbers each example compares with a reference."""

SLOW, PICTURES = {"pendulum"}, {"queue_admission", "inventory"}


def output_of(name, folder, *options):
    """What a script prints; warnings are errors there too."""
    environment = os.environ | {"PYTHONWARNINGS": "error", "MPLBACKEND": "agg"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agrees(line):
    """Whether the reference is within 4 standard errors: the interval, made twice as wide."""
    found, low, high, reference, error = (float(number or 0.0) for number in ANSWER.search(line).groups())
    assert low <= found <= high
    return low - (high - low) / 2 - 4 * error <= reference <= high + (high - low) / 2 + 4 * error


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in ANSWERS]
)
def test_answers_agree_with_the_reference(name, tmp_path):
    printed = output_of(name, tmp_path, *["--plot"] * (name in PICTURES))
    assert "warning" not in printed
    compared = [line for line in printed.splitlines() if ANSWER.search(line)]
    assert len(compared) == ANSWERS[name]
    assert all(map(agrees, compared)), printed
    pictures = [path.name for path in tmp_path.iterdir()]
    assert pictures == [f"{name}.png"] * (name in PICTURES)


def test_every_example_is_tested_and_listed():
    found = {path.stem for path in EXAMPLES.glob("*.py")}
    assert found == set(ANSWERS)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.py)" in listed for name in found)


def test_an_answer_that_is_wrong_is_found():
    assert agrees("gain 0.50, interval 0.40 to 0.60; exact 0.69")
    assert not agrees("gain 0.50, interval 0.40 to 0.60; exact 0.71")
