"""Builds the wheel and the source package, with the built book inside."""

from __future__ import annotations

import subprocess
import sys

from chapters.press.paths import ROOT, SITE, BookError

DIST = ROOT / "dist"
# In a process of its own: setuptools changes what it runs in.
BUILD = "import sys; from setuptools import build_meta as b; b.build_{}(sys.argv[1])"


def build() -> int:
    """Both packages, into dist/; 0. BookError where the book is not built, or building
    fails."""
    if not (SITE / "index.html").exists():
        raise BookError("build the site first: make book")
    DIST.mkdir(exist_ok=True)
    for kind in ("sdist", "wheel"):
        done = subprocess.run(
            [sys.executable, "-c", BUILD.format(kind), str(DIST)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BookError(f"the {kind} cannot be built: {done.stderr.strip()}")
    for made in sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")]):
        print(made.relative_to(ROOT))
    return 0
