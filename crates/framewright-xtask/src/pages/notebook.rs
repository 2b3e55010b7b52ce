//! The notebook of the Python package as a page of the book: what it says and what it runs. It keeps no outputs.

use crate::kernels::boot;
use serde::Deserialize;
use std::fs;

/// The region's name.
pub(super) const NAME: &str = "notebook";

const FILE: &str = "python/fragmentation.ipynb";

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<NotebookCell>,
}

#[derive(Deserialize)]
struct NotebookCell {
    cell_type: String,
    source: Vec<String>,
}

/// The notebook's cells.
pub(super) fn page() -> Result<String, String> {
    let text = fs::read_to_string(boot::root().join(FILE));
    let text = text.map_err(|error| format!("{FILE}: {error}"))?;
    shown(&text).map_err(|error| format!("{FILE}: {error}"))
}

fn shown(text: &str) -> Result<String, String> {
    let notebook: Notebook = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let cell = |cell: &NotebookCell| {
        let source = cell.source.concat();
        match cell.cell_type.as_str() {
            // The notebook links to `../docs/`, and its page lies in that folder.
            "markdown" => Ok(format!("{}\n", source.replace("](../docs/", "]("))),
            "code" => Ok(format!("```python\n{source}\n```\n")),
            other => Err(format!("there is no form for a cell of type `{other}`")),
        }
    };
    let cells: Result<Vec<String>, String> = notebook.cells.iter().map(cell).collect();
    Ok(cells?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_and_code_is_fenced() {
        let one = r##"{"cells": [{"cell_type": "markdown", "source": ["# A\n", "[b](../docs/b.md)"]},
                               {"cell_type": "code", "source": ["x = 1"], "outputs": []}]}"##;
        let wanted = "# A\n[b](b.md)\n\n```python\nx = 1\n```\n";
        assert_eq!(shown(one), Ok(wanted.to_owned()));
        let raw = one.replace("code", "raw");
        assert!(shown(&raw).is_err_and(|error| error.contains("`raw`")));
        assert!(shown("{}").is_err());
    }
}
