use crate::support::{Drip, assert_every_line_is_counted, cases, order};
use framewright::{Frame, Mobility};
use framewright_lab::trace::{EventKind, Input, TextCounts, TextReader, TraceEvent};
use proptest::prelude::*;
use std::io::{Cursor, Write as _};

/// Lines of every sort, for arbitrary changes to start from.
const LINES: [&str; 16] = [
    "# tracer: nop",
    "# entries-in-buffer/entries-written: 90/100   #P:2",
    "            bash-21807   [000] .....  1781.547355: mm_page_alloc: page=00000000b89009e2 pfn=0x5a2fd6 order=1 migratetype=2 gfp_flags=__GFP_RECLAIMABLE|__GFP_IO",
    "            bash-21807   (  21807) [001] ...2.  1781.547572123: mm_page_free: page=00000000f71b0a58 pfn=0x15969d order=0",
    "            Xorg-1204  [006] d.s.  1110.217281: mm_page_alloc_extfrag: page=ffffea0064142000 pfn=26235008 alloc_order=3 fallback_order=3 pageblock_order=9 alloc_migratetype=0 fallback_migratetype=2 fragmenting=1 change_ownership=1",
    "           <...>-99    [001] .....          340: mm_page_alloc: page=          (null) pfn=0 order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE|0x1000000",
    "         kswapd-90     [001] .....  5.000000: mm_migrate_pages: nr_succeeded=32 nr_failed=1 mode=MIGRATE_ASYNC reason=compaction",
    "CPU:1 [LOST 1234 EVENTS]",
    " => free_unref_folios",
    "true 13322 [000]  1509.199269: kmem:mm_page_alloc: page=0x10be8b pfn=0x10be8b order=0 migratetype=0 gfp_flags=GFP_KERNEL",
    "true 13322/13323 [000]  1509.199269:          1 kmem:mm_page_free: page=0x10be8b pfn=1097355 order=0",
    "\tffffffff8161ea8b __alloc_frozen_pages_noprof+0x26b ([kernel.kallsyms])",
    "swapper     0 [001]  1509.200000: PERF_RECORD_LOST lost 35",
    "",
    "cpus=2",
    "PFT1",
];

/// Pieces that parsers stumble over.
const PIECES: [&[u8]; 16] = [
    b"18446744073709551616",
    b"0xffffffffffffffffff",
    b"-1",
    b"\xff\xfe",
    b"\xe2\x82",
    b"\0",
    b"=",
    b":",
    b": ",
    b"[",
    b"]",
    b"|",
    b"-",
    b" ",
    b"pfn=0x",
    b"order=99999999999",
];

/// A line, and what is done to it.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..4u8, any::<u16>(), 0..PIECES.len(), any::<u8>());
    (0..LINES.len(), prop::collection::vec(change, 0..3)).prop_map(|(line, changes)| {
        let mut bytes = LINES[line].as_bytes().to_vec();
        for (kind, at, piece, byte) in changes {
            let at = usize::from(at) % (bytes.len() + 1);
            match kind {
                0 => bytes.truncate(at),
                1 => drop(bytes.splice(at..at, PIECES[piece].iter().copied())),
                2 => {
                    let end = (at + PIECES[piece].len()).min(bytes.len());
                    drop(bytes.splice(at..end, PIECES[piece].iter().copied()));
                }
                _ => bytes.get_mut(at).into_iter().for_each(|b| *b = byte),
            }
        }
        bytes
    })
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(lines(), 0..12).prop_map(|lines| lines.join(&b'\n')),
        1 => prop::collection::vec(any::<u8>(), 0..400),
    ]
}

/// Reads to the end, past every refused line; each error must name a line that is there.
fn read_all(text: &[u8], piece_bytes: usize) -> (Vec<TraceEvent>, Vec<String>, TextCounts) {
    let newlines = text.iter().filter(|&&b| b == b'\n').count() as u64;
    let bytes = Cursor::new(text.to_vec());
    let mut events = Vec::new();
    let mut errors = Vec::new();
    // What looks packed is refused as a whole.
    let Ok(input) = Input::from_reader("t", Drip { bytes, piece_bytes }) else {
        return (events, errors, TextCounts::default());
    };
    let mut reader = TextReader::new(input);
    loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => break,
            Err(error) => {
                match error.line() {
                    Some(line) => assert!((1..=newlines + 1).contains(&line)),
                    // Nothing at all, or a damaged packing.
                    None => {
                        errors.push(error.to_string());
                        break;
                    }
                }
                errors.push(error.to_string());
            }
        }
    }
    let counts = reader.counts().clone();
    assert_every_line_is_counted(&counts);
    (events, errors, counts)
}

/// How a line is laid out.
#[derive(Debug, Clone)]
struct Style {
    task: Vec<u8>,
    flags: &'static str,
    has_group: bool,
    is_perf: bool,
    has_nanos: bool,
    is_hex: bool,
    is_padded: bool,
}

fn styles() -> impl Strategy<Value = Style> {
    // Up to 15 bytes, as the kernel cuts them, of what confuses most.
    let task = prop_oneof![
        prop::collection::vec(prop::sample::select(&b"-[]01 .:()/a\xff\xc3#"[..]), 1..16),
        prop::collection::vec(
            any::<u8>().prop_filter("no line end", |b| *b != b'\n'),
            1..16
        ),
    ];
    let flags = prop::sample::select(&["", "....", ".....", "dNh3.", "d..h2..", "dn.."][..]);
    (task, flags, any::<[bool; 5]>()).prop_map(|(task, flags, b)| Style {
        task,
        flags,
        has_group: b[0],
        is_perf: b[1],
        has_nanos: b[2],
        is_hex: b[3],
        is_padded: b[4],
    })
}

fn print(event: &TraceEvent, style: &Style) -> Vec<u8> {
    let mut out = Vec::new();
    let number = |n: u64| match style.is_hex {
        true => format!("{n:#x}"),
        false => n.to_string(),
    };
    let (seconds, nanos) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
    let time = match style.has_nanos {
        true => format!("{seconds}.{nanos:09}"),
        false => format!("{seconds}.{:06}", nanos / 1000),
    };
    if style.is_perf {
        // Without a fixed column a name that looks like the columns behind it cannot be told.
        write!(
            out,
            "Web Content/2 {} [{:03}]  {time}: kmem:",
            event.pid, event.cpu
        )
        .unwrap();
    } else {
        out.resize(16 - style.task.len(), b' ');
        out.extend_from_slice(&style.task);
        write!(out, "-{:<7} ", event.pid).unwrap();
        if style.has_group {
            write!(out, "({:>7}) ", event.pid).unwrap();
        }
        write!(out, "[{:03}] {} {time}: ", event.cpu, style.flags).unwrap();
    }
    let pad = if style.is_padded { "        " } else { "" };
    match event.kind {
        EventKind::Free { frame, order } => write!(
            out,
            "mm_page_free: {pad}page=00000000b89009e2 pfn={} order={}",
            number(frame.0),
            order.get()
        ),
        EventKind::Alloc {
            frame,
            order,
            mobility,
            gfp,
        } => {
            let page = if frame.is_some() {
                "00000000b89009e2"
            } else {
                "(null)"
            };
            write!(
                out,
                "mm_page_alloc: {pad}page={page} pfn={} order={} migratetype={} gfp_flags={gfp:#x}",
                number(frame.map_or(0, |f| f.0)),
                order.get(),
                mobility as u8
            )
        }
        _ => panic!("no such event is made here"),
    }
    .unwrap();
    out
}

fn made_events() -> impl Strategy<Value = TraceEvent> {
    let kind = (any::<u64>(), 0u8..=20, 0usize..3, any::<u32>(), 0u8..4);
    (0u64..1 << 60, any::<u16>(), any::<u32>(), kind).prop_map(
        |(time_us, cpu, pid, (frame, n, mobility, gfp, which))| {
            let order = order(n);
            let frame = Frame(frame >> 12).align_down(order);
            let mobility = Mobility::ALL[mobility];
            let kind = match which {
                0 => EventKind::Free { frame, order },
                1 => EventKind::Alloc {
                    frame: None,
                    order,
                    mobility,
                    gfp,
                },
                _ => EventKind::Alloc {
                    frame: Some(frame),
                    order,
                    mobility,
                    gfp,
                },
            };
            TraceEvent {
                time_ns: time_us / 1000 * 1000,
                cpu,
                pid,
                kind,
            }
        },
    )
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_text_is_read_or_refused_with_its_line_and_every_line_is_counted(text in texts()) {
        read_all(&text, usize::MAX);
    }

    #[test]
    fn a_text_means_the_same_however_it_arrives(text in texts(), piece_bytes in 1usize..50) {
        prop_assert_eq!(read_all(&text, piece_bytes), read_all(&text, usize::MAX));
    }

    #[test]
    fn an_event_printed_in_any_style_is_read_as_it_was(
        events in prop::collection::vec(made_events(), 1..8),
        style in styles(),
    ) {
        let mut text = Vec::new();
        for event in &events {
            text.extend(print(event, &style));
            text.push(b'\n');
        }
        let (read, errors, _) = read_all(&text, usize::MAX);
        prop_assert_eq!(errors, Vec::<String>::new());
        prop_assert_eq!(read, events);
    }

    #[test]
    fn a_packed_text_cut_or_damaged_anywhere_is_never_a_panic(
        text in texts(),
        is_gzip in any::<bool>(),
        at in any::<u16>(),
        damage in prop::option::of(any::<u8>()),
    ) {
        let mut packed = if is_gzip {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&text).unwrap();
            encoder.finish().unwrap()
        } else {
            zstd::encode_all(&text[..], 1).unwrap()
        };
        let at = usize::from(at) % packed.len();
        match damage {
            Some(byte) => packed[at] ^= byte,
            None => packed.truncate(at),
        }
        let Ok(input) = Input::from_reader("t", Cursor::new(packed)) else {
            return Ok(());
        };
        let mut reader = TextReader::new(input);
        // A damaged stream may unpack to anything; reading it comes to an end all the same.
        loop {
            match reader.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) if error.line().is_some() => {}
                Err(_) => {
                    prop_assert_eq!(reader.next_event().ok().flatten(), None);
                    break;
                }
            }
        }
        if damage.is_none() {
            assert_every_line_is_counted(reader.counts());
        }
    }
}
