"""The package as a whole: lazy names, their stub, import time, and rules that no tool checks."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import gainbias

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "scipy", "numba", "rich", "pandas")


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


class TestPublicNames:
    def test_each_name_can_be_imported(self):
        for name in gainbias.__all__:
            assert getattr(gainbias, name) is not None
            assert name in dir(gainbias)

    def test_the_stub_has_the_same_names_from_the_same_modules(self):
        stub = ast.parse((ROOT / "src/gainbias/__init__.pyi").read_text())
        homes = {
            alias.asname: node.module
            for node in stub.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert homes == gainbias._HOMES

    def test_each_name_is_documented_with_an_example(self):
        for name, home in gainbias._HOMES.items():
            docstring = getattr(importlib.import_module(home), name).__doc__
            assert docstring, name
            if not name.endswith(("Error", "Solution", "Structure", "ALGORITHMS", "TASKS")):
                assert ">>>" in docstring, name

    def test_each_name_is_in_the_reference(self):
        reference = (ROOT / "docs/api.md").read_text()
        assert set(re.findall(r"^\.\. (?:auto\w+|data):: gainbias\.(\w+)$", reference, re.MULTILINE)) == set(
            gainbias._HOMES
        )

    def test_an_unknown_name_is_an_attribute_error(self):
        with pytest.raises(AttributeError, match="module 'gainbias' has no attribute 'slove'"):
            gainbias.slove  # noqa: B018

    def test_the_version_is_in_the_changelog_and_the_citation(self):
        """The newest changes are those of this version, or of none yet, above those of an older one."""
        newest, older = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:2]
        assert newest in ("Unreleased", gainbias.__version__)
        assert older < gainbias.__version__
        assert f"version: {gainbias.__version__}\n" in (ROOT / "CITATION.cff").read_text()


class TestImportTime:
    @pytest.mark.parametrize(
        "start", ["import gainbias", "from gainbias.cli import parser; parser().format_help()"]
    )
    def test_nothing_heavy_is_imported(self, start):
        loaded = run_python(f"{start}; import sys; print(*sys.modules)").split()
        assert not set(HEAVY) & set(loaded)

    @pytest.mark.parametrize("arguments", [["-c", "import gainbias"], ["-m", "gainbias", "--help"]])
    def test_it_takes_less_than_0_3_seconds(self, arguments):
        def seconds():  # of work, so that a busy machine does not count
            before = os.times()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            after = os.times()
            return after.children_user + after.children_system - before.children_user - before.children_system

        assert min(seconds() for _ in range(5)) < 0.3


class TestRules:
    def test_constraints_are_names_and_versions_only(self):
        for line in (ROOT / "constraints.txt").read_text().splitlines():
            assert line.startswith("#") or re.fullmatch(r"[\w.-]+==[\w.]+", line), line

    def test_every_dependency_is_pinned_and_explained(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        requirements = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
        names = {re.match(r"[\w-]+", line).group().lower() for line in requirements} - {"gainbias"}
        pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
        assert names <= pinned
        explained = (ROOT / "docs/dependencies.md").read_text().lower()
        assert [name for name in sorted(names) if f"`{name}`" not in explained] == []

    def test_the_base_is_small(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        names = {re.match(r"[\w-]+", line).group() for line in project["dependencies"]}
        assert names == {"numpy", "scipy", "numba", "rich"}
