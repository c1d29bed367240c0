"""The bar that shows how far long work is."""

import logging
import sys
from types import SimpleNamespace

import pytest

from gainbias import progress
from gainbias.progress import Watch


@pytest.fixture
def started(monkeypatch):
    """Watches whose bar would have appeared after a second."""
    watches = []
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(progress.threading.Timer, "start", lambda timer: watches.append(timer))
    return watches


def test_the_outermost_has_the_bar(started):
    with Watch(), Watch():
        assert len(started) == 1
    with Watch():
        assert len(started) == 2


def test_an_error_leaves_room_for_the_next(started):
    with pytest.raises(ValueError, match="inside"), Watch():
        raise ValueError("inside")
    with Watch():
        assert len(started) == 2


class TestNoticesOfCompiling:
    """They come where somebody looks on, once, and logs of the caller get only what they asked for."""

    @pytest.fixture(autouse=True)
    def nothing_told(self, monkeypatch):
        monkeypatch.setattr(progress._Notice, "_told", set())
        monkeypatch.delattr(sys, "ps1", raising=False)

    def compile_something(self):
        with Watch():
            for words in ("compiling", "compiling", "compiling again"):
                logging.getLogger("gainbias.kernels").info(words)

    def test_somebody_who_types_is_told_once(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
        self.compile_something()
        self.compile_something()
        assert capsys.readouterr().err == "gainbias: compiling\ngainbias: compiling again\n"

    def test_so_is_a_terminal(self, started, monkeypatch, capsys):
        place = SimpleNamespace(isatty=lambda: True, write=sys.stderr.write, flush=sys.stderr.flush)
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=place))
        self.compile_something()
        assert capsys.readouterr().err == "gainbias: compiling\ngainbias: compiling again\n"

    def test_a_pipe_is_told_nothing(self, capsys):
        self.compile_something()
        assert capsys.readouterr().err == ""

    def test_a_log_that_asks_for_information_has_it_instead(self, monkeypatch, capsys, caplog):
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
        with caplog.at_level(logging.INFO, logger="gainbias"):
            self.compile_something()
        assert capsys.readouterr().err == ""
        assert caplog.messages == ["compiling", "compiling", "compiling again"]

    def test_a_log_that_does_not_ask_gets_nothing_and_is_left_as_it_was(self, monkeypatch, capsys, caplog):
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
        logger = logging.getLogger("gainbias.kernels")
        before = logger.level, logger.propagate, list(logger.handlers)
        self.compile_something()
        assert caplog.messages == []
        assert (logger.level, logger.propagate, logger.handlers) == before
