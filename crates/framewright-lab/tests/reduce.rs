//! The reduction on text that a kernel printed, and what the carried sample is a part of.

use framewright_lab::replay::read_reference;
use framewright_lab::trace::reduce::{Reducer, Reduction, ReferenceRow, follow_chosen};
use framewright_lab::trace::{
    Input, Liveness, OpKind, Recording, TextCounts, Trace, TraceDigest, read_frames, read_pft,
};
use std::path::{Path, PathBuf};

fn carried(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../traces")
        .join(name)
}

/// A recorded trace beside the repository, or `None` said aloud.
fn recorded(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FRAMEWRIGHT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("traces").join(name);
    if !path.is_file() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn reduced(path: &Path) -> (Reduction, TextCounts) {
    let Recording::Text(mut reader) = Recording::open(path).unwrap() else {
        panic!("text was expected");
    };
    let mut reducer = Reducer::new(None);
    while let Some(event) = reader.next_event().unwrap() {
        reducer.push(&event).unwrap();
    }
    (reducer.finish(None).unwrap(), reader.counts().clone())
}

/// Every event is in the trace or among the anomalies, and frees refer to live objects.
fn assert_accounted_for(got: &Reduction, text: &TextCounts) {
    let (counts, anomalies, ops) = (&got.counts, &got.anomalies, &got.trace.ops);
    let lost = text.lost_lines;
    assert_eq!(
        counts.total(),
        text.events() + lost,
        "events read are events reduced"
    );
    assert_eq!(text.refused_lines + text.cut_last_line, 0);
    let count = |kind| ops.iter().filter(|op| op.kind() == kind).count() as u64;
    let synthetic = ops
        .iter()
        .filter(|op| op.kind() == OpKind::Alloc && op.is_synthetic());
    assert_eq!(synthetic.count() as u64, anomalies.frees_of_unknown);
    assert_eq!(
        count(OpKind::Alloc),
        counts.allocs + anomalies.frees_of_unknown - anomalies.misaligned
    );
    assert_eq!(count(OpKind::Failed), counts.failed_allocs);
    assert!(count(OpKind::Free) + count(OpKind::FreePart) >= counts.frees);
    assert_eq!(got.chosen.len() as u64, count(OpKind::Alloc));
    assert_eq!(got.trace.init.len() as u64, anomalies.initial_inferred);
    let mut liveness = Liveness::new(got.trace.init.len() as u32);
    for op in ops {
        match op.kind() {
            OpKind::Alloc => liveness.alloc(op.order()),
            OpKind::Free => liveness.free(op.value, op.order()).unwrap(),
            OpKind::FreePart => liveness
                .free_part(op.value, op.offset.into(), op.order())
                .unwrap(),
            OpKind::Tick | OpKind::Failed => {}
        }
    }
}

#[test]
fn the_carried_text_is_reduced_with_every_event_accounted_for() {
    let (got, text) = reduced(&carried("fork-storm.ftrace.gz"));
    assert_accounted_for(&got, &text);
    let counts = got.counts;
    assert_eq!(
        (
            counts.allocs,
            counts.frees,
            counts.frees_batched,
            counts.others
        ),
        (10_996, 3_878, 3_117, 8)
    );
    // That many frames of page tables are allocated twice without a free between, as a count by
    // frame alone tells too: the recording missed those frees.
    let anomalies = got.anomalies;
    assert_eq!(anomalies.missed_frees, 226);
    assert_eq!((anomalies.misaligned, anomalies.lost_events), (0, 0));
    assert!(anomalies.frees_of_unknown < 100, "{anomalies}");
}

#[test]
fn the_whole_text_is_reduced_with_every_event_accounted_for() {
    let Some(path) = recorded("fork-storm.ftrace.gz") else {
        return;
    };
    let (got, text) = reduced(&path);
    assert_accounted_for(&got, &text);
    assert_eq!(text.events(), 111_690);
}

#[test]
fn the_first_row_that_the_frames_give_is_the_recordings_own() {
    for (smoke, whole) in [("smokeA", "fileA"), ("smokeC", "mixC")] {
        let (Some(trace), Some(frames), Some(rows)) = (
            recorded(&format!("{smoke}.pft.zst")),
            recorded(&format!("{smoke}.pfn.zst")),
            recorded(&format!("{whole}.linux_ref.csv")),
        ) else {
            return;
        };
        let trace = read_pft(Input::open(&trace).unwrap()).unwrap();
        let chosen = read_frames(Input::open(&frames).unwrap(), &trace).unwrap();
        let rows = std::fs::read_to_string(rows).unwrap();
        let rows = read_reference(&rows, trace.present_frames()).unwrap();
        let got = follow_chosen(&trace, &chosen);
        let rounded = |row: &ReferenceRow| ReferenceRow {
            unusable_o3: (row.unusable_o3 * 1e4).round() / 1e4,
            unusable_o9: (row.unusable_o9 * 1e4).round() / 1e4,
            ..*row
        };
        assert_eq!(rounded(&got[0]), rows[0], "{smoke}");
        // Later ones drift by what compaction moved, which is in neither file.
        for (got, row) in got.iter().zip(&rows) {
            assert_eq!((got.event, got.ms), (row.event, row.ms), "{smoke}");
            let drift = got.free_frames.abs_diff(row.free_frames) as f64 / row.free_frames as f64;
            assert!(drift < 0.02, "{smoke}: {got:?}, {row:?}");
        }
    }
}

#[test]
fn the_carried_sample_is_the_beginning_of_its_recording() {
    let Some(whole) = recorded("smokeC.pft.zst") else {
        return;
    };
    let read = |path: &Path| -> Trace { read_pft(Input::open(path).unwrap()).unwrap() };
    let (sample, start) = (read(&carried("sample.pft.zst")), read(&whole));
    assert_eq!((sample.nframes, &sample.init), (start.nframes, &start.init));
    assert!(sample.ops.len() == 850_000 && start.ops.len() == 400_000);
    assert!(sample.ops.starts_with(&start.ops));
    let rows = std::fs::read_to_string(carried("sample.linux_ref.csv")).unwrap();
    let mut bytes = Vec::new();
    let mut input = Input::open(&carried("sample.pft.zst")).unwrap();
    input.read_up_to(u64::MAX, &mut bytes).unwrap();
    let rows = rows.strip_prefix(&TraceDigest::of(&bytes).line()).unwrap();
    let whole = std::fs::read_to_string(whole.with_file_name("mixC.linux_ref.csv")).unwrap();
    assert!(whole.starts_with(rows));
}
