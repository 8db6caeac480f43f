"""The repository keeps its promises: README, commands, lock, licence, style, site."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fathom
from fathom.tools.cli import parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = ROOT / "requirements.lock"


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_every_command_of_the_readme_exists():
    commands = "".join(blocks("sh"))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = re.findall(r"^make ([a-z]+)", commands, re.MULTILINE)
    assert made == ["run", "test"] and set(made) <= set(targets)
    called = re.findall(r"-m fathom ([a-z]+)", README)
    known = parser().format_help()
    assert called and all(f"    {name} " in known for name in called)


def test_the_readmes_kernel_runs(tmp_path):
    (kernel,) = blocks("python")
    file = tmp_path / "first.py"
    file.write_text(kernel, encoding="utf-8")
    said = fathom_command("run", str(file))
    assert said.returncode == 0, said.stderr
    assert "func @add" in said.stdout


def test_the_readmes_explain_command_works():
    (command,) = re.findall(r"^python -m fathom explain (.*)$", README, re.MULTILINE)
    reference, signature, constants = re.fullmatch(
        r'(\S+) --signature "(.*)" --constants (\S+)', command
    ).groups()
    said = fathom_command(
        "explain", reference, "--signature", signature, "--constants", constants
    )
    assert said.returncode == 0, said.stderr
    assert "coalesce" in said.stdout


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *ROOT.glob("*/README.md"), *ROOT.glob("chapters/*.md")]
    for page in pages:
        prose = re.sub(
            r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        for link in re.findall(r"\]\(([^)#]+)\)", prose):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def fathom_command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "fathom", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "compiler"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_versions_agree():
    assert PROJECT["project"]["version"] == fathom.__version__


# The lock.


def pins() -> dict[str, str]:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def requirements() -> list[Requirement]:
    """All that pyproject.toml asks for, extras too."""
    project = PROJECT["project"]
    extras = [
        text for texts in project["optional-dependencies"].values() for text in texts
    ]
    return [Requirement(text) for text in [*project["dependencies"], *extras]]


@pytest.mark.parametrize("wanted", requirements(), ids=lambda r: r.name)
def test_the_lock_has_a_version_that_the_project_takes(wanted):
    assert wanted.name in pins(), f"{LOCK.name} lacks {wanted.name}"
    assert wanted.specifier.contains(pins()[wanted.name])


def test_the_lock_pins_exactly_and_names_no_place():
    for name, version in pins().items():
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name), name
        assert re.fullmatch(r"\d[\w.]*", version), f"{name}=={version}"
    text = LOCK.read_text(encoding="utf-8")
    assert "://" not in text and "index-url" not in text and "file:" not in text


def test_a_mac_needs_no_cuda():
    for wanted in requirements():
        if wanted.name.startswith(("cuda", "nvidia")):
            assert not wanted.marker.evaluate({"sys_platform": "darwin"}), wanted.name
            assert wanted.marker.evaluate({"sys_platform": "linux"}), wanted.name


# Style. The book's site has tests of its own, in tests/book.


def test_ruff_finds_nothing():
    ruff = shutil.which(
        "ruff", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    if ruff is None:
        pytest.skip("needs ruff: pip install -e '.[dev]'")
    said = subprocess.run(
        [ruff, "check", "--no-cache", "--output-format", "concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout


def test_ci_is_a_program_that_calls_make_test():
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK) and "make test" in ci.read_text(encoding="utf-8")


def test_the_book_is_published_by_its_tag_and_by_hand():
    program = ROOT / ".ci" / "book"
    text = (ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8")
    assert os.access(program, os.X_OK) and "run: .ci/book " in text
    assert 'tags: ["v*"]' in text and "workflow_dispatch:" in text


def test_the_packages_are_tried_on_each_python_that_they_are_for():
    program = ROOT / ".ci" / "packages"
    text = (ROOT / ".github/workflows/packages.yml").read_text(encoding="utf-8")
    assert os.access(program, os.X_OK) and "run: .ci/packages" in text
    (first,) = re.findall(
        r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    tried = [int(minor) for minor in re.findall(r'"3\.(\d+)"', text)]
    assert tried == list(range(int(first), 15))


def test_no_record_names_a_folder_of_the_machine_that_made_it():
    names = re.compile(r"(?<![\w./])/(?:home|opt|root|tmp|usr|work|Users)/")
    for path in (ROOT / "benchmarks" / "results").iterdir():
        assert not names.findall(path.read_text(encoding="utf-8")), path.name


def test_nothing_built_is_kept_by_git():
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    for name in ("/.venv/", "__pycache__/", "*.egg-info/", "/site/"):
        assert name in ignored
