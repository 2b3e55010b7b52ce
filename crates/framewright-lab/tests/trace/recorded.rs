use crate::support::{assert_every_line_is_counted, carried, recorded};
use framewright_lab::trace::{
    Dialect, Encoding, InitClass, Input, OpKind, Recording, TextCounts, TextReader, Trace,
    read_frames, read_pft, write_frames, write_pft1,
};
use std::path::Path;

fn columns(path: &Path) -> Trace {
    match Recording::open(path).unwrap() {
        Recording::Columns(trace) => *trace,
        Recording::Text(_) | Recording::Stream(_) => {
            panic!("{} was taken for text", path.display())
        }
    }
}

fn text(path: &Path) -> (TextCounts, Option<Dialect>) {
    let Recording::Text(mut reader) = Recording::open(path).unwrap() else {
        panic!("{} was taken for columns", path.display());
    };
    while reader.next_event().unwrap().is_some() {}
    assert_every_line_is_counted(reader.counts());
    (reader.counts().clone(), reader.dialect())
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut input = Input::open(path).unwrap();
    assert_eq!(input.encoding(), Encoding::Zstd);
    input.read_up_to(u64::MAX, &mut bytes).unwrap();
    bytes
}

fn init(trace: &Trace) -> [usize; 3] {
    [InitClass::Unmovable, InitClass::Movable, InitClass::Slab]
        .map(|class| trace.init.iter().filter(|o| o.class == class).count())
}

/// Operations by order (0 to 4, 5 to 7, 8, 9) and by what they are: allocations by mobility,
/// frees, frees of parts, failures. Above order 9 there is none.
fn table(trace: &Trace) -> [[u64; 6]; 8] {
    let mut table = [[0; 6]; 8];
    for op in &trace.ops {
        let row = match op.order().get() {
            n @ 0..=4 => n as usize,
            5..=7 => 5,
            8 => 6,
            _ => 7,
        };
        let column = match op.kind() {
            OpKind::Alloc => op.mobility().index(),
            OpKind::Free => 3,
            OpKind::FreePart => 4,
            OpKind::Failed => 5,
            OpKind::Tick => continue,
        };
        table[row][column] += 1;
    }
    table
}

/// What was read can be written, and is the file, byte by byte.
fn assert_written_as_it_was(path: &Path, trace: &Trace) {
    let mut written = Vec::new();
    write_pft1(trace, &mut written).unwrap();
    assert!(written == unpacked(path), "{}", path.display());
}

#[test]
fn the_carried_sample_has_what_its_description_says() {
    let path = carried("sample.pft.zst");
    let trace = columns(&path);
    assert_eq!((trace.nframes, trace.absent.len()), (1_544_192, 0));
    assert_eq!(init(&trace), [69_973, 1_201_375, 67_505]);
    assert_eq!(trace.ops.len(), 850_000);
    let sums = table(&trace)
        .iter()
        .fold([0; 6], |sum, row| std::array::from_fn(|i| sum[i] + row[i]));
    assert_eq!(sums[..3].iter().sum::<u64>(), 464_359);
    assert_eq!(sums[3..], [383_778, 0, 534]);
    let is_synthetic = |op: &&framewright_lab::trace::TraceOp| op.is_synthetic();
    assert_eq!(trace.ops.iter().filter(is_synthetic).count(), 685);
    assert_written_as_it_was(&path, &trace);
}

/// Compares the sample with the beginning of a recording that is at hand.
fn assert_sample_begins_like(recording: &Trace) {
    let sample = columns(&carried("sample.pft.zst"));
    let ops = sample.ops.len().min(recording.ops.len());
    assert!(sample.ops[..ops] == recording.ops[..ops]);
    assert!(sample.init == recording.init && sample.gfp == recording.gfp);
    assert_eq!(sample.nframes, recording.nframes);
}

#[test]
fn the_carried_sample_is_the_beginning_of_the_recording() {
    if let Some(path) = recorded("smokeC.pft.zst") {
        assert_sample_begins_like(&columns(&path));
    }
}

#[test]
fn the_carried_text_has_what_its_description_says() {
    let (counts, dialect) = text(&carried("fork-storm.ftrace.gz"));
    assert_eq!(dialect, Some(Dialect::Ftrace));
    assert_eq!(
        (counts.allocs, counts.frees, counts.frees_batched),
        (10_996, 3_878, 3_117)
    );
    assert_eq!(counts.others["alloc_vmap_area"], 8);
    assert_eq!(counts.anomalies(), []);
}

#[test]
fn the_recorded_text_has_as_many_events_as_its_header_says() {
    let Some(path) = recorded("fork-storm.ftrace.gz") else {
        return;
    };
    let (counts, _) = text(&path);
    assert_eq!(counts.lines, 111_702);
    assert_eq!(counts.events(), 111_690);
    assert_eq!(counts.anomalies(), []);
}

#[test]
fn the_short_recordings_are_read_and_written_as_they_were() {
    for (name, nframes, classes) in [
        ("smokeA", 1_474_560, [53_375, 1_071_158, 59_221]),
        ("smokeC", 1_544_192, [69_973, 1_201_375, 67_505]),
    ] {
        let Some(path) = recorded(&format!("{name}.pft.zst")) else {
            return;
        };
        let trace = columns(&path);
        assert_eq!((trace.nframes, trace.ops.len()), (nframes, 400_000));
        assert_eq!(init(&trace), classes);
        assert_written_as_it_was(&path, &trace);
        let path = recorded(&format!("{name}.pfn.zst")).unwrap();
        let frames = read_frames(Input::open(&path).unwrap(), &trace).unwrap();
        let mut written = Vec::new();
        write_frames(&frames, &mut written).unwrap();
        assert!(written == unpacked(&path));
    }
}

#[test]
fn the_long_recordings_say_in_their_headers_how_long_they_are() {
    for (name, numbers) in [
        ("fileA", [1_474_560, 1_183_754, 3_902_252, 8_240_194, 10]),
        ("mixC", [1_544_192, 1_338_853, 10_176_855, 20_384_285, 10]),
    ] {
        let Some(path) = recorded(&format!("{name}.pft.zst")) else {
            return;
        };
        let mut input = Input::open(&path).unwrap();
        let header = input.peek(24).unwrap();
        assert_eq!(&header[..4], b"PFT1");
        let found: Vec<u32> = header[4..]
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&b| u32::from_le_bytes(b))
            .collect();
        assert_eq!(found, numbers);
    }
}

/// Everything that the description of the long recordings counts. Unoptimised it takes half a
/// minute, so that it runs with `cargo test --release` alone.
#[test]
#[cfg(not(debug_assertions))]
fn the_long_recordings_have_what_their_description_says() {
    let Some(path) = recorded("fileA.pft.zst") else {
        return;
    };
    let trace = columns(&path);
    assert_eq!(init(&trace), [53_375, 1_071_158, 59_221]);
    assert_eq!(
        table(&trace),
        [
            [186_715, 3_109_849, 32_111, 3_626_693, 53_791, 1],
            [138, 364_107, 5_432, 344_160, 0, 2],
            [5, 44_605, 33_201, 72_798, 0, 0],
            [62_679, 23_109, 0, 84_415, 0, 0],
            [0, 18_929, 0, 17_713, 0, 0],
            [3, 77, 0, 41, 0, 0],
            [0, 20_773, 0, 19_532, 0, 32],
            [2, 517, 0, 375, 0, 116],
        ]
    );
    assert_written_as_it_was(&path, &trace);
    let path = recorded("mixC.pft.zst").unwrap();
    let trace = columns(&path);
    assert_eq!(init(&trace), [69_973, 1_201_375, 67_505]);
    assert_eq!(
        table(&trace),
        [
            [1_295_974, 8_390_512, 32_740, 9_710_103, 4_178, 491],
            [81_728, 172, 1_610, 82_920, 0, 53],
            [221_002, 8_290, 4_834, 230_152, 0, 42],
            [76_825, 1_128, 0, 76_961, 0, 1_137],
            [2, 61_867, 0, 60_353, 0, 568],
            [2, 149, 0, 108, 0, 1],
            [0, 6, 0, 6, 0, 1],
            [3, 11, 0, 14, 0, 17],
        ]
    );
    assert_written_as_it_was(&path, &trace);
    assert_sample_begins_like(&trace);
    let frames = recorded("mixC.pfn.zst").unwrap();
    let frames = read_frames(Input::open(&frames).unwrap(), &trace).unwrap();
    assert_eq!(frames.len(), 10_176_855);
}

#[test]
fn text_and_columns_are_told_apart() {
    let reader = TextReader::new(Input::open(&carried("fork-storm.ftrace.gz")).unwrap());
    assert!(reader.dialect().is_none());
    let error = read_pft(Input::open(&carried("fork-storm.ftrace.gz")).unwrap()).unwrap_err();
    assert!(error.to_string().ends_with(
        "fork-storm.ftrace.gz: the input does not start with PFT1 to PFT5, expected a trace in columns"
    ));
}
