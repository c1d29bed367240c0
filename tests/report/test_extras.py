"""What is not installed is named, with what to install."""

import subprocess
import sys

import pytest

import gainbias as gb
from gainbias import cli
from gainbias.report.figures.style import SIZES, drawing


def test_missing_pandas_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "pandas", None)
    folder = tmp_path / "results"
    with pytest.raises(ImportError, match=r"this needs pandas: pip install 'gainbias\[data\]'"):
        gb.reproduce(folder)
    assert cli.main(["reproduce", "--output", str(folder)]) == cli.WRONG_INPUT
    assert "this needs pandas: pip install" in capsys.readouterr().err
    assert not folder.exists()


def test_answers_on_a_terminal_need_no_pandas():
    code = "import sys, gainbias.cli.show; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'gainbias\[report\]'"), drawing(SIZES["one-column"]):
        pass


def test_pages_of_estimates_need_no_pandas():
    code = "import sys, gainbias.report.write; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tables_need_no_matplotlib():
    code = "import sys, gainbias.report.reproduction; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
