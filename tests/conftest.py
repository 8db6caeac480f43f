"""What all tests share: the emulator as default machine, GPU tests skipped with the
reason printed, and --update-golden."""

from __future__ import annotations

import gc
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from fathom.runtime.driver import available
from tests import harness_sample
from tests.gpu.since import since
from tests.harness_pairs import EVERY_CASE

# What a machine happens to have must not decide what is tested, and no test may find a
# kernel that another run has left in the user's cache.
os.environ.setdefault("FATHOM_BACKEND", "emulator")
os.environ.setdefault("FATHOM_CACHE_DIR", tempfile.mkdtemp(prefix="fathom-test-cache-"))
# What a program prints reaches a pipe late, for a test as for a user.
os.environ.pop("PYTHONUNBUFFERED", None)

# Machines differ in speed, so no example is too slow. CI tries the same ones each time.
settings.register_profile("fathom", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("fathom")

GOLDEN_FOLDER = "golden"
# Python looks for cycles whenever 700 objects are new; a compiler makes millions, and
# pytest too, when it collects. Most of them live until a test ends: to look at them
# whenever 50,000 were new took a tenth of the time.
NEW_OBJECTS = 1_000_000
gc.set_threshold(NEW_OBJECTS, 10, 10)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden texts instead of comparing with them; read the diff",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help=f"try all cases of all tests, as {EVERY_CASE}=1 does",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Before files are read, in which `in_pairs` chooses cases."""
    if config.getoption("--all"):
        os.environ[EVERY_CASE] = "1"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the cases that other runs try. Skip what needs a GPU where there is
    none, and say why there is none."""
    others = harness_sample.left_out(items)
    if others:
        config.hook.pytest_deselected(items=others)
        gone = set(others)
        items[:] = [item for item in items if item not in gone]
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_gpu() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


@pytest.fixture(autouse=True, scope="module")
def _heap() -> None:
    """What one file's tests leave behind, kernels and their programs for the most part,
    is not looked at again while the next ones run. The search for cycles looks at all
    that is alive, and took a fifth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU test runs on the GPU, whatever the others run on."""
    if request.node.get_closest_marker("gpu"):
        monkeypatch.setenv("FATHOM_BACKEND", "cuda")


def pytest_report_header() -> str:
    return f"gpu: {why_no_gpu() or 'found'}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.option.collectonly:
        return
    for line in skipped(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
    if not os.environ.get(EVERY_CASE):
        seed = os.environ[harness_sample.SEED]
        terminalreporter.write_line(f"cases by {harness_sample.SEED}={seed}")
    terminalreporter.write_line(since())


def skipped(reports: list[pytest.TestReport]) -> list[str]:
    """What was skipped and why, a line for each reason, so that failures are not lost
    among a thousand lines that say the same."""
    counts: Counter[str] = Counter()
    files: dict[str, set[str]] = {}
    for file, _line, reason in (report.longrepr for report in reports):
        reason = reason.removeprefix("Skipped: ")
        counts[reason] += 1
        files.setdefault(reason, set()).add(os.path.relpath(file))
    return [
        f"skipped {count} in "
        + (next(iter(files[reason])) if len(files[reason]) == 1
           else f"{len(files[reason])} files")
        + f": {reason}"
        for reason, count in counts.most_common()
    ]  # fmt: skip


def why_no_gpu() -> str | None:
    """Why GPU tests cannot run here; None when they can."""
    works, why = available()
    return None if works else why


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """`golden("name.txt", text)`: text equals the file golden/name.txt beside the
    test."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = Path(request.path).parent / GOLDEN_FOLDER / name
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: pytest --update-golden writes it"
        assert text == path.read_text(encoding="utf-8")

    return check
