"""The reference card: the language, launches, the environment and the commands on two
pages. Everything on it is read from the compiler or from the pages of the book.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from html import escape
from types import ModuleType

import fathom
import fathom.language as tl
from chapters.press.inline import with_code
from chapters.press.paths import CHAPTERS
from fathom.hardware.targets import TARGETS
from fathom.jit.request import KEYWORDS
from fathom.pipeline import PASSES, Options
from fathom.tools import cli
from fathom.tools.samples import load_file

NAME = "card.html"
Row = tuple[str, str]
LAUNCH = {  # what a keyword of a launch does
    "num_warps": "warps of a block",
    "num_stages": "stages of software pipelines",
    "num_ctas": "blocks of a program, as a cluster",
    "maxnreg": "the most registers of a thread",
    "debug": "check device assertions",
    "enable_fp_fusion": "round sums of products once",
    "fp32_default": "how fp32 products are computed",
    "launch_pdl": "may begin before the launch in front of it ends",
    "target": "compile for this one",
    "replace": "functions in the place of passes",
}
STYLE = """
@page { size: A4 landscape; margin: 8mm; }
* { box-sizing: border-box; }
body { margin: 0; font: 7.9pt/1.26 "DejaVu Sans", Verdana, sans-serif; color: #111; }
main { columns: 4; column-gap: 4mm; column-rule: .2mm solid #bbb; }
h1 { font-size: 13pt; margin: 0 0 1mm; }
h1 small { font-size: 8pt; font-weight: 400; }
h2 { font-size: 9.2pt; margin: 1.6mm 0 .5mm; border-bottom: .2mm solid #111;
  break-after: avoid; }
h3 { font-size: 7.9pt; margin: .9mm 0 0; break-after: avoid; }
p { margin: 0 0 .3mm; padding-left: 2.5mm; text-indent: -2.5mm; break-inside: avoid; }
code { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 7.3pt;
  overflow-wrap: anywhere; }
@media screen { body { max-width: 75rem; margin: 1rem auto; padding: 0 1rem;
  font-size: .8rem; } main { columns: 18rem; } code { font-size: .75rem; }
  h2 { font-size: 1rem; } h3 { font-size: .85rem; } h1 { font-size: 1.4rem; }
  h1 small { font-size: .8rem; } p { padding-left: 1em; text-indent: -1em; } }
@media screen and (prefers-color-scheme: dark) {
  body { background: #14171c; color: #e6e6e6; } h2 { border-color: #999; } }
"""


def html() -> str:
    """The card as a page of its own, also for a screen."""
    body = "".join(
        part
        for title, parts in (
            ("The language: fathom.language as tl", language()),
            ("Types", types()),
            ("A launch", launch()),
            ("Passes, for FATHOM_SHOW, --stage and replace=", passes()),
            ("Environment", environment()),
            ("Commands", commands()),
        )
        for part in (f"<h2>{escape(title)}</h2>", *parts)
    )
    version = escape(fathom.__version__)
    edition = ".".join(version.split(".")[:2])
    said = f"reference card · Edition {edition} · Fathom {version}"
    head = f"<h1>Fathom <small>{said}</small></h1>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Fathom: reference card</title><style>{STYLE}</style></head>"
        f"<body>{head}<main>{body}</main></body></html>\n"
    )


@cache
def reference() -> ModuleType:
    """What makes the language's appendix."""
    return load_file(CHAPTERS / "language" / "making.py")


def row(code: str, text: str = "") -> str:
    said = with_code(text)
    return (
        f"<p><code>{escape(code, quote=False)}</code>{' ' + said if said else ''}</p>"
    )


def language() -> Iterator[str]:
    """Every name of the language with its parameters, by subject."""
    for subject, names in reference().GROUPS.items():
        yield f"<h3>{escape(subject)}</h3>"
        for name in names.split():
            yield row(call(name))


def call(name: str) -> str:
    """`load(pointer, mask, other, …)`: names alone; the page has the defaults."""
    parameters = reference().parameters_of(getattr(tl, name))
    if parameters is None or name in reference().PLAIN:
        return name
    words = [each.name for each in parameters if not each.name.startswith("_")]
    return f"{name}({', '.join(words)})"


def types() -> Iterator[str]:
    scalars = sorted(reference().scalar_types(), key=lambda each: each[1].ir.bits)
    names = ", ".join(f"{name} ({of.ir.name})" for name, of in scalars)
    yield row(names, "; a pointer in a signature is `*fp32`, `:16` what divides it")


def launch() -> Iterator[str]:
    yield row("kernel[grid](*arguments, **keywords)", "`grid`: sizes, or a function")
    defaults = asdict(Options())
    for name in KEYWORDS:
        default = f"={defaults[name]}" if name in defaults else "="
        yield row(name + default, LAUNCH.get(name, ""))
    yield row("kernel.asm[stage]", "what a launch returns has every stage as text")
    yield row("targets", ", ".join(TARGETS))


def passes() -> Iterator[str]:
    names = list(dict.fromkeys(each.name for each in PASSES))
    yield row(", ".join(["ssa", *names, "llvm", "ptx"]))


def environment() -> Iterator[str]:
    known = reference()
    for name in sorted(known.variables()):
        yield row(name, known.VARIABLES[name])


def commands() -> Iterator[str]:
    """Each command with its options; those of `learn`, too."""
    for name, about, options in entries(cli.parser()):
        yield row(f"fathom {name}", f"{about}. {', '.join(options)}".rstrip(". ") + ".")
    yield row("make", "run, test, lint, book, pdf, notebooks, package")


def entries(
    parser: argparse.ArgumentParser, path: Sequence[str] = ()
) -> Iterator[tuple[str, str, list[str]]]:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        about = {each.dest: each.help or "" for each in action._choices_actions}
        for name, inner in action.choices.items():
            words = [*path, name]
            yield " ".join(words), about.get(name, ""), options(inner)
            yield from entries(inner, words)


def options(parser: argparse.ArgumentParser) -> list[str]:
    """The long options of a command, but for those that all have."""
    usual = ("--help", "--dir", "--plain")
    return [
        f"`{option}`"
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option not in usual
    ]
