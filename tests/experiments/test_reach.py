"""What counts as the same code: the meaning of what a unit can reach, and the versions that matter to it."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gainbias.experiments import provenance
from gainbias.experiments.cell import reach_of
from gainbias.experiments.claims.registry import ClaimUnit
from gainbias.experiments.provenance import code_of, made_with
from gainbias.experiments.reproduce import Instance
from tests.experiments.small import copy_of_sources, forget

BOYAN = reach_of("boyan-chain", "td-lambda", exact=False)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package, as far as codes are concerned."""
    root = copy_of_sources(tmp_path)
    monkeypatch.setattr(provenance, "PACKAGE", root)
    forget()
    yield root
    monkeypatch.undo()
    forget()


def edited(file: Path, change: Callable[[str], str] = lambda text: text + "\nEDITED = 1\n") -> None:
    text = file.read_text()
    assert change(text) != text
    file.write_text(change(text))
    forget()


@pytest.mark.parametrize(
    ("file", "reach", "counts"),
    [
        ("algorithms/td_lambda.py", BOYAN, True),
        ("algorithms/lstd.py", BOYAN, False),
        ("algorithms/single_chain/dense.py", BOYAN, False),
        ("algorithms/single_chain/lazy.py", reach_of("boyan-chain", "single-chain", exact=False), True),
        ("tasks/chains/classic.py", BOYAN, True),
        ("tasks/gym/continuing.py", BOYAN, True),
        ("tasks/gym/grid_worlds.py", BOYAN, False),
        ("tasks/data/parameters.csv", BOYAN, True),
        ("engine/run.py", BOYAN, True),
        ("kernels/compile.py", BOYAN, True),
        ("model/solve/elimination/numeric.py", BOYAN, True),
        ("theory/curve/curve.py", BOYAN, False),
        ("theory/curve/moments.py", reach_of("boyan-chain", "td-lambda", exact=True), True),
        ("evaluation/evaluate.py", BOYAN, False),
        ("experiments/cell.py", BOYAN, True),
        ("experiments/engines.py", BOYAN, False),
        ("experiments/results.py", BOYAN, False),
        ("experiments/reproduce.py", BOYAN, False),
        ("report/sweep.py", BOYAN, False),
        ("__init__.py", BOYAN, False),
        ("tasks/gym/grid_worlds.py", Instance("fair", "taxi", 0, code="none").reach, True),
        ("tasks/gym/multi_objective.py", Instance("fair", "taxi", 0, code="none").reach, False),
        ("algorithms/vrtd.py", Instance("fair", "taxi", 0, code="none").reach, True),
        ("algorithms/adaptive_td.py", Instance("fair", "taxi", 0, code="none").reach, False),
        ("experiments/reproduce.py", Instance("fair", "taxi", 0, code="none").reach, True),
        ("experiments/claims/rate.py", ClaimUnit("rate", 0, True, code="none").reach, True),
        ("experiments/claims/dimension.py", ClaimUnit("rate", 0, True, code="none").reach, False),
        ("algorithms/adaptive_td.py", ClaimUnit("one-limit", 0, True, code="none").reach, True),
    ],
)
def test_a_change_counts_where_it_can_be_reached(
    file: str, reach: tuple[str, ...], counts: bool, sources: Path
) -> None:
    before = code_of(reach)
    edited(sources / file)
    assert (code_of(reach) != before) == counts


def test_comments_docstrings_and_names_of_files_do_not_count(sources: Path) -> None:
    before, schedules = code_of(BOYAN), sources / "engine" / "schedules.py"
    edited(
        schedules, lambda text: text.replace('"""Step sizes', '"""# Other words\n\nStep sizes') + "\n\n# A.\n"
    )
    assert code_of(BOYAN) == before
    schedules.rename(sources / "engine" / "step_sizes.py")
    for user in sources.rglob("*.py"):
        words = user.read_text()
        user.write_text(words.replace("engine.schedules import", "engine.step_sizes import"))
    forget()
    assert code_of(BOYAN) == before
    edited(sources / "engine" / "step_sizes.py", lambda text: text.replace("return ", "return 1.0 * ", 1))
    assert code_of(BOYAN) != before


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("boyan-chain", set()),
        ("garnet", set()),
        ("taxi", {"gymnasium"}),
        ("resource-gathering", {"gymnasium", "mo-gymnasium"}),
    ],
)
def test_versions_count_where_they_matter(task: str, names: set[str]) -> None:
    found = made_with(reach_of(task, "td-lambda", exact=False))["packages"]
    assert found.keys() == {"numpy", "scipy", "numba", "pymetis"} | names  # no pandas, no pyarrow


def test_another_gymnasium_leaves_chains_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taxi, version = reach_of("taxi", "td-lambda", exact=False), provenance.installed_version
    before = code_of(BOYAN), code_of(taxi)
    monkeypatch.setattr(
        provenance, "installed_version", lambda name: "9" if name == "gymnasium" else version(name)
    )
    forget()
    assert code_of(BOYAN) == before[0]
    assert code_of(taxi) != before[1]
    monkeypatch.undo()
    forget()


CALLED = """
import sys
import gainbias as gb
from gainbias.experiments.cell import Cell
from gainbias.experiments.provenance import MACHINERY, reached

study = gb.Study(
    tasks=[sys.argv[1]], algorithms=[sys.argv[2]], step_size=[0.1], num_steps=50, instances=1, sampling="iid",
    exact=sys.argv[3] == "exact",
)
[cell] = study.cells()
called = set()

def note(frame, event, _):
    if event == "call":
        called.add(frame.f_globals.get("__name__", ""))

sys.setprofile(note)
cell.compute()
sys.setprofile(None)
known = reached(cell.reach)[0].keys() | MACHINERY | {"gainbias"}
unknown = sorted(name for name in called if name.startswith("gainbias") and name not in known)
assert len(called) > 20, called
assert not unknown, unknown
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "algorithm", "exact"),
    [
        *(("garnet", algorithm, "sampled") for algorithm in ("double-chain", "lstd", "vrtd", "lspe")),
        ("boyan-chain", "single-chain", "exact"),
        ("taxi", "td-lambda", "sampled"),
        ("fruit-tree-5", "differential-td", "sampled"),
        ("mm1k-admission", "adaptive-td", "sampled"),
    ],
)
def test_whatever_is_called_can_be_reached(task: str, algorithm: str, exact: str) -> None:
    """Kernels run as Python, so that all calls are seen."""
    done = subprocess.run(
        [sys.executable, "-c", CALLED, task, algorithm, exact],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_import_of_the_package_is_seen(sources: Path) -> None:
    """The graph of imports has every ``from gainbias... import`` outside of what only type checkers read."""
    for file in sources.rglob("*.py"):
        tree = ast.parse(file.read_text())
        wanted = {
            node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gainbias.")
        }
        assert wanted <= provenance._parsed(file.read_bytes(), "", False).imports, file


def test_what_has_changed_is_said(sources: Path) -> None:
    before = made_with(BOYAN)["modules"]
    edited(sources / "engine" / "paths.py")
    after = made_with(BOYAN)["modules"]
    assert {name for name in after if before.get(name) != after[name]} == {"gainbias.engine.paths"}
