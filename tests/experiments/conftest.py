"""A study that tests only read."""

import pytest

from gainbias.experiments.results import Results
from tests.experiments.small import run_small


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_small(tmp_path_factory.mktemp("study") / "results")
