//! The tables of the documents, where they lie beside the repository: what the experiments carry of them is
//! compared.

use std::path::Path;

/// The text of a table, if it is there.
pub(super) fn shared(name: &str) -> Option<String> {
    let root = std::env::var_os("FRAMEWRIGHT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        Into::into,
    );
    let path = root.join("published").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    text
}

/// Its rows, behind the line that names the columns.
pub(super) fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1)
        .map(|line| line.split(',').collect())
}
