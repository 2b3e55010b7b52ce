//! Streams: sections around events, read piece by piece, whole or cut off.

use crate::support::{Drip, assert_every_line_is_counted, carried, input};
use framewright_lab::trace::{
    Encoding, EventKind, Input, MemoryLimit, ReadFrameState, Recording, STREAM_MAGIC,
    STREAM_MAGIC_PAGES, StreamParts, TextCounts, TextReader, TraceEvent, section_line,
};
use framewright_sim::Random;
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
    let other = magic.replace('1', "3") + EVENTS;
    let says = error(other.as_bytes(), usual);
    assert_eq!(
        says,
        "t: a stream of another version, expected `#framewright stream 1` or `2`: a newer version of this program reads it"
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

/// Pages of one kernel, and what it printed of the same events (`traces/README.md`).
fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut input = Input::open(&carried(name)).unwrap();
    input.read_up_to(u64::MAX, &mut bytes).unwrap();
    bytes
}

/// All events up to the end or a fault in their form, with the names of their tasks; refused ones are passed over.
struct ReadPages {
    events: Vec<(TraceEvent, Option<Vec<u8>>)>,
    counts: TextCounts,
    faults: Vec<String>,
}

fn read_all(mut reader: TextReader) -> ReadPages {
    let (mut events, mut faults) = (Vec::new(), Vec::new());
    loop {
        let line = reader.line_number();
        match reader.next_event() {
            Ok(Some(event)) => {
                let asked = reader.take_asked();
                let name = asked
                    .comm
                    .and_then(|place| reader.names().comms().get(place as usize));
                events.push((event, name.map(<[u8]>::to_vec)));
            }
            Ok(None) => break,
            Err(fault) => {
                faults.push(fault.to_string());
                if reader.line_number() == line {
                    assert_eq!(reader.next_event(), Ok(None), "nothing comes after {fault}");
                    break;
                }
            }
        }
    }
    assert_every_line_is_counted(reader.counts());
    ReadPages {
        events,
        counts: reader.counts().clone(),
        faults,
    }
}

/// The same of a stream, and whether it was cut off.
fn read_pages(bytes: Vec<u8>) -> Result<(ReadPages, bool), String> {
    let input = Input::from_reader("t", Cursor::new(bytes)).unwrap();
    let stream = match Recording::from_input(input) {
        Ok(Recording::Stream(stream)) => stream,
        Ok(_) => return Err("no stream".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let (reader, rest) = stream.into_events().map_err(|e| e.to_string())?;
    let read = read_all(reader);
    let parts = rest.finish().map_err(|e| e.to_string())?;
    Ok((read, parts.is_cut))
}

#[test]
fn pages_of_a_kernel_are_read_as_the_text_that_it_printed_of_them() {
    let (held, is_cut) = read_pages(unpacked("pages.stream.zst")).unwrap();
    let Recording::Text(text) = Recording::open(&carried("pages.ftrace.zst")).unwrap() else {
        panic!("it was not taken for text")
    };
    let printed = read_all(*text);
    assert!(!is_cut && held.faults.is_empty() && printed.faults.is_empty());
    assert_eq!(held.events.len(), printed.events.len());
    assert!(held.events.len() > 1000, "{}", held.events.len());
    let mut named = 0;
    for ((held, by), (printed, printed_by)) in held.events.iter().zip(&printed.events) {
        // The kernel prints microseconds, rounded.
        let time_ns = (held.time_ns + 500) / 1000 * 1000;
        assert_eq!(TraceEvent { time_ns, ..*held }, *printed);
        // A record has no name: those are known that an event has named.
        if by.is_some() {
            assert_eq!(by, printed_by);
            named += 1;
        }
    }
    assert!(named > 50, "{named}");
    // All that is counted is the same, but for what only text has.
    let of_text = TextCounts {
        lines: held.counts.lines,
        comments: 0,
        ..printed.counts
    };
    assert_eq!(held.counts, of_text);
    let kinds = [
        held.counts.allocs,
        held.counts.frees,
        held.counts.compaction_begins,
        held.counts.migrate_ends,
        held.counts.others["task_newtask"],
        held.counts.others["task_rename"],
    ];
    assert!(kinds.iter().all(|&count| count > 0), "{kinds:?}");
}

#[test]
fn sr1_pages_that_are_cut_off_anywhere_are_read_up_to_there() {
    let whole = unpacked("pages.stream.zst");
    let (all, _) = read_pages(whole.clone()).unwrap();
    let pages = memchr_of(&whole, b"#section pages.");
    let mut random = Random::new(7);
    let mut before = 0;
    for nth in 0..100 {
        // In any place among the pages, later and later.
        let room = (whole.len() - pages) as u64 / 100;
        let cut = pages + (nth * room + random.below(room)) as usize;
        let (read, _) = read_pages(whole[..cut].to_vec()).unwrap();
        assert!(read.faults.is_empty(), "{cut}: {:?}", read.faults);
        // Each event is one of the whole, none is made up, and no CPU's come out of order.
        let mut rest = all.events.iter();
        for (event, _) in &read.events {
            assert!(rest.any(|(of_all, _)| of_all == event), "{cut}: {event:?}");
        }
        assert!(read.events.len() >= before, "{cut}");
        before = read.events.len();
    }
    assert!(before > all.events.len() / 2);
    // In front of the pages nothing is missing that could be said.
    for cut in (STREAM_MAGIC_PAGES.len()..pages).step_by(1009) {
        let (read, _) = read_pages(whole[..cut].to_vec()).unwrap();
        assert!(read.events.is_empty() && read.faults.is_empty());
    }
}

fn memchr_of(bytes: &[u8], what: &[u8]) -> usize {
    let found = bytes.windows(what.len()).position(|at| at == what);
    found.unwrap()
}

/// Each record takes four bytes or more, so that events are no more than a quarter of the bytes: no change makes a reader
/// go round in one place, or panic.
#[test]
fn rp3_changed_bytes_end_in_a_fault_or_in_other_events_and_never_in_a_panic() {
    let whole = unpacked("pages.stream.zst");
    let pages = memchr_of(&whole, b"#section pages.");
    let mut random = Random::new(11);
    let mut faults = 0;
    for nth in 0..600 {
        let mut bytes = whole.clone();
        let from = if nth % 3 == 0 { 0 } else { pages };
        for _ in 0..1 + random.below(4) {
            let at = from + random.below((bytes.len() - from) as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = 0xff,
                1 => bytes[at] = 0,
                2 => {
                    let end = (at + 9).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => bytes[at] ^= 1 << random.below(8),
            }
        }
        match read_pages(bytes) {
            Ok((read, _)) => {
                assert!(read.events.len() <= whole.len() / 4);
                for fault in &read.faults {
                    assert!(fault.starts_with("t: "), "{fault}");
                    faults += 1;
                }
            }
            Err(fault) => {
                assert!(fault.starts_with("t: "), "{fault}");
                faults += 1;
            }
        }
    }
    assert!(faults > 50, "{faults}");
}

#[test]
fn pages_that_are_not_understood_are_refused_with_their_place() {
    let whole = unpacked("pages.stream.zst");
    let replaced = |from: &str, to: &str| {
        let at = memchr_of(&whole, from.as_bytes());
        [&whole[..at], to.as_bytes(), &whole[at + from.len()..]].concat()
    };
    let fault = |bytes: Vec<u8>| match read_pages(bytes) {
        Ok((read, _)) => read.faults.into_iter().next().unwrap_or_default(),
        Err(fault) => fault,
    };
    let big = replaced(
        "#section formats.machine 18\nbyte_order little",
        "#section formats.machine 15\nbyte_order big",
    );
    let says = fault(big);
    assert!(
        says.starts_with("t: formats.machine: byte_order big, expected little"),
        "{says}"
    );
    let says = fault(replaced("formats.page", "formats.xxxx"));
    assert_eq!(
        says,
        "t: pages without the section formats.page, expected it in front"
    );
    let says = fault(replaced("size:4080", "size:1000"));
    assert!(
        says.starts_with("t: CPU ") && says.contains(" expected at most 1000"),
        "{says}"
    );
    assert!(
        says.contains(", page 1, byte 0: its records have "),
        "{says}"
    );
    let says = fault(replaced("#section pages.0", "#section pages.x"));
    assert_eq!(says, "t: pages.x: no CPU's number, expected 0 to 65535");
    let says = fault(replaced("#section until", "#section Until"));
    assert_eq!(says, "", "a section of another name is passed over");
    // A format that the stream lacks.
    let says = fault(replaced(
        "name: mm_page_free\nID: ",
        "name: mm_page_fre\nID: 9",
    ));
    assert!(
        says.contains(" an event of the ID ") && says.contains(", page "),
        "{says}"
    );
    let line = [&whole[..], b"a line of text\n"].concat();
    assert!(fault(line).contains("`a line of text` is no section's line"));
    let long = [&whole[..], b"#section pages.0 1048577\n"].concat();
    let says = fault(long);
    assert_eq!(
        says,
        "t: a section of events has 1048577 bytes, expected at most 1048576"
    );
    // What kind of request it is, the kernel's own names of flags say.
    let (read, _) = read_pages(replaced(
        "\"GFP_HIGHUSER_MOVABLE\"",
        "\"GFP_HIGHUSER_UNKNOWN\"",
    ))
    .unwrap();
    assert!(read.counts.unknown_flag_names > 0);
    let is_request = |event: &TraceEvent| matches!(event.kind, EventKind::Alloc { .. });
    assert!(read.events.iter().any(|(event, _)| is_request(event)));
}
