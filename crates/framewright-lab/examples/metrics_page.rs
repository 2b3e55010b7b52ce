//! Makes the tables of `docs/metrics.md` anew from the tables of metrics.

use framewright_lab::report::metrics_page;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    std::fs::write(path, metrics_page(&std::fs::read_to_string(path)?)?)?;
    Ok(())
}
