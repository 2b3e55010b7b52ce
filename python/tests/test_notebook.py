"""The notebook runs as it stands, and is kept without its outputs."""

import pathlib

import nbclient
import nbformat
import pytest

import framewright

NOTEBOOK = pathlib.Path(__file__).resolve().parents[1] / "fragmentation.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_the_notebook_has_no_outputs(notebook):
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert cell.metadata == {}


def test_the_notebook_runs(notebook):
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(NOTEBOOK.parent))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs and all(output.output_type != "error" for output in outputs)
    # What a reader sees is figures, no warning.
    assert all(output.get("name") != "stderr" for output in outputs)


def test_the_worked_example_of_the_book_runs(monkeypatch):
    root = NOTEBOOK.parents[1]
    page = (root / "docs" / "python.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    *lines, last = program.strip().splitlines()
    monkeypatch.chdir(root)
    found: dict = {}
    with pytest.warns(framewright.HollowWarning):
        exec("\n".join(lines), found)
    # What the page says of it, figures and verdict.
    differs = eval(last, found)
    assert differs.loc["failures_order3", "concentrated"]
    assert not differs.loc["failures_order4", "concentrated"]
    for metric in ("failures_order3", "failures_order4"):
        for policy in ("linux-6.12", "concentrated"):
            shown = page.partition(f"b40000, {policy}, {metric} -->")[2].partition("<!--")[0]
            assert shown == f"{found['table'].loc[metric, policy]:.0f}"
        shown = page.partition(f"calibration, error_{metric} -->")[2].partition("<!--")[0]
        assert shown == f"{found['error'][metric]:.0f}"
