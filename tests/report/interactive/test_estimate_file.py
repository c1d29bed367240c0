"""The verb `report` on the file of an estimate: a page, or a word about what is wrong with the file."""

import json
import re

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from tests.evaluation.chains import Queue
from tests.evaluation.test_files import Drift, linear
from tests.report.interactive.test_estimate_page import ALWAYS, text_of


@pytest.fixture(scope="module")
def queue():
    return gb.evaluate(Queue, ALWAYS, num_steps=20_000)


@pytest.fixture
def stored(queue, tmp_path):
    queue.save(tmp_path / "queue.npz")
    return tmp_path / "queue.npz"


def test_a_page_beside_the_file_or_elsewhere(stored, queue, capsys):
    assert cli.main(["report", str(stored), "--json"]) == cli.DONE
    page = stored.with_suffix(".html")
    assert json.loads(capsys.readouterr().out) == {"page": str(page), "bytes": page.stat().st_size}
    html = page.read_text()
    assert f"(gain)</span> {repr(queue).splitlines()[0].split()[1]}</h1>" in html
    assert "queue.npz, written 20" in html
    assert f"gainbias {gb.__version__}, Python " in html
    ours = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", ours) == []
    other = stored.parent / "new" / "other.html"
    assert cli.main(["report", str(stored), "--output", str(other)]) == cli.DONE
    assert other.exists()


def test_without_values_nothing_is_said_about_how_they_were_learned(tmp_path):
    states, rewards = np.arange(3_000) % 2, np.random.default_rng(0).normal(size=3_000)
    for name, log in (("plain", {"reward": rewards}), ("states", {"state": states, "reward": rewards})):
        gb.evaluate_log(log).save(tmp_path / f"{name}.npz")
        assert cli.main(["report", str(tmp_path / f"{name}.npz"), "--quiet"]) == cli.DONE
        text = text_of((tmp_path / f"{name}.html").read_text())
        assert "Degrees of freedom" in text
        assert ("Length for values" in text) == (name == "states")


def test_features_that_are_not_in_the_file(tmp_path):
    estimate = gb.evaluate(Drift, "random", features=linear, num_steps=2_500)
    estimate.save(tmp_path / "drift.npz")
    assert cli.main(["report", str(tmp_path / "drift.npz"), "--quiet"]) == cli.DONE
    text = text_of((tmp_path / "drift.html").read_text())
    assert "There are no values here: their features are a function, which the file" in text
    assert "the given function: 3 features" in text


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "is damaged, or no estimate"),
        (lambda path: path.write_text("gain"), "is damaged, or no estimate"),
        (lambda path: np.savez(path, gain=1.0), "is no estimate of gainbias"),
    ],
    ids=["missing", "cut off", "text", "another archive"],
)
def test_what_cannot_be_shown_is_named(stored, capsys, harm, message):
    harm(stored)
    assert cli.main(["report", str(stored)]) == cli.WRONG_INPUT
    shown = capsys.readouterr().err
    assert message in shown
    assert "queue.npz" in shown
    assert not stored.with_suffix(".html").exists()


def test_a_page_that_is_there_is_not_replaced_by_chance(stored, capsys):
    page = stored.with_suffix(".html")
    page.write_text("a page with a command")
    for words in (["report", str(stored)], ["report", str(stored), "--output", str(page)]):
        assert cli.main(words) == cli.WRONG_INPUT
        assert "exists already: name another file, or replace it with --overwrite" in capsys.readouterr().err
        assert page.read_text() == "a page with a command"
    with pytest.raises(ValueError, match="exists already"):
        gb.write_page(stored)
    assert cli.main(["report", str(stored), "--overwrite"]) == cli.DONE
    assert f"replaced what was there before: {page}" in capsys.readouterr().err
    assert "(gain)</span>" in page.read_text()


def test_python_functions_do_not_overwrite_either(stored, queue, tmp_path):
    before = stored.read_bytes()
    with pytest.raises(ValueError, match=r"queue.npz exists already: .*overwrite=True in Python"):
        queue.save(stored)
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(ValueError, match=r"page.html exists already"):
        gb.write_page(queue, tmp_path / "page.html")
    assert (stored.read_bytes(), (tmp_path / "page.html").read_text()) == (before, "mine")
    queue.save(stored, overwrite=True)
    assert gb.write_page(queue, tmp_path / "page.html", overwrite=True).read_text() != "mine"


def test_a_folder_that_is_made_is_named(stored, capsys):
    place = stored.parent / "new" / "er" / "page.html"
    assert cli.main(["report", str(stored), "--output", str(place)]) == cli.DONE
    assert f"made the folder {stored.parent / 'new'}\n" in capsys.readouterr().err


def test_an_estimate_is_not_overwritten(stored, capsys):
    before = stored.read_bytes()
    assert cli.main(["report", str(stored), "--output", str(stored)]) == cli.WRONG_INPUT
    assert "would replace the estimate" in capsys.readouterr().err
    assert stored.read_bytes() == before
