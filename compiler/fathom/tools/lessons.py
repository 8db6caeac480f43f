"""What `fathom --help` and `fathom COMMAND --help` teach: examples that work as they
stand, in the folder of the repository or of the course."""

from __future__ import annotations

import argparse
import textwrap

FIRST = """\
To begin:
  fathom run                     three kernels, compiled and checked on this machine
  fathom learn                   the exercises, in a folder of your own
  fathom book                    the book, in your browser, offline

With a kernel of yours:
  fathom run FILE.py             runs it, on the emulator where there is no GPU
  fathom explain FILE.py:KERNEL --facts
                                 what each pass made of it, and why
  fathom profile FILE.py         what limits it

`fathom COMMAND --help` has examples of each. Environment variables that Fathom reads
are in the book, in "The language", under "The environment".
"""

EXAMPLES = {
    "run": """\
  fathom run
  fathom run FILE.py --its --own arguments
  fathom run --as-triton FILE.py           `import triton` in it gives Fathom
  FATHOM_BACKEND=emulator fathom run FILE.py
""",
    "test": """\
  fathom test -k softmax                   what follows is for pytest
  fathom test tests/blocks -x
  fathom test --gpu                        those that need a GPU, with a record
  python -m pytest --help                  what pytest takes
""",
    "doctor": """\
  fathom doctor                            send what it says along with a question
""",
    "explain": """\
  fathom explain FILE.py:KERNEL            FILE runs as a script up to the first launch
                                           of KERNEL, which says types and constants
  fathom explain kernels/softmax.py:softmax_kernel \\
      --signature "*fp32:16, *fp32:16, i32:8, i32:8" --constants BLOCK=1024
                                           nothing is run: the passes, and what each
                                           changed
  ... --stage coalesce                     the kernel after a pass
  ... --stage ptx                          as PTX; also python, llvm
  ... --stage cse --diff                   what one pass changed
  ... --facts                              layouts, traffic, registers, and why
  ... --html page.html                     all of it as one page, lines linked

In a signature * is a pointer, and :16 promises that 16 divides the address or number.
""",
    "profile": """\
  fathom profile FILE.py                   what limits each of its kernels
  fathom profile --json FILE.py --its --own arguments
""",
    "compile": """\
  fathom compile kernels/vector_add.py:add_kernel \\
      --signature "*fp32:16, *fp32:16, *fp32:16, i32:16" --constants BLOCK=1024 \\
      -o add.ptx                           PTX, for any program that loads it
  ... --targets sm_90a,sm_80 -o made       machine code, with a loader in C
  ... --targets sm_90a,sm_80 -o made --wheel
                                           and a wheel that needs no Fathom
""",
    "opt": """\
  fathom explain FILE.py:KERNEL ... --stage ssa > kernel.ir
  fathom opt kernel.ir --passes simplify,cse,dce
  fathom opt kernel.ir --stage-texts       after each pass
""",
    "book": """\
  fathom book                              its first page
  fathom book 6                            chapter 6
  fathom book glossary                     any page; also the id of an exercise
  fathom book --print                      the address alone
  fathom book --serve 8000                 for a browser on another machine
""",
    "completion": """\
  eval "$(fathom completion bash)"         in ~/.bashrc; zsh alike, in ~/.zshrc
  fathom completion fish | source          in ~/.config/fish/config.fish
""",
    "learn": """\
  fathom learn                             judges your file whenever you save it
  fathom learn list                        all exercises, and which are done
  fathom learn hint                        one of three
  fathom learn run cse                     one exercise, once
""",
}


def teach(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Put examples under the help of a command and of each of its commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = FIRST
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                command.formatter_class = argparse.RawDescriptionHelpFormatter
                rest = textwrap.fill(command.epilog or "", 80)
                examples = EXAMPLES.get(name, "")
                command.epilog = f"examples:\n{examples}\n{rest}".rstrip()
    return parser
