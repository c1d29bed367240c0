"""A real browser: the system's Chromium and its driver, never one that a package downloads."""

import os
from pathlib import Path

import pytest

from gainbias.report.pages.paper_study import write_study_page
from gainbias.report.paper_tables import study_tables
from tests.report.interactive.browser import Browser, find_programs, start_driver

REQUIRED = "GAINBIAS_REQUIRE_BROWSER"
"""Set where these tests must not be skipped."""


def pytest_collection_modifyitems(items):
    """Mark whatever needs the browser as slow: what it takes is time of other processes."""
    for item in items:
        if "programs" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def programs():
    """Paths of browser and driver."""
    found = find_programs()
    if found is None:
        message = "no Chromium with chromedriver here: apt-get install chromium chromium-driver"
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    """Where pictures go, for a person to look at."""
    chosen = os.environ.get("GAINBIAS_SCREENSHOTS")
    if not chosen:
        return tmp_path_factory.mktemp("screenshots")
    Path(chosen).mkdir(parents=True, exist_ok=True)
    return Path(chosen)


@pytest.fixture(scope="session")
def driver(programs):
    driver = start_driver(programs)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def tables(results, paper):
    return study_tables(results, paper)


@pytest.fixture(scope="session")
def page(results, paper, tables, tmp_path_factory):
    """Return the page of the small study."""
    return write_study_page(results, paper, tables, tmp_path_factory.mktemp("page") / "index.html")


@pytest.fixture
def window(driver, page):
    """Return a browser that has not opened the page yet."""
    return Browser(driver, page)


@pytest.fixture
def browser(window):
    """Return a browser that shows the learning curves as the paper scores them."""
    return window.open("view=curves&protocol=literal")
