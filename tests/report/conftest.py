"""Studies that tests only read."""

import pytest

from tests.report.synthetic import FEW, make_paper, make_results


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """Three tasks, three runs, all protocols."""
    return make_results(tmp_path_factory.mktemp("study"), tasks=FEW)


@pytest.fixture(scope="session")
def paper():
    """Return what a paper about the three tasks prints."""
    return make_paper(FEW)
