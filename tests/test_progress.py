"""The bar that shows how far long work is."""

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
