"""Compiled kernels on disk: reused, and never served after an edit."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import gainbias
from gainbias.engine.loop import loop_of
from gainbias.kernels import cache_folder, kernel, light_work
from gainbias.kernels import compile as compile_module
from gainbias.kernels.cache import kernel_digest
from gainbias.kernels.numba_internals import part_compiler

PACKAGE = Path(gainbias.__file__).parent
PROGRAM = """
import numpy as np
from gainbias.model.solve.elimination.numeric import eliminate_front
front, leak = np.array([0.0, 1.0, 2.0, 0.0]), np.array([1.0, 0.0])
eliminate_front(front, 2, leak, 1, np.zeros(2))
print(front[0], leak[1])
"""


STEP_PROGRAM = """
import gainbias as gb
mrp = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
trace = gb.run("discounted-td", gb.Problem(mrp, gb.Tabular()), 1, 0.5, sampling=gb.Markov(0))
print(trace.weights[0, -1, 0])
"""


def run_copy(root: Path, program: str = PROGRAM) -> str:
    own = {"PYTHONPATH": str(root), "XDG_CACHE_HOME": str(root / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**os.environ, **own}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_edited_kernel_is_compiled_again(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias")
    assert run_copy(tmp_path) == "2.0 1.0"
    compiled = list((tmp_path / "cache").rglob("*.nbc"))
    assert compiled
    assert run_copy(tmp_path) == "2.0 1.0"
    assert list((tmp_path / "cache").rglob("*.nbc")) == compiled
    source = tmp_path / "gainbias/model/solve/elimination/numeric.py"
    text = source.read_text()
    edited = text.replace("out = leak[i]\n", "out = leak[i] + 5.0\n")
    assert edited != text
    source.write_text(edited)
    assert run_copy(tmp_path) == f"7.0 {2.0 / 7.0 * 1.0}"


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_edited_step_is_compiled_again(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias")
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"
    compiled = list((tmp_path / "cache").rglob("*.nbc"))
    assert any("advance" in file.name for file in compiled)
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"
    assert list((tmp_path / "cache").rglob("*.nbc")) == compiled
    source = tmp_path / "gainbias/algorithms/discounted_td.py"
    text = source.read_text()
    edited = text.replace("step_size[k] * (move.reward +", "step_size[k] * (3.0 * move.reward +")
    assert edited != text
    source.write_text(edited)
    assert run_copy(tmp_path, STEP_PROGRAM) == "1.5"


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_stored_code_that_cannot_be_read_is_compiled_again(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias")
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"
    source = tmp_path / "gainbias/features/rows.py"
    source.rename(source.with_name("elsewhere.py"))  # its types are named in what is stored
    for user in (tmp_path / "gainbias").rglob("*.py"):
        user.write_text(user.read_text().replace("gainbias.features.rows", "gainbias.features.elsewhere"))
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"
    for stored in (tmp_path / "cache").rglob("*.nb?"):
        stored.write_bytes(stored.read_bytes()[:40])
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"


LIGHT_PROGRAM = """
import numpy as np
import gainbias as gb
rng = np.random.default_rng(0)
transitions = rng.dirichlet(np.full(30, 0.2), 30)
mrp = gb.MarkovRewardProcess(transitions, rewards=rng.standard_normal((30, 30)))
found = gb.solve(mrp, extra_rewards={"more": rng.standard_normal(30)})
numbers = [found.gain, found.gain_error, *found.bias, *found.bias_error, *found.stationary_error]
print([float(x).hex() for x in [*numbers, found.asymptotic_variance, *found.extra["more"].bias]])
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
class TestLightWork:
    """A small chain on a fresh machine: compiling would take seconds, the work none."""

    def test_it_compiles_nothing_and_has_the_bits_of_compiled_code(self, tmp_path: Path) -> None:
        (tmp_path / "gainbias").symlink_to(PACKAGE)
        in_python = run_copy(tmp_path, LIGHT_PROGRAM)
        assert not list((tmp_path / "cache").rglob("*.nbc"))
        done = subprocess.run(
            [sys.executable, "-c", LIGHT_PROGRAM], capture_output=True, text=True, check=True
        )
        assert in_python == done.stdout.strip()

    def test_much_of_it_is_compiled_after_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compile_module, "PYTHON_SECONDS", 0.002)
        calls = []

        @kernel
        def count(n: int) -> int:
            total = 0
            for _ in range(n):
                total += 1
            return total

        for n in (10, 1_000_000, 10):
            with light_work():
                assert count(n) == n
            calls.append(len(count.signatures))  # type: ignore[attr-defined]
        assert calls == [0, 0, 1]
        assert count(20) == 20

    def test_outside_and_in_other_threads_kernels_are_compiled(self) -> None:
        @kernel
        def double(x: float) -> float:
            return 2.0 * x

        with light_work(), ThreadPoolExecutor(1) as pool:
            assert pool.submit(double, 4.0).result() == 8.0
        assert len(double.signatures) == 1  # type: ignore[attr-defined]


LATE_PROGRAM = """
import importlib, pathlib
import gainbias as gb
mrp = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
problem = gb.Problem(mrp, gb.Tabular())
problem.solution
source = pathlib.Path(gb.__file__).parent / "algorithms/discounted_td.py"
before = source.read_text()
source.write_text(before.replace("step_size[k] * (move.reward +", "step_size[k] * (3.0 * move.reward +"))
print(gb.run("discounted-td", problem, 1, 0.5, sampling=gb.Markov(0)).weights[0, -1, 0])
source.write_text(before)
import gainbias.algorithms.discounted_td as module
print(gb.run(importlib.reload(module).ALGORITHM, problem, 1, 0.5, sampling=gb.Markov(0)).weights[0, -1, 0])
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_file_edited_while_a_process_runs_is_neither_stale_nor_kept_for_others(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias", ignore=shutil.ignore_patterns("__pycache__"))
    assert run_copy(tmp_path, LATE_PROGRAM) == "1.5\n0.5"
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"


DIGESTS = """
import importlib, json, pkgutil
import gainbias as gb
from gainbias.engine.loop import averaging_loop_of, loop_of
from gainbias.kernels.cache import is_own, kernel_digest

kernels = {}
for found in pkgutil.walk_packages(gb.__path__, "gainbias."):
    module = importlib.import_module(found.name)
    for name, value in vars(module).items():
        if hasattr(value, "py_func") and is_own(value.py_func):
            kernels[name] = value
for algorithm in gb.ALGORITHMS.values():
    for form in {algorithm.form, algorithm.sparse_form or algorithm.form}:
        name = f"{algorithm.name} {form.step.__module__} {form.step.__name__}"
        kernels[name] = loop_of(form.step)
        kernels[f"averaging {name}"] = averaging_loop_of(form.step)
print(json.dumps({name: kernel_digest(kernel.py_func) for name, kernel in kernels.items()}))
"""


@pytest.fixture(scope="module")
def copied_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, root / "gainbias", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.fixture(scope="module")
def digests(copied_package: Path) -> dict[str, str]:
    return digests_of(copied_package)


def digests_of(root: Path) -> dict[str, str]:
    return json.loads(run_copy(root, DIGESTS))


def compiled_functions(source: Path) -> list[ast.FunctionDef]:
    """Return the functions of a file that become machine code: kernels, their parts, and steps."""
    marks = ("kernel", "bare_kernel", "inlined", "of")
    return [
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and (
            {
                getattr(mark, "id", getattr(getattr(mark, "func", None), "attr", None))
                for mark in node.decorator_list
            }
            & set(marks)
            or (node.name == "step" and "algorithms" in source.parts)
        )
    ]


def files_with_kernels() -> list[Any]:
    """Return all files with functions that are compiled; all but one of each folder are marked slow."""
    found = [source for source in sorted(PACKAGE.rglob("*.py")) if compiled_functions(source)]
    first = {source.parent: source for source in reversed(found)}
    return [
        pytest.param(source, marks=() if source in first.values() else pytest.mark.slow) for source in found
    ]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
class TestDigests:
    def test_every_kernel_of_the_package_can_be_kept(self, digests: dict[str, str]) -> None:
        assert len(digests) > 60
        assert [name for name, digest in digests.items() if digest is None] == []

    @pytest.mark.parametrize("source", files_with_kernels(), ids=lambda path: str(path.relative_to(PACKAGE)))
    def test_an_edited_function_gives_other_digests(
        self, source: Path, copied_package: Path, digests: dict[str, str]
    ) -> None:
        copy = copied_package / source.relative_to(PACKAGE.parent)
        before = copy.read_text()
        lines, last = before.splitlines(), compiled_functions(source)[0].body[-1]
        lines.insert(last.lineno - 1, " " * last.col_offset + "edited = 1.0")
        copy.write_text("\n".join(lines))
        try:
            assert digests_of(copied_package) != digests
        finally:
            copy.write_text(before)

    def test_a_moved_file_a_comment_and_a_shifted_line_change_nothing(
        self, copied_package: Path, digests: dict[str, str]
    ) -> None:
        source = copied_package / "gainbias/features/rows.py"
        before = source.read_text()
        moved = source.with_name("elsewhere.py")
        moved.write_text(before.replace("from __future__", "# A comment.\n\nfrom __future__", 1))
        source.write_text("from gainbias.features.elsewhere import *\n")
        users = [path for path in copied_package.rglob("*.py") if "features.rows import" in path.read_text()]
        texts = {path: path.read_text() for path in users}
        for path, text in texts.items():
            path.write_text(text.replace("features.rows import", "features.elsewhere import"))
        try:
            assert digests_of(copied_package) == digests
        finally:
            source.write_text(before)
            moved.unlink()
            for path, text in texts.items():
                path.write_text(text)

    def test_a_constant_in_another_file_counts(self) -> None:
        def kernel_reading(value: object) -> str | None:
            names = {"LIMIT": value}
            exec("def read():\n    return LIMIT", names)
            return kernel_digest(names["read"])

        assert kernel_reading(1.0) == kernel_reading(1.0)
        assert len({kernel_reading(value) for value in (1.0, 1, 2.0, (1.0,), "1.0", np.ones(2), None)}) == 7
        assert kernel_reading({"a": 1}) is None


def kernels_compiled_by(program: str, root: Path) -> Counter[str]:
    """How often each kernel is compiled on a fresh machine: for each kind of arguments once."""
    (root / "gainbias").symlink_to(PACKAGE)
    run_copy(root, program)
    return Counter(file.name.partition("-")[0] for file in (root / "cache").rglob("*.nbc"))


QUEUE_PROGRAM = """
import numpy as np
import scipy.sparse as sparse
import gainbias as gb
n = 100_000
rates = sparse.diags_array([np.full(n - 1, 0.7), np.full(n - 1, 1.0)], offsets=[1, -1])
generator = rates - sparse.diags_array(rates.sum(axis=1))
gb.solve(gb.MarkovRewardProcess.from_rates(generator, reward_rates=-np.arange(n)))
"""

LOG_PROGRAM = """
import numpy as np
import gainbias as gb
rng = np.random.default_rng(0)
states, actions = rng.integers(0, 5, 2001), rng.integers(0, 2, 2000)
log = {"state": states[:-1], "action": actions, "reward": states[1:], "next_state": states[1:]}
gb.evaluate_log(log, action="action", policy=lambda state: 1)
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
class TestFirstAnswer:
    """Each kernel takes about a tenth of a second to compile, while somebody waits for the first answer."""

    @pytest.mark.skipif(part_compiler() is None, reason="what only kernels call is compiled like a kernel")
    def test_a_large_chain_needs_28_kernels_each_for_one_kind_of_arguments(self, tmp_path: Path) -> None:
        found = kernels_compiled_by(QUEUE_PROGRAM, tmp_path)
        assert max(found.values()) == 1, found
        assert len(found) <= 28, sorted(found)

    def test_another_policy_on_a_log_with_few_states_needs_none(self, tmp_path: Path) -> None:
        assert kernels_compiled_by(LOG_PROGRAM, tmp_path) == {}


BUILT_OTHERWISE = """
import numba.core.codegen as codegen
library = codegen.CPUCodeLibrary
finalize, optimise = library.finalize, library._optimize_final_module
del library._optimize_final_module
def finalize_as_another_version(self):
    self._optimize_final_module = lambda: optimise(self)
    finalize(self)
library.finalize = finalize_as_another_version
from gainbias.kernels.numba_internals import part_compiler
print(part_compiler())
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_on_a_numba_that_is_built_otherwise_kernels_are_compiled_plainly(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias")
    assert run_copy(tmp_path, BUILT_OTHERWISE + STEP_PROGRAM) == "None\n0.5"


def test_a_step_from_outside_is_never_kept() -> None:
    def step(state: Any, params: Any, rows: Any, move: Any, step_size: float) -> None:
        state.weights[0] += step_size

    loop = loop_of(step)
    assert numba.config.DISABLE_JIT or loop._cache.__class__.__name__ == "NullCache"  # type: ignore[attr-defined]


def test_other_users_of_numba_keep_their_own_settings() -> None:
    before = numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE

    @kernel
    def triple(x: float) -> float:
        return 3.0 * x

    assert triple(2.0) == 6.0
    assert before == (numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE)


def test_settings_of_numba_survive_threads_that_compile_at_once() -> None:
    def compile_one(number: int) -> None:
        def add(x: float) -> float:
            return x + number

        kernel(add)(1.0)

    before = numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(compile_one, range(16)))
    assert before == (numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE)


def test_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder.cache_clear()
    monkeypatch.setenv("GAINBIAS_CACHE", "0")
    assert cache_folder() is None
    cache_folder.cache_clear()


def test_a_home_that_cannot_be_written_means_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache_folder.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert cache_folder() is None
    cache_folder.cache_clear()
