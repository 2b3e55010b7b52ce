"""The notebook runs as it stands, and is kept without its outputs."""

import pathlib

import nbclient
import nbformat
import pytest

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
