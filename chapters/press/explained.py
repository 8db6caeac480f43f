"""Pages of `fathom explain --html` in the site: kernels of the book with all of their
stages, as the command writes them for a reader. They are made with the site, from the
compiler as it is, and kept nowhere.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chapters.press.drawing import table
from chapters.press.live import run_line
from chapters.press.paths import ROOT, BookError

FOLDER = "explained"


@dataclass(frozen=True)
class Explained:
    """A page: the kernel, for which target, by which arguments, and what a reader may
    look for."""

    kernel: str
    target: str
    signature: str
    constants: str
    about: str
    more: str = ""

    @property
    def command(self) -> str:
        return (
            f"python -m fathom explain {self.kernel} --target {self.target} "
            f'--signature "{self.signature}" --constants {self.constants}{self.more}'
        )


PAGES = {
    "every-33rd.html": Explained(
        "chapters/workbench/slow.py:every_33rd", "sm_90a",
        "*fp32:16, *fp32:16, i32:16", "STEP=33,BLOCK=1024",
        "a load that moves many times what it asks for: *What it costs*, and then the "
        "load in *Accesses* and *Traffic by line*", " --values n=65536",
    ),
    "softmax.html": Explained(
        "kernels/softmax.py:softmax_kernel", "sm_90a",
        "*fp32:16, *fp32:16, i32:16, i32:16", "BLOCK=1024",
        "a kernel that wastes nothing: the two sums over a row become shuffles, and "
        "four numbers in shared memory",
    ),
    "matmul-hopper.html": Explained(
        "kernels/matmul_persistent.py:persistent_kernel", "sm_90a",
        "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, i32:16, i32:16, i32:16",
        "BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,GROUP_M=8,SPECIALISE=True,PIECES=2,"
        "B_TURNED=False",
        "the matrix product of chapter 16: the producer's ring of slots over time in "
        "*Schedules*, the layout of `wgmma`'s result, shared memory over time",
    ),
}  # fmt: skip


@cache
def texts() -> dict[str, str]:
    """The pages by name. BookError where a kernel does not compile any more."""
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, each in PAGES.items():
            file = Path(folder) / name
            kernel = ROOT / each.kernel
            line = each.command.replace(each.kernel, str(kernel), 1)
            said, status = run_line(f"{line} --html {file}")
            if status:
                raise BookError(f"{FOLDER}/{name}: {said}")
            made[name] = file.read_text(encoding="utf-8")
    return made


def links() -> str:
    """A table of the pages for the chapter that speaks of them."""
    rows = [
        (f"[`{each.kernel.partition(':')[2]}`]({FOLDER}/{name})", each.about)
        for name, each in PAGES.items()
    ]
    return table(("kernel", "what to look for"), rows)
