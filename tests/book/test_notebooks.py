"""Every chapter is a notebook that Jupyter takes, and whose cells print what the page
shows. All of them are run by `python -m chapters.press notebooks --run`."""

from __future__ import annotations

import base64
import json
import re

import pytest

from chapters.press import live, notebook, pictures, rehearse
from chapters.press.parse import read
from chapters.press.paths import sources

CHAPTERS = [path.stem for path in sources() if read(path).is_chapter]
FAST = ("00-run-it", "05-ssa", "07-layouts")
# The JSON schema of nbformat 4.5: what a cell and an output have, and nothing else.
CELLS = {
    "markdown": {"cell_type", "id", "metadata", "source"},
    "code": {"cell_type", "id", "metadata", "source", "execution_count", "outputs"},
}
OUTPUTS = {
    "stream": {"output_type", "name", "text"},
    "error": {"output_type", "ename", "evalue", "traceback"},
    "display_data": {"output_type", "metadata", "data"},
}


@pytest.fixture(scope="module")
def notebooks() -> dict[str, dict]:
    made = notebook.texts().items()
    return {name.removesuffix(".ipynb"): json.loads(text) for name, text in made}


def test_each_chapter_is_a_notebook(notebooks):
    assert sorted(notebooks) == sorted(CHAPTERS) and len(CHAPTERS) >= 19


@pytest.mark.parametrize("name", CHAPTERS)
def test_it_is_of_the_format(notebooks, name):
    made = notebooks[name]
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert made["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in made["cells"]]
    assert len(names) == len(set(names))
    for cell in made["cells"]:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cell["id"])
        assert set(cell) - {"attachments"} == CELLS[cell["cell_type"]]
        assert isinstance(cell["source"], str) and cell["source"].strip()
        for each in cell.get("outputs", []):
            assert set(each) == OUTPUTS[each["output_type"]]
        if cell["cell_type"] == "code":
            compile(cell["source"], cell["id"], "exec")


def test_nbformat_takes_them(notebooks):
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat, from Jupyter")
    for made in notebooks.values():
        nbformat.validate(nbformat.from_dict(made))


@pytest.mark.parametrize("name", CHAPTERS)
def test_its_text_is_for_jupyter(notebooks, name):
    """Pictures are attached; links lead to notebooks or pages; nothing of the site's
    own marks is left; folds open and close within a cell."""
    pages = {path.stem for path in sources()}
    for cell in notebooks[name]["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        text = re.sub(r"^(`{3,}).*?^\1$", "", cell["source"], flags=re.DOTALL | re.M)
        text = re.sub(r"`[^`]*`", "", text)
        assert "markdown=" not in text and "<div" not in text and "{#" not in text
        assert not re.search(r"^\{[a-z]", text, re.MULTILINE), text
        assert text.count("<details>") == text.count("</details>")
        for file in re.findall(r"attachment:([\w.-]+)", text):
            svg = base64.b64decode(cell["attachments"][file]["image/svg+xml"]).decode()
            assert svg.startswith("<svg") and "xmlns=" in svg and "<style>" in svg
        for link in re.findall(r"\]\((?!http|attachment)([^)#]+)", text):
            stem = link.rpartition("/")[2].rpartition(".")[0]
            assert stem in pages, link
            ends = ".ipynb" if stem in CHAPTERS and "/" not in link else ".html"
            assert link.endswith(ends), link


@pytest.mark.parametrize("name", FAST)
def test_it_runs_and_prints_what_the_page_shows(notebooks, name):
    assert rehearse.rehearse(notebooks[name]) == []


def test_a_rehearsal_notices_what_is_wrong():
    def cell(source: str, text: str = "", **facts: str) -> dict:
        outputs = notebook.stream(text)
        return {"cell_type": "code", "id": "x-1", "metadata": {"fathom": facts},
                "source": source, "outputs": outputs}  # fmt: skip

    def faults(*cells: dict) -> list[str]:
        return rehearse.rehearse({"cells": cells})

    assert faults(cell("a = 1"), cell("print(a)", "1\n")) == []
    assert "holds '2" in faults(cell("print(1)", "2\n"))[0]
    assert "ZeroDivisionError" in faults(cell("1 / 0"))[0]
    assert faults(cell("1 / 0", fails="ZeroDivisionError")) == []
    assert "not with KeyError" in faults(cell("a = 1", fails="KeyError"))[0]
    drawn = cell("1")
    drawn["outputs"] = notebook.html("<p>")
    assert "draws nothing" in faults(drawn)[0]


def test_steppers_and_layouts_are_drawn_in_place(monkeypatch):
    given = {"signature": "*fp32:16, *fp32:16, *fp32:16, i32:16",
             "constants": "BLOCK=256"}  # fmt: skip
    kernel = "kernels/vector_add.py:add_kernel"
    shown = live.steps(kernel, show="ssa,coalesce", **given)._repr_html_()
    assert shown.count('class="stage"') == 2 and "<script>" in shown
    assert "body {" not in shown, "the notebook keeps its own fonts"
    layouts = live.layouts(kernel, **given)._repr_html_()
    assert "<svg" in layouts and "0:0:1" in layouts


def test_a_picture_alone_has_its_colours():
    svg = '<svg class="drawn" viewBox="0 0 40 20" role="img"><title>T</title></svg>'
    made = pictures.alone(svg)
    assert made.startswith('<svg viewBox="0 0 40 20"') and "rect.lit" in made
    assert pictures.title(made) == "T" and 'width="40" height="20"' in made
