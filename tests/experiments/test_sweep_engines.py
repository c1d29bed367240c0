"""Engines: units that kill their workers, workers with other sources, clusters that are lost, Ctrl-C."""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

import gainbias
from gainbias.experiments import engines, units, workers
from gainbias.experiments import runner as execution
from gainbias.experiments.engines import (
    Here,
    RefusedError,
    Roster,
    check_choice,
    opened,
    seconds_of,
    with_gpu,
)
from gainbias.experiments.provenance import THREADS
from gainbias.experiments.results import Results
from gainbias.experiments.runner import execute
from gainbias.experiments.units import (
    UnitLimits,
    WrongEnvironmentError,
    answer_of,
    answers_together,
    unpacked,
)
from gainbias.kernels import gpu
from tests.experiments.cluster import children, cluster, kill
from tests.experiments.trivial import Trivial

ROOT = str(Path(__file__).parents[2])


def answers(units, engine) -> dict[str, str]:
    """Return the errors of all units, by their labels; empty where there is none."""
    labels = {unit.id: unit.label for unit in units}
    found = [answer for finished in execute(units, engine) for answer in finished.units]
    assert len(found) == len({answer.id for answer in found})
    return {labels[answer.id]: answer.error for answer in found}


def test_a_bad_unit_costs_no_other_whose_lanes_run_with_its_own() -> None:
    units = [Trivial(number, "raise" if number == 2 else "nothing") for number in range(4)]
    found = answers_together(units, "gpu")
    assert [answer.id for answer in found] == [unit.id for unit in units]
    assert [bool(answer.error) for answer in found] == [False, False, True, False]
    assert "number 2 is too large" in found[2].error
    assert unpacked(found[3].payload)["runs"]["number"].to_pylist() == [3]


def test_a_worker_whose_driver_was_killed_ends_without_a_word() -> None:
    own, other = multiprocessing.Pipe()
    serve = f"from gainbias.experiments.workers import serve; serve({other.fileno()})"
    command = [sys.executable, "-c", serve]
    with subprocess.Popen(command, pass_fds=[other.fileno()], stderr=subprocess.PIPE, text=True) as worker:
        assert own.recv() == "ready"
        own.send((os.close, (other.fileno(),)))  # so that the answer cannot be sent
        assert own.recv()
        assert worker.communicate(timeout=60)[1] == ""
    assert worker.returncode == 1


class TestBatches:
    class Counting(Here):
        """Remembers the sizes of batches."""

        def __init__(self) -> None:
            self.sizes: list[int] = []

        def submit(self, units, alone):
            self.sizes.append(len(units))
            return super().submit(units, alone)

    def test_short_units_go_together_and_the_last_ones_do_not(self) -> None:
        engine = self.Counting()
        assert len(answers([Trivial(number, takes=0.01) for number in range(1000)], engine)) == 1000
        assert engine.sizes[0] in (124, 125)  # an eighth, for one worker
        assert max(engine.sizes[1:]) > engine.sizes[-1] == 1

    def test_they_grow_when_units_are_faster_than_foreseen(self) -> None:
        engine = self.Counting()
        answers([Trivial(number, takes=1.0) for number in range(1000)], engine)
        assert engine.sizes[0] == 2
        assert max(engine.sizes) > 50

    def test_long_units_go_alone(self) -> None:
        engine = self.Counting()
        answers([Trivial(number, takes=5.0) for number in range(3)], engine)
        assert engine.sizes == [1, 1, 1]


class TestWithGpu:
    """What the GPU does is made up: it says how many units it was given."""

    @staticmethod
    def found(units, monkeypatch, together: int = 1000) -> dict[int, tuple[str, list[int]]]:
        monkeypatch.setattr(gpu, "device_name", lambda: "a GPU")
        monkeypatch.setattr(engines.LocalWithGpu, "together", together)
        numbers, answers = {unit.id: unit.number for unit in units}, dict[int, tuple[str, list[int]]]()
        with with_gpu(2) as engine:
            for finished in execute(units, engine):
                assert finished.machine.endswith(", a GPU") or len(finished.units) < 2
                for answer in finished.units:
                    runs = unpacked(answer.payload)["runs"].to_pydict() if answer.payload else {}
                    answers[numbers[answer.id]] = answer.error, runs.get("together", [])
        assert len(answers) == len(units)
        return answers

    def test_companions_go_together(self, monkeypatch) -> None:
        units = [Trivial(number, kind) for kind in ("nothing", "sleep") for number in range(5)]
        units = [replace(unit, number=place) for place, unit in enumerate(units)]
        monkeypatch.setattr(Trivial, "companions", property(lambda unit: unit.does))
        found = self.found(units, monkeypatch, together=3)
        assert [found[number] for number in range(10)] == [("", [k]) for k in (3, 3, 3, 2, 2) * 2]

    def test_a_bad_unit_costs_no_other(self, monkeypatch) -> None:
        found = self.found([Trivial(k, "raise" if k == 1 else "nothing") for k in range(3)], monkeypatch)
        assert "number 1 is too large" in found[1][0]
        assert found[0] == found[2] == ("", [2])

    def test_what_is_too_large_to_be_carried_needs_no_gpu(self, monkeypatch) -> None:
        found = self.found([Trivial(k, "large" if k == 1 else "nothing") for k in range(3)], monkeypatch)
        assert [found[k] for k in range(3)] == [("", [2]), ("", [0]), ("", [2])]

    def test_a_gpu_that_fails_fails_all(self, monkeypatch) -> None:
        found = self.found([Trivial(k, "no GPU") for k in range(2)], monkeypatch)
        assert all(error.startswith("MemoryError: it is full") for error, _ in found.values())

    def test_a_unit_that_kills_its_worker_is_tried_again_without_others(self, monkeypatch) -> None:
        found = self.found([Trivial(k, "kill" if k == 1 else "nothing") for k in range(3)], monkeypatch)
        assert found[0] == found[2] == ("", [2])
        assert found[1][0].startswith("its worker was killed by SIGKILL")


def test_workers_that_are_lost_with_the_last_units_are_missed() -> None:
    class Deserted(Here):
        """Accepts work and never does it; whoever asks for its workers later is told."""

        asked = 0

        @property
        def ahead(self) -> int:
            self.asked += 1
            if self.asked > 2:
                raise RuntimeError("no workers")
            return 2

        def submit(self, units, alone):
            return Future()

    with pytest.raises(RuntimeError, match="no workers"):
        answers([Trivial(0)], Deserted())


def test_work_that_a_cluster_has_lost_is_submitted_again(monkeypatch) -> None:
    monkeypatch.setattr(execution, "STALLED_SECONDS", 0.2)

    class Forgetful(Here):
        """Loses what it is given first."""

        lost: Future | None = None

        @property
        def is_busy(self) -> bool:
            return False

        def submit(self, units, alone):
            if self.lost is None:
                self.lost = Future()
                return self.lost
            return super().submit(units, alone)

    engine = Forgetful()
    assert answers([Trivial(0), Trivial(1)], engine) == {"number 0": "", "number 1": ""}
    assert engine.lost is not None
    assert engine.lost.cancelled()


def test_what_is_lost_or_refused_is_sent_again() -> None:
    class Refusing(Here):
        """Refuses what it is given first."""

        refused = 0

        def submit(self, units, alone):
            future = super().submit(units, alone)
            if self.refused < 2:
                self.refused += 1
                future = Future()
                future.set_exception(RefusedError("tcp://1.2.3.4:5", "has another version"))
            return future

        def has_lost(self, done):
            return isinstance(done.exception(), RefusedError)

    engine = Refusing()
    assert answers([Trivial(0), Trivial(1, "raise")], engine).keys() == {"number 0", "number 1"}
    assert engine.refused == 2


def test_stopping_does_not_wait_for_workers() -> None:
    class Deserted(Here):
        """Accepts work, and has nobody to do it."""

        is_busy = False

        def submit(self, units, alone):
            return Future()

    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    assert not any(found.units for found in execute([Trivial(0)], Deserted(), stop))
    assert time.monotonic() - began < 10.0


class TestRoster:
    """Which workers of a cluster can be used; `answered` stands for what they say."""

    @pytest.fixture
    def said(self, monkeypatch) -> list[str]:
        said = list[str]()
        monkeypatch.setattr(engines.Watch, "say", said.append)
        return said

    def ask(self, worker: str) -> Future[str]:
        self.asked = [*getattr(self, "asked", []), worker]
        answered: Future[str] = Future()
        if worker.startswith("gone"):
            answered.cancel()
        elif worker.startswith("broken"):
            answered.set_exception(ModuleNotFoundError("No module named 'gainbias'"))
        elif not worker.startswith("silent"):
            answered.set_result("" if worker.startswith("right") else "has gainbias 0")
        return answered

    def test_only_right_ones_are_used_and_wrong_ones_are_named_once(self, said) -> None:
        roster, present = Roster(), {"right 1": 4, "wrong 1": 2, "wrong 2": 2, "silent": 1, "broken": 8}
        for _ in range(2):
            roster.update(present, self.ask)
            assert roster.threads == {"right 1": 4}
        assert said == [
            "worker broken is left out: it cannot load gainbias (No module named 'gainbias'): install the "
            "same version there",
            "worker wrong 1 is left out, and so is 1 more like it: it has gainbias 0",
        ]
        assert roster.is_mixed
        assert roster.is_asking
        assert sorted(self.asked) == sorted(present)
        roster.update({"right 1": 4}, self.ask)
        assert not roster.is_mixed
        assert not roster.is_asking
        assert not roster.faults

    def test_one_that_refuses_work_is_left_out_at_once(self, said) -> None:
        roster = Roster()
        roster.update({"right 1": 1, "right 2": 1}, self.ask)
        roster.leave_out({"right 2": "has no memory"})
        assert roster.threads == {"right 1": 1}
        roster.update({"right 1": 1, "right 2": 1, "right 3": 1}, self.ask)
        assert roster.threads == {"right 1": 1, "right 3": 1}
        assert said == ["worker right 2 is left out: it has no memory"]

    def test_what_was_asked_of_a_lost_one_is_asked_again(self) -> None:
        roster = Roster()
        for _ in range(3):
            roster.update({"gone": 1}, self.ask)
        assert self.asked == ["gone"] * 3
        assert not roster.threads


class TestWait:
    @pytest.mark.parametrize(
        ("wait", "seconds"),
        [
            (None, 30.0),
            (0, 0.0),
            (2.5, 2.5),
            ("90", 90.0),
            ("45s", 45.0),
            ("1.5 h", 5400.0),
            ("2d", 172800.0),
        ],
    )
    def test_times(self, wait, seconds) -> None:
        assert seconds_of(wait) == seconds

    @pytest.mark.parametrize(
        "wait", ["soon", "-1", -1, float("nan"), float("inf"), True, "2 weeks", "", "1e3"]
    )
    def test_what_is_no_time_is_refused(self, wait) -> None:
        with pytest.raises(ValueError, match=f"wait must be a time such as .* found {re.escape(repr(wait))}"):
            check_choice("dask", None, "tcp://1.2.3.4:5", wait)

    def test_this_machine_is_not_waited_for(self) -> None:
        with pytest.raises(ValueError, match="engine 'local' has nothing to wait for, found wait='2h'"):
            check_choice("local", None, None, "2h")


@pytest.mark.slow
def test_a_cluster_knows_whether_it_is_busy(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 20.0)
    with (
        cluster(tmp_path, workers=1, PYTHONPATH=os.pathsep.join([*sys.path, ROOT])) as dask,
        opened("dask", None, dask.address) as engine,
    ):
        assert engine.ahead == 0
        while not engine.ahead:  # until the worker has said its version
            time.sleep(0.1)
        time.sleep(1.5)
        assert not engine.is_busy
        work_to_do = engine.submit([Trivial(7, "sleep", takes=8.0)], alone=False)
        time.sleep(1.5)
        assert engine.is_busy
        [(label, seconds)] = engine.running()
        assert label == "number 7"
        assert 0.0 <= seconds < 8.0
        work_to_do.result()
        time.sleep(1.5)
        assert not engine.is_busy


def test_a_port_that_is_not_a_schedulers_is_refused_in_words() -> None:
    """As the port of a dashboard is: what it says reads as a message of enormous length."""

    def talk() -> None:
        with contextlib.suppress(OSError):
            while True:
                with server.accept()[0] as caller:
                    caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9)

    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=talk, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="no Dask scheduler answers"), opened("dask", None, address):
            pass
        server.shutdown(socket.SHUT_RDWR)  # ends the thread


@pytest.mark.parametrize("workers", [0, -2])
def test_a_number_of_workers_that_cannot_be_is_refused(workers: int) -> None:
    with (
        pytest.raises(ValueError, match="workers must be an integer of at least 1"),
        opened("local", workers),
    ):
        pass


class TestBlame:
    """Who kills a worker is known, and nobody else has to wait or to be computed again."""

    def computed(self, units, limits=workers.NO_LIMITS):
        """Return answers by number of the unit, and the processes they come from."""
        labels = {unit.id: unit.number for unit in units}
        with opened("local", 2, limits=limits) as engine:
            found = [answer for finished in execute(units, engine) for answer in finished.units]
        assert len(found) == len({answer.id for answer in found}) == len(units)
        rows = {labels[one.id]: unpacked(one.payload)["runs"] for one in found if one.payload}
        errors = {labels[one.id]: one.error for one in found if one.error}
        return errors, {number: row["process"][0].as_py() for number, row in rows.items()}

    @pytest.mark.slow
    def test_a_killer_is_tried_alone_and_given_up_and_its_neighbours_are_done_once(self) -> None:
        units = [Trivial(number, "kill" if number == 3 else "nothing", takes=0.01) for number in range(200)]
        errors, processes = self.computed(units)
        assert list(errors) == [3]
        assert errors[3].startswith("its worker was killed by SIGKILL, perhaps because memory ran out")
        assert " GB when last looked at (for the third time, the last two alone)" in errors[3]
        assert set(processes) == set(range(200)) - {3}
        assert processes[0] == processes[2] != processes[4]  # of one batch, in which another had to go on

    @pytest.mark.slow
    def test_the_others_do_not_wait_for_it(self) -> None:
        """On as many workers as there are other units, all end while the killer is still being tried."""
        units = [Trivial(0, "kill"), *(Trivial(number, "sleep", takes=0.4) for number in range(1, 9))]
        labels, order = {unit.id: unit.number for unit in units}, []
        with opened("local", 3) as engine:
            for finished in execute(units, engine):
                order += [labels[answer.id] for answer in finished.units]
        assert order.index(0) >= 3
        assert sorted(order) == list(range(9))

    @pytest.mark.slow
    def test_one_that_ends_its_worker_itself(self) -> None:
        errors, _ = self.computed([Trivial(0, "leave"), Trivial(1)])
        assert errors == {
            0: "its worker ended by itself, with exit code 3 (for the third time, the last two alone)"
        }

    @pytest.mark.slow
    def test_limits(self) -> None:
        """Of time for each unit; of memory for its process, tried again if others left their share in it."""
        slow, large = Trivial(0, "sleep", takes=60.0), Trivial(900, "hoard", takes=30.0)
        errors, processes = self.computed([slow, large, Trivial(1)], limits=UnitLimits(3.0, 600e6))
        assert errors[0] == "its worker was ended: it took longer than its limit of 3 s"
        assert errors[900].startswith("its worker was ended: it held ")
        assert errors[900].endswith(" GB, more than its limit of 0.6 GB")
        assert list(processes) == [1]

    @pytest.mark.slow
    def test_no_process_is_left(self) -> None:
        before = children(os.getpid(), "workers import serve")

        def fail() -> None:
            with opened("local", 2) as engine:
                engine.submit([Trivial(0, "sleep", takes=60.0)], alone=False)
                while not engine.running():
                    time.sleep(0.05)
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert children(os.getpid(), "workers import serve") == before == []

    @pytest.mark.slow
    def test_in_place_of_a_killed_one_another_is_started_at_once_and_the_others_stay(self) -> None:
        crew = workers.Crew()
        first = crew.call(os.getpid)
        assert "SIGKILL" in crew.answer(Trivial(0, "kill"), workers.NO_LIMITS, alone=True).error
        [spare] = set(children(os.getpid(), "workers import serve")) - {first}
        assert crew.call(os.getpid) == first  # which has worked before, so it is ready
        assert crew.call(os.getpid, alone=True) == spare
        assert set(children(os.getpid(), "workers import serve")) == {first, spare}
        crew.end()
        assert children(os.getpid(), "workers import serve") == []

    def test_a_machine_that_can_start_none_says_so(self, monkeypatch) -> None:
        monkeypatch.setattr(workers, "PROGRAM", "{} and {} and exit(7)")
        with (
            opened("local", 2) as engine,
            pytest.raises(RuntimeError, match=r"no worker process can be started .*: the last one ended by"),
        ):
            answers([Trivial(0)], engine)

    @pytest.mark.slow
    def test_one_that_has_nothing_to_do_ends_and_is_replaced(self, monkeypatch) -> None:
        crew = workers.Crew()
        first = unpacked(crew.answer(Trivial(0), UnitLimits(), False).payload)["runs"]["process"][0].as_py()
        os.kill(first, signal.SIGKILL)
        time.sleep(0.2)
        again = crew.answer(Trivial(1), UnitLimits(), False)
        crew.end()
        assert not again.error
        assert unpacked(again.payload)["runs"]["process"][0].as_py() != first


class TestEnvironment:
    def test_other_sources_are_refused(self) -> None:
        with pytest.raises(
            WrongEnvironmentError, match=r"a worker would compute number 0 with other code than was planned"
        ):
            answer_of(Trivial(0, code="0.0.1"))

    def test_many_threads_are_refused(self, monkeypatch) -> None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
        with pytest.raises(WrongEnvironmentError, match="set OPENBLAS_NUM_THREADS=1 where it is started"):
            answer_of(Trivial(0))

    def test_the_first_variable_that_is_set_counts(self, monkeypatch) -> None:
        for name in THREADS:
            monkeypatch.delenv(name, raising=False)
        assert units.unit_fault(Trivial(0))
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        assert not units.unit_fault(Trivial(0))


@pytest.mark.slow
class TestCluster:
    def test_it_computes_gives_up_killers_and_says_when_it_is_lost(self, tmp_path: Path) -> None:
        with cluster(tmp_path, workers=1, PYTHONPATH=os.pathsep.join([*sys.path, ROOT])) as dask:
            before = dask.workers()
            with opened("dask", None, dask.address) as engine:
                bad = {1: "raise", 2: "kill"}
                found = answers([Trivial(number, bad.get(number, "nothing")) for number in range(5)], engine)
                assert found.pop("number 1").startswith("ArithmeticError: number 1 is too large (trivial.py")
                assert found.pop("number 2").startswith("its worker was killed by SIGKILL")
                assert set(found.values()) == {""}
            assert dask.workers() == before  # no unit kills what belongs to the cluster
            with opened("dask", None, dask.address, wait="3s") as engine:
                asleep = [Trivial(number, "sleep", takes=30.0) for number in range(4)]  # two of them wait
                threading.Timer(1.0, dask.scheduler.kill).start()
                lost = (
                    "does not answer, after 3 s of waiting; what was finished is kept: start it and workers"
                )
                with pytest.raises(RuntimeError, match=lost):
                    answers(asleep, engine)
            began = time.monotonic()
            message = "no Dask scheduler answers at .* within 5 s"
            with pytest.raises(ConnectionError, match=message), opened("dask", None, dask.address):
                pass
            assert time.monotonic() - began < 30.0

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            ("edited", r"has gainbias .* and the study was planned with .*: install the same versions"),
            ("incomplete", r"cannot load gainbias \(.*\): install the same version there"),
        ],
    )
    def test_a_late_worker_with_other_sources_is_left_out_and_named(
        self, change: str, fault: str, tmp_path: Path, monkeypatch
    ) -> None:
        other = tmp_path / "other" / "gainbias"
        source = Path(gainbias.__file__).parent
        shutil.copytree(source, other, ignore=shutil.ignore_patterns("__pycache__"))
        if change == "edited":
            with open(other / "engine" / "paths.py", "a") as file:
                file.write("CHANGED = True\n")
        else:
            shutil.rmtree(other / "experiments")
        wrong, said = os.pathsep.join([str(other.parent), *sys.path, ROOT]), list[str]()
        monkeypatch.setattr(engines.Watch, "say", said.append)
        with cluster(tmp_path, 1, PYTHONPATH=os.pathsep.join([*sys.path, ROOT])) as dask:
            dask.add(2, PYTHONPATH=wrong)
            with opened("dask", None, dask.address) as engine:
                found, after = dict[str, str](), 0
                for finished in execute([Trivial(n, "sleep", takes=0.5) for n in range(200)], engine):
                    found |= {answer.id: answer.error for answer in finished.units}
                    after += bool(said and finished.units)
                    if after == 5:
                        break
            assert set(found.values()) == {""}
            for line in said:
                assert re.match(f"worker tcp://.* is left out(, and so is 1 more like it)?: it {fault}", line)
            kill(dask.nanny)
            words = f"no workers that can be used, after 20 s of waiting .worker tcp://.* {fault}.*; what was"
            with (
                opened("dask", None, dask.address, wait=20) as engine,
                pytest.raises(RuntimeError, match=words),
            ):
                answers([Trivial(0)], engine)

    def test_it_waits_for_workers_and_goes_on_when_all_and_the_scheduler_are_lost(
        self, tmp_path: Path, capsys
    ) -> None:
        with cluster(tmp_path, 0, PYTHONPATH=os.pathsep.join([*sys.path, ROOT])) as dask:
            nannies: list[subprocess.Popen[bytes]] = []
            threading.Timer(3.0, lambda: nannies.append(dask.add(1))).start()
            with opened("dask", None, dask.address, wait="5min") as engine:
                found, losses = dict[str, str](), 0
                for finished in execute([Trivial(number, "sleep", takes=2.0) for number in range(8)], engine):
                    found |= {answer.id: answer.error for answer in finished.units}
                    if len(found) == 2 + 2 * losses and losses < 2:
                        kill(nannies[-1])
                        if losses:
                            kill(dask.scheduler)
                            time.sleep(1.0)
                            dask.start_scheduler()
                        nannies.append(dask.add(1))
                        losses += 1
        assert losses == 2
        assert list(found.values()) == [""] * 8
        said = capsys.readouterr().err.splitlines()
        assert said[0] == "the cluster has no workers that can be used: waiting for up to 5 min"
        assert any(line.endswith("does not answer: waiting for up to 5 min") for line in said)


INTERRUPTED = """
import signal, sys
from pathlib import Path
from gainbias.experiments.runner import complete
from gainbias.experiments.engines import opened
from gainbias.experiments.provenance import THREADS
from gainbias.experiments.results import Results
from tests.experiments.trivial import Trivial

folder = Path(sys.argv[1])
units = [Trivial(n, f"touch {folder / str(n)}", takes=float(sys.argv[2])) for n in range(40)]
results = Results(folder / "results")
with opened("local", 2) as engine, results.log:
    complete(units, results, engine, lambda now: None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_once_finishes_what_runs_and_twice_does_not(
    times: int, sent: signal.Signals, tmp_path: Path
) -> None:
    seconds = "1.0" if times == 1 else "60.0"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path), seconds],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, *sys.path])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (tmp_path / "1").exists():
        assert process.poll() is None
        time.sleep(0.05)
    began = time.monotonic()
    for _ in range(times):
        for each in (process.pid, *children(process.pid, "workers import serve")):  # as a queueing system
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, sent)
        time.sleep(0.5)
    _, said = process.communicate(timeout=100)
    assert said.startswith("finishing the running units; press Ctrl-C again to stop now\n")
    assert ("StoppedError" if times == 1 else "KeyboardInterrupt") in said
    assert time.monotonic() - began < 30.0
    begun = {name for name in os.listdir(tmp_path) if name.isdigit()}
    stored = [name for name in Results(tmp_path / "results").log.records() if len(name) == 24]
    assert len(begun) < 40
    assert len(stored) == (len(begun) if times == 1 else 0)
