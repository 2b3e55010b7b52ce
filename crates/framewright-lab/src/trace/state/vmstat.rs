//! The reader of `/proc/vmstat`: counters by name, whichever ones a kernel has.

use super::words::{ProcLine, shown};
use crate::trace::TraceError;
use std::collections::BTreeMap;

/// Reads `/proc/vmstat`: counters by the kernel's name. `name` stands in errors.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_vmstat(name: &str, text: &str) -> Result<BTreeMap<String, u64>, TraceError> {
    let mut counters = BTreeMap::new();
    for line in ProcLine::all(name, text) {
        let mut words = line.text.split_whitespace();
        let (Some(counter), Some(value), None) = (words.next(), words.next(), words.next()) else {
            let text = shown(line.text);
            return Err(line.error(format!("'{text}', expected a name and a number")));
        };
        if counters
            .insert(counter.to_owned(), line.number(value)?)
            .is_some()
        {
            return Err(line.error(format!("{} is there twice", shown(counter))));
        }
    }
    if counters.is_empty() {
        return Err(TraceError::new(name, "no counters, expected /proc/vmstat"));
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let counters = read_vmstat("v", "nr_free_pages 7\ncompact_stall 0\n").unwrap();
        assert_eq!(counters["nr_free_pages"], 7);
        assert_eq!(counters.len(), 2);
    }

    #[test]
    fn what_is_no_vmstat_is_named_by_line() {
        let error = |text| read_vmstat("v", text).unwrap_err().to_string();
        assert_eq!(error("\n"), "v: no counters, expected /proc/vmstat");
        assert_eq!(error("a 1\nb"), "v:2: 'b', expected a name and a number");
        assert_eq!(error("a -1"), "v:1: '-1' is not a whole number");
        assert_eq!(error("a 1\na 2"), "v:2: a is there twice");
    }
}
