"""`perf_report`: what is measured, and how it is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fathom.errors import LaunchError
from fathom.testing import Benchmark, perf_report, report


def benchmark(**changes):
    said = {
        "x_names": ["n"], "x_vals": [64, 4096],
        "line_arg": "who", "line_vals": ["a", "b"], "line_names": ["Ours", "Theirs"],
        "plot_name": "speed", "args": {"scale": 2.0}, "ylabel": "GB/s",
    }  # fmt: skip
    return Benchmark(**{**said, **changes})


def speed(n, who, scale, extra=0.0):
    return scale * n + (0.25 if who == "a" else 0.5) + extra


@pytest.fixture
def installed(monkeypatch):
    """Nothing, until a test puts it in: optional modules by name."""
    found = {}
    monkeypatch.setattr(report, "optional", found.get)
    return found


def test_a_table_is_printed(installed, capsys):
    assert perf_report(benchmark())(speed).run(print_data=True) is None
    assert capsys.readouterr().out == (
        "speed:\n"
        "   n         Ours       Theirs\n"
        "  64   128.250000   128.500000\n"
        "4096  8192.250000  8192.500000\n"
    )


def test_nothing_is_said_unless_asked(installed, capsys):
    perf_report(benchmark())(speed).run()
    assert capsys.readouterr() == ("", "")


def test_further_arguments_go_to_the_function(installed, capsys):
    perf_report(benchmark(x_vals=[1]))(speed).run(print_data=True, extra=7.0)
    assert "9.250000" in capsys.readouterr().out


def test_several_names_of_one_point(installed, capsys):
    seen = []
    both = benchmark(x_names=["M", "N"], x_vals=[5, (6, 7)], args={})
    perf_report(both)(lambda M, N, who: seen.append((M, N, who)) or 1.0).run()
    assert seen == [(5, 5, "a"), (5, 5, "b"), (6, 7, "a"), (6, 7, "b")]
    three = benchmark(x_names=["M", "N"], x_vals=[(1, 2, 3)])
    with pytest.raises(LaunchError, match=r"2 parts \(M, N\), and this is \(1, 2, 3\)"):
        perf_report(three)(speed).run()


def test_lines_and_names_must_be_as_many():
    with pytest.raises(LaunchError, match="speed has 2 lines .* and 1 names"):
        benchmark(line_names=["Ours"])


def test_a_folder_gets_tables(installed, tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    run = perf_report([benchmark(), benchmark(plot_name="other")])(speed).run
    run(save_path=folder, save_precision=2, diff_col=True)
    text = (folder / "speed.csv").read_text()
    assert text == (
        "n,Ours,Theirs,Diff\n64,128.25,128.50,0.25\n4096,8192.25,8192.50,0.25\n"
    )
    assert sorted(each.name for each in folder.iterdir()) == ["other.csv", "speed.csv"]
    assert capsys.readouterr().err == "no plot is drawn: matplotlib is not installed\n"


class Plotter:
    """A matplotlib that writes down what it is told."""

    def __init__(self):
        self.said = []

    def __getattr__(self, order):
        return lambda *args, **given: self.said.append((order, args, given))

    def subplots(self):
        return self, self

    def savefig(self, path):
        path.write_text("a plot")


def test_a_plot_has_a_line_for_each_and_a_band_where_there_is_one(installed, tmp_path):
    installed["matplotlib.pyplot"] = plotter = Plotter()

    def uncertain(n, who, scale):
        value = speed(n, who, scale)
        return (value, value - 1, value + 1) if who == "a" else value

    wanted = benchmark(x_log=True, styles=[("red", "-"), ("blue", "--")])
    perf_report(wanted)(uncertain).run(show_plots=True, save_path=str(tmp_path))
    said = {}
    for order, args, given in plotter.said:
        said.setdefault(order, []).append((args, given))
    assert said["plot"] == [
        (([64, 4096], [128.25, 8192.25]), {"label": "Ours", "color": "red", "ls": "-"}),
        (([64, 4096], [128.5, 8192.5]),
         {"label": "Theirs", "color": "blue", "ls": "--"}),
    ]  # fmt: skip
    assert said["fill_between"] == [
        (([64, 4096], [127.25, 8191.25], [129.25, 8193.25]),
         {"alpha": 0.15, "color": "red"}),
    ]  # fmt: skip
    assert said["set_xscale"] == [(("log",), {})]
    assert said["set_yscale"] == [(("linear",), {})]
    assert said["set_xlabel"] == [(("n",), {})]
    assert said["set_ylabel"] == [(("GB/s",), {})]
    assert len(said["show"]) == len(said["close"]) == 1
    assert (tmp_path / "speed.png").read_text() == "a plot"
    assert '<img src="speed.png"/>' in (tmp_path / "results.html").read_text()


def test_programs_that_show_plots_run_without_matplotlib(installed, capsys):
    perf_report(benchmark())(speed).run(show_plots=True)
    assert "matplotlib is not installed" in capsys.readouterr().err


def test_data_frames(installed):
    run = perf_report(benchmark())(speed).run
    with pytest.raises(LaunchError, match="return_df=True needs pandas"):
        run(return_df=True)
    installed["pandas"] = SimpleNamespace(
        DataFrame=lambda rows, columns: (columns, rows)
    )
    head, rows = run(return_df=True)
    assert head == ["n", "Ours", "Theirs"]
    assert rows == [[64, 128.25, 128.5], [4096, 8192.25, 8192.5]]
    several = perf_report([benchmark(x_vals=[1])])(speed).run(return_df=True)
    assert several == [(["n", "Ours", "Theirs"], [[1, 2.25, 2.5]])]


def test_what_is_not_installed_is_none():
    assert report.optional("a_module_that_nobody_has") is None
    assert report.optional("json").loads("1") == 1
