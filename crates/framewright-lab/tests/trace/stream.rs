//! Streams: sections around events, read piece by piece, whole or cut off.

use crate::support::{Drip, input};
use framewright_lab::trace::{
    Encoding, Input, MemoryLimit, ReadFrameState, Recording, STREAM_MAGIC, StreamParts, TraceEvent,
    section_line,
};
use std::io::Cursor;

const EVENTS: &str = "# tracer: nop\n\
    \x20           bash-7     [001] .....  17.000001: mm_page_free: pfn=0x10 order=0\n\
    \x20#section x 9-7     [001] .....  17.000002: mm_page_free: pfn=0x11 order=0\n";

fn section(name: &str, bytes: &[u8]) -> Vec<u8> {
    [section_line(name, bytes.len()), bytes.to_vec()].concat()
}

/// `/proc/kpageflags` of this many frames: the first is free, the others are on an LRU list.
fn flags(frames: usize) -> Vec<u8> {
    let words = (0..frames).map(|frame| if frame == 0 { 1_u64 << 10 } else { 1 << 5 });
    words.flat_map(u64::to_ne_bytes).collect()
}

fn whole() -> Vec<u8> {
    let flags = flags(3);
    let (one, two) = flags.split_at(13);
    [
        STREAM_MAGIC.to_vec(),
        section("tasks", b"7 bash\n8 a name\nnone\n"),
        // Bytes that look like a section are none.
        section("before.zoneinfo", b"#section end 3\nxyz"),
        section("before.kpageflags", one),
        section("before.kpageflags", two),
        section("empty", b""),
        EVENTS.into(),
        section("after.kpageflags", &flags),
        section("after.vmstat", b"compact_stall 3\n"),
        section("end", b"recorded 1.000 s as asked\n"),
    ]
    .concat()
}

/// What a stream says before its events, the events, and what it says behind them.
fn read(bytes: &[u8], piece_bytes: usize) -> (StreamParts, Vec<TraceEvent>, StreamParts) {
    let bytes = Cursor::new(bytes.to_vec());
    let input = Input::from_reader("t", Drip { bytes, piece_bytes }).unwrap();
    let Recording::Stream(mut stream) = Recording::from_input(input).unwrap() else {
        panic!("it was not taken for a stream")
    };
    let before = stream.take_parts().unwrap();
    let (mut reader, rest) = stream.into_events().unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    (before, events, rest.finish().unwrap())
}

#[test]
fn a_stream_is_what_its_recorder_wrote_in_pieces_of_any_size() {
    use ReadFrameState::{Free, Movable};
    for piece_bytes in [1, 7, 4096, 1 << 20] {
        let (before, events, after) = read(&whole(), piece_bytes);
        let tasks: Vec<_> = before.tasks().collect();
        assert_eq!(tasks, [(7, &b"bash"[..]), (8, b"a name")]);
        let zones = before.text("before.zoneinfo").unwrap().unwrap();
        assert_eq!(zones, "#section end 3\nxyz");
        assert_eq!(before.text("empty"), Ok(Some("")));
        assert_eq!(before.text("end"), Ok(None), "that is behind the events");
        let frames = [Free, Movable, Movable];
        assert_eq!(before.first.as_ref().unwrap().frames(), frames);
        assert!(before.last.is_none() && !before.is_whole());
        let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
        assert_eq!(times, [17_000_001_000, 17_000_002_000]);
        assert_eq!(after.last.as_ref().unwrap().frames(), frames);
        let counters = after.text("after.vmstat").unwrap();
        assert_eq!(counters, Some("compact_stall 3\n"));
        assert!(after.is_whole());
    }
}

#[test]
fn sr1_a_stream_that_was_cut_off_anywhere_is_read_up_to_there() {
    let whole = whole();
    let end = whole
        .windows(12)
        .rposition(|at| at == b"#section end")
        .unwrap();
    for packed in [Encoding::Plain, Encoding::Gzip, Encoding::Zstd] {
        for cut in [end, end + 5, end + 20, end - 20] {
            let cut = &whole[..cut];
            let bytes = match packed {
                Encoding::Plain => cut.to_vec(),
                // Packed whole, and the packing cut off behind what was flushed.
                Encoding::Gzip => {
                    use std::io::Write;
                    let to = Vec::new();
                    let mut encoder = flate2::write::GzEncoder::new(to, Default::default());
                    encoder.write_all(cut).unwrap();
                    encoder.flush().unwrap();
                    encoder.get_ref().clone()
                }
                Encoding::Zstd => {
                    use std::io::Write;
                    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
                    encoder.write_all(cut).unwrap();
                    encoder.flush().unwrap();
                    encoder.get_ref().clone()
                }
            };
            let (_, events, after) = read(&bytes, 4096);
            assert_eq!(events.len(), 2, "{packed:?}");
            assert!(!after.is_whole(), "{packed:?}");
            // Page flags are whole where a file follows.
            assert_eq!(after.last.is_some(), cut.len() >= end);
        }
    }
    // Half a line of an event is a line without its end.
    let half = whole.windows(7).position(|at| at == b"pfn=0x1").unwrap();
    assert_eq!(read(&whole[..half], 4096).1.len(), 0);
    // Half of the page flags are none.
    let flags = whole
        .windows(17)
        .position(|at| at == b"after.kpageflags ")
        .unwrap();
    // Cut within a frame's flags, behind a frame, and behind all of a section, which need not be the last of its name.
    for cut in [flags + 40, flags + 36, flags + 44] {
        let (_, events, after) = read(&whole[..cut], 4096);
        assert_eq!((events.len(), after.last), (2, None), "{cut}");
    }
    let next = whole.windows(12).position(|at| at == b"after.vmstat");
    let cut = next.unwrap() + 14;
    assert!(
        read(&whole[..cut], 4096).2.last.is_none(),
        "half a section's line follows"
    );
    // Half of a file is none.
    let (_, _, after) = read(&whole[..next.unwrap() + 20], 4096);
    assert!(after.files.is_empty() && after.is_cut, "{after:?}");
}

#[test]
fn sr2_what_is_no_stream_is_refused_with_what_was_expected_and_costs_what_is_there() {
    let error = |bytes: &[u8], limit: u64| {
        let input = input(bytes)
            .unwrap()
            .with_memory_limit(MemoryLimit::bytes(limit));
        let stream = match Recording::from_input(input) {
            Ok(Recording::Stream(stream)) => stream,
            Ok(_) => return "no stream".to_owned(),
            Err(error) => return error.to_string(),
        };
        let (mut reader, _) = match stream.into_events() {
            Ok(parts) => parts,
            Err(error) => return error.to_string(),
        };
        loop {
            match reader.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => return "read".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    };
    let usual = 1 << 30;
    let magic = String::from_utf8(STREAM_MAGIC.to_vec()).unwrap();
    let other = magic.replace('1', "2") + EVENTS;
    let says = error(other.as_bytes(), usual);
    assert_eq!(
        says,
        "t: a stream of another version, expected `#framewright stream 1`"
    );
    for bad in ["x", "x y", "x 1 2", "a/b 1", "x -1", " 1"] {
        let says = error(format!("{magic}#section {bad}\n{EVENTS}").as_bytes(), usual);
        assert!(
            says.contains(" is no section's line, expected `#section NAME BYTES`"),
            "{bad}: {says}"
        );
    }
    let long = format!("{magic}#section {}", "x".repeat(200));
    assert!(error(long.as_bytes(), usual).contains("is no section's line"));
    // A number costs nothing: what is there counts.
    let claims = format!("{magic}#section before.kpageflags 18446744073709551615\n{EVENTS}");
    assert!(error(claims.as_bytes(), usual).contains("the input is empty"));
    let large = [
        magic.as_bytes(),
        &section("before.kpageflags", &flags(70_000)),
    ]
    .concat();
    let says = error(&large, 1 << 16);
    assert!(says.contains("what it says of the machine "), "{says}");
    assert!(error(magic.as_bytes(), usual).contains("the input is empty"));
    // Files count against the limit, too, and empty ones cost their names.
    let text = [magic.as_bytes(), &section("before.vmstat", &[b'x'; 70_000])].concat();
    let says = error(&text, 1 << 16);
    assert!(says.contains("what it says of the machine "), "{says}");
    let names = (0..400_000).map(|nth| format!("#section x{nth:0100} 0\n"));
    let empty: String = [magic.clone()].into_iter().chain(names).collect();
    let says = error(empty.as_bytes(), usual);
    assert!(says.contains("the sections hold more than "), "{says}");
    // Damage is no end.
    let mut damaged = zstd::encode_all(&whole()[..], 3).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let says = error(&damaged, usual);
    assert!(says.contains("the zstd stream is damaged"), "{says}");
}
