"""Every example runs as a script and ends with the answer next to a reference, which must agree."""

import os
import re
import runpy
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBER = r"(-?\d+\.\d+)"
ANSWER = re.compile(
    rf"{NUMBER}, interval {NUMBER} to {NUMBER}; (?:exact|reference) {NUMBER}(?: \+- {NUMBER})?"
)
ANSWERS = {
    "queue_admission": 2,
    "inventory": 4,
    "access_control": 4,
    "parquet_log": 4,
    "pendulum": 1,
    "other_rule": 3,
}
ANSWERS |= {"sb3_agent": 1, "sb3_other_agent": 2, "minigrid_task": 1, "mujoco_random": 1}
"""How many numbers each example compares with a reference."""

NEEDS = dict.fromkeys(["sb3_agent", "sb3_other_agent"], "stable_baselines3")
NEEDS |= {"minigrid_task": "minigrid", "mujoco_random": "mujoco"}
"""Packages that are not installed with the tests: where one is missing, its example is left out."""

SIMULATORS = {"ciw_network": ("ciw", 5), "simpy_queue": ("simpy", 2)}
"""Examples for a package that tests do not need: which, and how many numbers they compare."""

SLOW, PICTURES = {"pendulum", *NEEDS}, {"queue_admission", "inventory"}


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
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    printed = output_of(name, tmp_path, *["--plot"] * (name in PICTURES))
    assert "warning" not in printed
    compared = [line for line in printed.splitlines() if ANSWER.search(line)]
    assert len(compared) == ANSWERS[name]
    assert all(map(agrees, compared)), printed
    pictures = [path.name for path in tmp_path.iterdir()]
    assert pictures == [f"{name}.png"] * (name in PICTURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATORS)
def test_simulators_of_others_agree_with_theory(name, tmp_path):
    package, count = SIMULATORS[name]
    pytest.importorskip(package)
    compared = output_of(name, tmp_path).splitlines()
    assert len(compared) == count
    assert all(map(agrees, compared)), compared
    counts = re.findall(r"(\d+) of (\d+) intervals hold", output_of(name, tmp_path, "--check", "--runs", "4"))
    assert len(counts) == count
    assert all(int(held) >= 2 for held, _ in counts), counts


@pytest.mark.slow
def test_the_clinic_of_the_guide_is_that_of_the_example(tmp_path):
    pytest.importorskip("ciw")
    output_of("ciw_network", tmp_path, "--hours", "250", "--seed", "1", "--csv", "clinic.csv")
    shipped = EXAMPLES.parent / "docs" / "data" / "clinic.csv"
    assert (tmp_path / "clinic.csv").read_text() == shipped.read_text()


def test_every_latency_of_the_load_test_is_in_its_file(tmp_path):
    """How long anything takes is up to the machine: only the way from a request to the answer is tested."""
    tiny = ["--requests", "300", "--backlog", "40", "--service-ms", "0.05"]
    printed = output_of("load_test", tmp_path, *tiny)
    head, *rows = (tmp_path / "latencies.csv").read_text().splitlines()
    assert head == "due_s,ms"
    due, latencies = zip(*(map(float, row.split(",")) for row in rows), strict=True)
    assert len(due) == 300
    assert list(due) == sorted(due)
    assert due[:40] == (0.0,) * 40 < due[40:41]
    assert min(latencies) > 0.0
    assert list(latencies[:40]) == sorted(latencies[:40])  # answers come in the order of requests
    assert len(re.findall(r"^(?:mean|p50|p95|p99|verdict) +\S", printed, re.MULTILINE)) >= 5
    assert re.search(r"^mean \d.* ms, .*; textbook 0\.100$", printed, re.MULTILINE)


def test_the_load_test_counts_the_short_runs_that_agree_with_a_long_one(tmp_path):
    tiny = ["--requests", "200", "--backlog", "0", "--service-ms", "0.05", "--runs", "2", "--longer", "3"]
    printed = output_of("load_test", tmp_path, "--check", *tiny)
    counts = re.findall(r"^(\w+): ([012]) of ([012]) trusted intervals hold", printed, re.MULTILINE)
    assert [name for name, *_ in counts] == ["mean", "p50", "p95", "p99"]
    assert all(held <= trusted for _, held, trusted in counts)
    assert len(re.findall(r"^run  \d: mean", printed, re.MULTILINE)) == 2


def test_latencies_of_the_load_test_count_from_when_a_request_was_due():
    """A server that answers nothing for a while: those who were to come meanwhile waited, too."""
    module = runpy.run_path(str(EXAMPLES / "load_test.py"))
    due = [0.0, 0.01, 0.02, 0.03]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answers = threading.Thread(target=answer_late, args=(listener, len(due), 0.2))
        answers.start()
        latencies = module["latencies_of"](due, listener.getsockname()[1])
        answers.join()
    assert all(late >= 0.2 - at - 0.005 for late, at in zip(latencies, due, strict=True))


def answer_late(listener, count, pause):
    client, _ = listener.accept()
    with client:
        time.sleep(pause)
        while count:
            count -= len(client.recv(count))
        client.sendall(b"....")


def test_every_example_is_tested_and_listed():
    found = {path.stem for path in EXAMPLES.glob("*.py")}
    assert found == {*ANSWERS, *SIMULATORS, "load_test"}
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.py)" in listed for name in found)


def test_an_answer_that_is_wrong_is_found():
    assert agrees("gain 0.50, interval 0.40 to 0.60; exact 0.69")
    assert not agrees("gain 0.50, interval 0.40 to 0.60; exact 0.71")
