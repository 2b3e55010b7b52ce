"""What the tests share: the recordings that the repository carries."""

import os
import pathlib
import shutil

import pytest

import framewright

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sample_path():
    return ROOT / "traces" / "sample.pft.zst"


@pytest.fixture(scope="session")
def text_path():
    return ROOT / "traces" / "fork-storm.ftrace.gz"


@pytest.fixture(scope="session")
def settings_path():
    """A recording with its machine's zones and settings beside it."""
    return ROOT / "traces" / "settings.pft.zst"


@pytest.fixture(scope="session")
def sample(sample_path):
    return framewright.load(sample_path)


@pytest.fixture(scope="session")
def command():
    """The command line's program."""
    return os.environ["FRAMEWRIGHT"]


@pytest.fixture
def copied(sample_path, tmp_path):
    """The sample under another name, without what lies beside it."""
    return pathlib.Path(shutil.copy(sample_path, tmp_path / "copied.pft.zst"))


def pytest_terminal_summary(terminalreporter):
    # As Rust's tests say it, so that one count has both.
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error")}
    verdict = "FAILED" if counts["failed"] or counts["error"] else "ok"
    terminalreporter.write_line(f"test result: {verdict}. {counts['passed']} passed; {counts['failed']} failed")
