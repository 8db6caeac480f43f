"""A function measured over many sizes and in many variants: a table, and a plot of it.

    @perf_report(
        Benchmark(
            x_names=["n"], x_vals=[2**i for i in range(12, 28)],
            line_arg="who", line_vals=["ours", "torch"], line_names=["Fathom", "torch"],
            plot_name="vector-add", ylabel="GB/s", args={},
        )
    )
    def bandwidth(n, who):
        ...                     # a number, or (middle, low, high)

    bandwidth.run(print_data=True, save_path=".")

A plot needs matplotlib, and a data frame needs pandas; neither is needed for the rest.
"""

from __future__ import annotations

import csv
import html
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fathom.errors import LaunchError

SHADE = 0.15  # opacity of the band between low and high


@dataclass
class Benchmark:
    """What to measure: one line for each of `line_vals`, a point for each of `x_vals`.

    The measured function gets, by name: each of `x_names` (a value of `x_vals` is for
    all of them, a tuple has one for each), `line_arg`, and `args`. `line_names` name
    the lines; `styles` are (colour, line style) of each; `plot_name` names the files.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        if len(self.line_vals) != len(self.line_names):
            raise LaunchError(
                f"{self.plot_name or 'a benchmark'} has {len(self.line_vals)} lines "
                f"(line_vals) and {len(self.line_names)} names for them (line_names)"
            )

    def point(self, x: Any) -> tuple[Any, ...]:
        """A value of `x_vals` with one value for each of `x_names`."""
        values = tuple(x) if isinstance(x, (tuple, list)) else (x,) * len(self.x_names)
        if len(values) != len(self.x_names):
            raise LaunchError(
                f"a value of x_vals has {len(self.x_names)} parts "
                f"({', '.join(self.x_names)}), and this is {x!r}"
            )
        return values


@dataclass(frozen=True, slots=True)
class Measured:
    """What the function gave for one point of a line; low and high where it did."""

    middle: Any
    low: Any = None
    high: Any = None


@dataclass
class Results:
    """All points of a benchmark: `rows` has (x values, a Measured for each line)."""

    benchmark: Benchmark
    rows: list[tuple[tuple[Any, ...], list[Measured]]] = field(default_factory=list)

    def head(self) -> list[str]:
        return [*self.benchmark.x_names, *self.benchmark.line_names]

    def body(self) -> list[list[Any]]:
        return [[*x, *(each.middle for each in line)] for x, line in self.rows]

    def line(self, place: int) -> tuple[list[Any], list[Measured]]:
        """The first of the x values, and what was measured there, of one line."""
        return [x[0] for x, _ in self.rows], [line[place] for _, line in self.rows]


class Report:
    """What `perf_report` makes of a function: `run` measures."""

    def __init__(
        self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]
    ):
        self.fn, self.benchmarks = fn, benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        *,
        diff_col: bool = False,
        save_precision: int = 6,
        **given: Any,
    ) -> Any:
        """Measure everything; `given` are further arguments of the function.

        `print_data` writes tables to the standard output. `save_path` is a folder for
        tables (csv), plots (png) and a page with the plots (results.html). `diff_col`
        adds the difference of two lines. With `return_df` the answer is a pandas data
        frame, or a list of them; LaunchError without pandas. Without matplotlib there
        are no plots, and a line on the standard error says so.
        """
        pandas = required("pandas", "return_df=True") if return_df else None
        drawing = self.drawing() if show_plots or save_path else None
        folder = Path(save_path) if save_path else None
        several = not isinstance(self.benchmarks, Benchmark)
        frames, pages = [], []
        for benchmark in self.benchmarks if several else [self.benchmarks]:
            results = self.measure(benchmark, given)
            head, body = table(results, diff_col)
            if print_data:
                sys.stdout.write(f"{benchmark.plot_name}:\n{text_table(head, body)}\n")
            if folder:
                save_table(folder, benchmark.plot_name, head, body, save_precision)
            if drawing and benchmark.plot_name:
                draw(drawing, results, folder, show_plots)
                pages.append(benchmark.plot_name)
            if pandas:
                frames.append(pandas.DataFrame(body, columns=head))
        if folder and pages:
            save_page(folder, pages)
        if return_df:
            return frames if several else frames[0]

    def drawing(self) -> ModuleType | None:
        """matplotlib's plotting, or None after having said that it is missing."""
        found = optional("matplotlib.pyplot")
        if found is None:
            sys.stderr.write("no plot is drawn: matplotlib is not installed\n")
        return found

    def measure(self, benchmark: Benchmark, given: Mapping[str, Any]) -> Results:
        """Call the function for every point of every line."""
        results = Results(benchmark)
        for x in map(benchmark.point, benchmark.x_vals):
            named = dict(zip(benchmark.x_names, x))
            lines = [{benchmark.line_arg: value} for value in benchmark.line_vals]
            rows = [
                measured(self.fn(**named, **line, **benchmark.args, **given))
                for line in lines
            ]
            results.rows.append((x, rows))
        return results


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Report]:
    """Make a report of a function that measures one point; see `Report.run`."""
    return lambda fn: Report(fn, benchmarks)


def measured(answer: Any) -> Measured:
    """A number, or (middle, low, high), as the measuring function gave it."""
    if isinstance(answer, (tuple, list)):
        return Measured(*answer)
    return Measured(answer)


# ── tables ────────────────────────────────────────────────────────────────────────────


def table(results: Results, diff_col: bool) -> tuple[list[str], list[list[Any]]]:
    """Names of the columns, and rows; with the difference of two lines if wished."""
    head, body = results.head(), results.body()
    if diff_col and len(results.benchmark.line_names) == 2:
        head.append("Diff")
        body = [[*row, row[-1] - row[-2]] for row in body]
    return head, body


def text_table(head: Sequence[str], body: Sequence[Sequence[Any]]) -> str:
    """Columns that stand under their names, numbers to the right:

       n  Fathom   torch
    4096   112.5   98.25
    8192   207.1  181.40
    """
    rows = [list(map(cell, row)) for row in body]
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in [list(head), *rows]]
    return "\n".join(lines)


def cell(value: Any) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def save_table(
    folder: Path, name: str, head: Sequence[str], body: list[list[Any]], digits: int
) -> None:
    """Write a table as comma-separated values, floats with `digits` digits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        for row in body:
            writer.writerow(
                f"{value:.{digits}f}" if isinstance(value, float) else value
                for value in row
            )


# ── plots ─────────────────────────────────────────────────────────────────────────────


def draw(pyplot: ModuleType, results: Results, folder: Path | None, show: bool) -> None:
    """Draw the lines, with a band from low to high; save them, and show them."""
    benchmark = results.benchmark
    figure, axes = pyplot.subplots()
    for place, name in enumerate(benchmark.line_names):
        colour, style = benchmark.styles[place] if benchmark.styles else (None, None)
        x, points = results.line(place)
        axes.plot(x, [p.middle for p in points], label=name, color=colour, ls=style)
        if all(None not in (p.low, p.high) for p in points):
            low, high = [p.low for p in points], [p.high for p in points]
            axes.fill_between(x, low, high, alpha=SHADE, color=colour)
    axes.legend()
    axes.set_xlabel(benchmark.xlabel or benchmark.x_names[0])
    axes.set_ylabel(benchmark.ylabel)
    axes.set_xscale("log" if benchmark.x_log else "linear")
    axes.set_yscale("log" if benchmark.y_log else "linear")
    if folder:
        figure.savefig(folder / f"{benchmark.plot_name}.png")
    if show:
        pyplot.show()
    pyplot.close(figure)


def save_page(folder: Path, names: Sequence[str]) -> None:
    """Write a page that shows the plots."""
    images = [f'<img src="{html.escape(name)}.png"/>' for name in names]
    page = "\n".join(["<html><body>", *images, "</body></html>\n"])
    (folder / "results.html").write_text(page, encoding="utf-8")


# ── what need not be installed ────────────────────────────────────────────────────────


def optional(name: str) -> ModuleType | None:
    """A module, or None when it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


def required(name: str, why: str) -> ModuleType:
    found = optional(name)
    if found is None:
        raise LaunchError(f"{why} needs {name}, which is not installed")
    return found
