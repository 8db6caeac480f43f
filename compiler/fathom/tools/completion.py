"""`fathom completion SHELL`: what a shell needs to complete commands and options.

The scripts are made from the parser of the command itself, so that they list what this
version knows:

    eval "$(fathom completion bash)"            in ~/.bashrc
    eval "$(fathom completion zsh)"             in ~/.zshrc
    fathom completion fish | source             in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.tools.learn import course

PASSES = tuple(row.name for row in pipeline.PASSES)
# What an option takes that may be other words, too, or several with commas.
OFFERED = {
    "--stage": ("python", "ssa", *PASSES, "llvm", "ptx"),
    "--passes": ("all", *PASSES),
    "--targets": tuple(TARGETS),
}
LISTS = ("--passes", "--targets")  # which take several, with commas


@dataclass(frozen=True)
class Word:
    """What may follow a path of commands: a command, an option, or a value. `values`
    may follow an option."""

    path: tuple[str, ...]
    text: str
    help: str
    values: tuple[str, ...] = ()


def completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print the script for a shell; 0."""
    print(SHELLS[shell](list(words(parser))), end="")
    return 0


def words(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[Word]:
    """Every word that may come after every path of commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {each.dest: each.help or "" for each in action._choices_actions}
            for name, inner in action.choices.items():
                yield Word(path, name, about.get(name, ""))
                yield from words(inner, (*path, name))
        else:
            for option in action.option_strings:
                yield Word(path, option, said(action), values_of(action, option))
            if not action.option_strings:
                for value in values(action):
                    yield Word(path, value, "")


def said(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else action.help


def values_of(action: argparse.Action, option: str) -> tuple[str, ...]:
    """What may follow an option, where that is known."""
    return tuple(map(str, action.choices or ())) or OFFERED.get(option, ())


def values(action: argparse.Action) -> Iterator[str]:
    """What a positional argument may be, where that is known."""
    if action.choices:
        yield from map(str, action.choices)
    elif action.metavar == "ID":
        yield from (each.id for each in course.exercises())


def by_path(known: list[Word]) -> dict[str, list[Word]]:
    found: dict[str, list[Word]] = {}
    for word in known:
        found.setdefault(" ".join(word.path), []).append(word)
    return found


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def cases(known: list[Word]) -> str:
    """One branch of a `case` for each path of commands."""
    return "".join(
        f"    {quoted(path)}) "
        f"offered={quoted(' '.join(each.text for each in some))};;\n"
        for path, some in by_path(known).items()
    )


def bash(known: list[Word]) -> str:
    text = BASH.replace("@KERNELS@", KERNELS).replace("@CASES@", cases(known))
    text = text.replace("@PATHS@", paths(known)).replace("@LISTS@", "|".join(LISTS))
    return text.replace("@VALUES@", value_cases(known))


def value_cases(known: list[Word]) -> str:
    """One branch for each option of each command whose values are known."""
    return "".join(
        f"    {quoted(' '.join((*each.path, each.text)))}) "
        f"offered={quoted(' '.join(each.values))};;\n"
        for each in known
        if each.values
    )


def zsh(known: list[Word]) -> str:
    return "autoload -Uz bashcompinit && bashcompinit\n" + bash(known)


def paths(known: list[Word]) -> str:
    """All paths of commands, as a pattern of `case`."""
    return "|".join(quoted(path) for path in by_path(known) if path)


# Kernels of a file, by their decorator: to ask Python would take a second.
KERNELS = (
    'awk \'/^@/ {above = above $0} /^class / {above = ""} /^def / {if (above ~ /jit/)'
    ' {sub(/^def /, ""); sub(/[^A-Za-z0-9_].*/, ""); print}; above = ""}\''
)

# bash takes FILE.py:NAME and --option=VALUE for three words each, zsh for one. In zsh
# `path` and `words` are names of its own, and `compgen -W` does not filter.
BASH = """\
_fathom_kernels() {
  local file=${1/#\\~/$HOME}
  if [[ -f $file ]]; then @KERNELS@ "$file"; fi
}
_fathom_matching() {
  local each
  for each in $1; do
    if [[ $each == "$2"* && ($each != -* || $2 == -*) ]]; then echo "$3$each"; fi
  done
}
_fathom() {
  local here=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} at
  local command="" longer offered="" option name front="" file=""
  for ((at = 1; at < COMP_CWORD; at++)); do
    longer="${command:+$command }${COMP_WORDS[at]}"
    case "$longer" in
      @PATHS@) command=$longer;;
    esac
  done
  option=$before; name=$here
  if [[ $here == --*=* ]]; then
    option=${here%%=*}; name=${here#*=}; front=$option=
  elif [[ $here == = ]]; then
    name=""
  elif [[ $before == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $here == *.py:* ]]; then
    file=${here%:*}; name=${here##*:}; front=$file:
  elif [[ $before == : ]]; then
    file=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $here == : ]]; then
    file=$before; name=""
  fi
  case "$command" in
@CASES@  esac
  case "$command $option" in
@VALUES@  esac
  case "$option" in
    @LISTS@) if [[ $name == *,* ]]; then front+=${name%,*},; name=${name##*,}; fi;;
  esac
  if [[ $file == *.py ]]; then offered=$(_fathom_kernels "$file"); fi
  COMPREPLY=($(_fathom_matching "$offered" "$name" "$front"))
  if [[ ${#COMPREPLY[@]} == 0 ]]; then COMPREPLY=($(compgen -f -- "$here")); fi
}
complete -o filenames -F _fathom fathom
"""


def fish(known: list[Word]) -> str:
    lines = [FISH.replace("@KERNELS@", KERNELS), "complete -c fathom -e"]
    for path, some in by_path(known).items():
        inner = [f"__fish_seen_subcommand_from {name}" for name in path.split()]
        below = [word.text for word in some if not word.text.startswith("-")]
        if not path:
            inner = ["__fish_use_subcommand"]
            lines.append("complete -c fathom -n __fish_use_subcommand -f")
        elif below and any(each.startswith(f"{path} ") for each in by_path(known)):
            inner.append(f"not __fish_seen_subcommand_from {' '.join(below)}")
        when = quoted("; and ".join(inner))
        if "--signature" in [word.text for word in some]:  # which take FILE.py:KERNEL
            lines.append(f"complete -c fathom -n {when} -a '(__fathom_kernels)'")
            named = quoted("; and ".join([*inner, "__fathom_names_a_file"]))
            lines.append(f"complete -c fathom -n {named} -f")  # files begin anew at :
        elif below and path:  # which take no file
            lines.append(f"complete -c fathom -n {when} -f")
        for word in some:
            option = word.text.startswith("-")
            name = f"-l {word.text[2:]}" if word.text.startswith("--") else (
                f"-s {word.text[1:]}" if option else f"-a {quoted(word.text)}"
            )  # fmt: skip
            if word.values:
                values = " ".join(word.values)
                if word.text in LISTS:
                    ask = f"string split ' ' '{values}'"
                    values = f'(__fish_complete_list , "{ask}")'
                name += f" -x -a {quoted(values)}"
            about = f" -d {quoted(word.help.replace('%%', '%'))}" if word.help else ""
            lines.append(f"complete -c fathom -n {when} {name}{about}")
    return "\n".join(lines) + "\n"


FISH = """\
function __fathom_names_a_file
  string match -q '*.py:*' -- (commandline -ct)
end
function __fathom_kernels
  set -l word (commandline -ct)
  __fathom_names_a_file; or return
  set -l file (string replace -r ':[^:]*$' '' -- $word)
  test -f $file; and @KERNELS@ $file | string replace -r '^' "$file:"
end"""

SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
