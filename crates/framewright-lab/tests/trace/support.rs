use framewright::{Frame, Mobility, Order};
use framewright_lab::trace::{EventKind, Input, TextCounts, TextReader, TraceError, TraceEvent};
use proptest::test_runner::{Config, RngSeed};
use std::io::{Cursor, Read};
use std::path::PathBuf;

/// Gives its bytes a few at a time, as a pipe does.
pub(crate) struct Drip {
    pub(crate) bytes: Cursor<Vec<u8>>,
    pub(crate) piece_bytes: usize,
}

impl Read for Drip {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = out.len().min(self.piece_bytes);
        self.bytes.read(&mut out[..n])
    }
}

/// As many cases as `PROPTEST_CASES` says, or `usual`, from the seed `PROPTEST_RNG_SEED`, or one
/// that is always the same: one seed repeats one run.
pub(crate) fn cases(usual: u32) -> Config {
    let from_env = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    Config {
        cases: from_env("PROPTEST_CASES").map_or(usual, |n| n as u32),
        rng_seed: RngSeed::Fixed(from_env("PROPTEST_RNG_SEED").unwrap_or(0)),
        failure_persistence: None,
        ..Config::default()
    }
}

pub(crate) fn input(bytes: impl Into<Vec<u8>>) -> Result<Input, TraceError> {
    Input::from_reader("t", Cursor::new(bytes.into()))
}

pub(crate) fn reader(text: impl Into<Vec<u8>>) -> TextReader {
    TextReader::new(input(text).unwrap())
}

/// Every event of a text that is right, and what was counted.
pub(crate) fn events(text: impl Into<Vec<u8>>) -> (Vec<TraceEvent>, TextCounts) {
    let mut reader = reader(text);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    (events, reader.counts().clone())
}

/// The first error of a text that has one.
pub(crate) fn error(text: impl Into<Vec<u8>>) -> String {
    let mut reader = reader(text);
    loop {
        match reader.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the text was read without an error"),
            Err(error) => return error.to_string(),
        }
    }
}

pub(crate) fn order(n: u8) -> Order {
    Order::new(n).unwrap()
}

pub(crate) fn alloc(frame: u64, n: u8, mobility: Mobility, gfp: u32) -> EventKind {
    EventKind::Alloc {
        frame: Some(Frame(frame)),
        order: order(n),
        mobility,
        gfp,
    }
}

pub(crate) fn free(frame: u64, n: u8) -> EventKind {
    EventKind::Free {
        frame: Frame(frame),
        order: order(n),
    }
}

pub(crate) fn at(time_ns: u64, cpu: u16, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time_ns,
        cpu,
        pid,
        kind,
    }
}

/// Every line was counted once, as one thing.
pub(crate) fn assert_every_line_is_counted(counts: &TextCounts) {
    let sum = counts.blank
        + counts.comments
        + counts.continuations
        + counts.lost_lines
        + counts.cut_last_line
        + counts.refused_lines
        + counts.events();
    assert_eq!(sum, counts.lines, "{counts:?}");
}

/// A file of the recorded traces beside the repository; says so and is `None` where they are not.
pub(crate) fn recorded(name: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("FRAMEWRIGHT_SHARED") {
        Some(root) => PathBuf::from(root),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = root.join("traces").join(name);
    if path.is_file() {
        Some(path)
    } else {
        println!(
            "skipped: the recorded trace {name} is not in {}",
            root.display()
        );
        None
    }
}

/// A file of the traces that the repository carries.
pub(crate) fn carried(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../traces")
        .join(name)
}

/// A file of columns: the version, the numbers of the header, each column's name and length, and the columns.
pub(crate) fn columns_file(
    magic: &[u8; 4],
    numbers: [u32; 5],
    columns: &[(&[u8; 8], &[u8])],
) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for (name, column) in columns {
        bytes.extend_from_slice(*name);
        bytes.extend_from_slice(&(column.len() as u64).to_le_bytes());
    }
    for (_, column) in columns {
        bytes.extend_from_slice(column);
    }
    bytes
}
