"""What is not installed is named, with what to install."""

import importlib
import subprocess
import sys

import pytest

from gainbias.report.style import SIZES, drawing


def test_missing_pandas_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.delitem(sys.modules, "gainbias.report")
    with pytest.raises(ImportError, match=r"pip install 'gainbias\[report,data\]'"):
        importlib.import_module("gainbias.report")


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'gainbias\[report\]'"), drawing(SIZES["one-column"]):
        pass


def test_tables_need_no_matplotlib():
    code = "import sys, gainbias.report.write; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
