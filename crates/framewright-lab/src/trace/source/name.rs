//! From a file's name to the trace's: the neighbours of a trace are found by it.

/// A trace's name, as its cases and the files beside it have it: without what a recording's file ends in, and
/// otherwise whole. `run.1` and `run.2` are two.
#[must_use]
pub fn trace_stem(file: &str) -> &str {
    let stems = [".pft.zst", ".pft"].map(|ending| file.strip_suffix(ending));
    let mut stems = stems.into_iter().flatten();
    stems.find(|stem| !stem.is_empty()).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_recording_s_ending_is_no_part_of_its_name() {
        assert_eq!(trace_stem("fileA.pft.zst"), "fileA");
        assert_eq!(trace_stem("fileA.pft"), "fileA");
        for whole in [
            "run.1",
            "run.2",
            "t.ftrace.gz",
            "a.zst",
            ".pft.zst",
            ".hidden",
            "",
        ] {
            assert_eq!(trace_stem(whole), whole);
        }
        assert_eq!(trace_stem("run.1.pft.zst"), "run.1");
    }
}
