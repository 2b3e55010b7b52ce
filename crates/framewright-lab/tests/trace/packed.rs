use crate::support::{Drip, events, input};
use flate2::write::GzEncoder;
use framewright_lab::trace::{Encoding, Input, Recording, TextReader, TraceError, TraceEvent};
use std::io::{Cursor, Write};
use std::path::Path;

fn text() -> Vec<u8> {
    (0..3000u32)
        .flat_map(|i| {
            let pfn = i.wrapping_mul(2_654_435_761) % 1_000_000;
            format!("            bash-{i:<7} [001] .....  17.{i:06}: mm_page_free: pfn={pfn:#x} order=0\n")
                .into_bytes()
        })
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// The events of a packed text, and the error that stopped them.
fn read(bytes: Vec<u8>, piece_bytes: usize) -> (Vec<TraceEvent>, Option<TraceError>) {
    let bytes = Cursor::new(bytes);
    let input = match Input::from_reader("t", Drip { bytes, piece_bytes }) {
        Ok(input) => input,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut reader = TextReader::new(input);
    let mut events = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

#[test]
fn a_packed_text_is_the_text_whatever_its_name_and_however_it_arrives() {
    let (plain, _) = events(text());
    assert_eq!(plain.len(), 3000);
    let half = text().len() / 2;
    let two = |pack: fn(&[u8]) -> Vec<u8>| [pack(&text()[..half]), pack(&text()[half..])].concat();
    let mut skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd".to_vec();
    skippable.extend(zstd(&text()));
    for packed in [
        gzip(&text()),
        zstd(&text()),
        two(gzip),
        two(zstd),
        skippable,
    ] {
        for piece_bytes in [1, 7, usize::MAX] {
            let (unpacked, error) = read(packed.clone(), piece_bytes);
            assert_eq!((unpacked, error), (plain.clone(), None));
        }
    }
    assert_eq!(input(gzip(b"x")).unwrap().encoding(), Encoding::Gzip);
    assert_eq!(input(zstd(b"x")).unwrap().encoding(), Encoding::Zstd);
    assert_eq!(input("x").unwrap().encoding(), Encoding::Plain);
}

#[test]
fn a_stream_cut_off_anywhere_is_an_error_that_names_the_byte() {
    for (packed, name, signature_bytes) in [(gzip(&text()), "gzip", 2), (zstd(&text()), "zstd", 4)]
    {
        let cuts = (signature_bytes..40)
            .chain((40..packed.len()).step_by(997))
            .chain(packed.len() - 12..packed.len());
        for cut in cuts {
            let (before, error) = read(packed[..cut].to_vec(), usize::MAX);
            assert_eq!(
                error.map(|e| e.to_string()),
                Some(format!(
                    "t: the {name} stream ends early at byte {cut} (the file is cut off)"
                ))
            );
            assert!(before.len() < 3000 || cut > packed.len() - 12);
        }
        // So little that not even the packing shows.
        for cut in 0..signature_bytes {
            assert!(read(packed[..cut].to_vec(), 1).1.is_some());
        }
    }
}

#[test]
fn a_damaged_stream_is_an_error_that_names_the_byte() {
    let mut wrong_checksum = gzip(&text());
    let at = wrong_checksum.len() - 8;
    wrong_checksum[at] ^= 1;
    let mut wrong_blocks = zstd(&text());
    let at = wrong_blocks.len() / 2;
    wrong_blocks[at..].fill(0xff);
    for (packed, name) in [(wrong_checksum, "gzip"), (wrong_blocks, "zstd")] {
        let error = read(packed, usize::MAX).1.unwrap().to_string();
        let message = format!("t: the {name} stream is damaged at or before byte ");
        assert!(error.starts_with(&message), "{error}");
    }
    let mut trailing = zstd(&text());
    trailing.extend_from_slice(b"garbage behind the last frame");
    assert!(read(trailing, usize::MAX).1.is_some());
}

#[test]
fn what_is_not_read_here_is_named() {
    for (bytes, message) in [
        (
            &b"\xfd7zXZ\x00"[..],
            "t: the input is packed with xz, expected plain, gzip or zstd",
        ),
        (
            b"BZh91AY&SY",
            "t: the input is packed with bzip2, expected plain, gzip or zstd",
        ),
        (
            b"\x04\x22\x4d\x18\x64\x40",
            "t: the input is packed with lz4, expected plain, gzip or zstd",
        ),
    ] {
        assert_eq!(input(bytes).unwrap_err().to_string(), message);
    }
    for (bytes, message) in [
        (
            &b"PERFILE2h\0\0\0"[..],
            "t: this is perf.data, expected its text: `perf script -i FILE > TEXT`",
        ),
        (
            b"\x17\x08\x44tracing6\0",
            "t: this is trace.dat, expected its text: `trace-cmd report -i FILE > TEXT`",
        ),
    ] {
        let error = Recording::from_input(input(bytes).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), message);
        // Packed all the same.
        let error = Recording::from_input(input(gzip(bytes)).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_window_above_128_mib_is_refused_and_one_of_128_mib_is_not() {
    // Frame headers by hand: a window descriptor's upper five bits are its log2 less 10. Behind
    // it stands one raw block, the last, of seven bytes.
    let frame = |window_log: u8| {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (window_log - 10) << 3];
        frame.extend_from_slice(&[7 << 3 | 1, 0, 0]);
        frame.extend_from_slice(b"# text\n");
        frame
    };
    let mut bytes = Vec::new();
    let read = input(frame(27)).unwrap().read_up_to(100, &mut bytes);
    assert_eq!((read, &bytes[..]), (Ok(7), &b"# text\n"[..]));
    let error = input(frame(28)).unwrap().read_up_to(100, &mut bytes);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("zstd stream is damaged")
    );
}

#[test]
fn a_file_that_cannot_be_opened_or_read_is_named() {
    let missing = Path::new("/nonexistent/trace.txt");
    let error = Recording::open(missing).unwrap_err().to_string();
    assert!(
        error.starts_with("/nonexistent/trace.txt: cannot open the file: "),
        "{error}"
    );
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let error = Recording::open(directory).unwrap_err().to_string();
    assert!(error.contains(": cannot read: "), "{error}");
}

#[test]
fn a_reader_that_fails_half_way_says_where() {
    struct BrokenReader(Cursor<Vec<u8>>);
    impl std::io::Read for BrokenReader {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(out) {
                Ok(0) => Err(std::io::Error::other("the device is gone")),
                other => other,
            }
        }
    }
    let line = b"x-1 [000] 1.5: mm_page_free: pfn=1 order=0\n";
    let input = Input::from_reader("t", BrokenReader(Cursor::new(line.to_vec()))).unwrap();
    let mut reader = TextReader::new(input);
    assert!(reader.next_event().unwrap().is_some());
    assert_eq!(
        reader.next_event().unwrap_err().to_string(),
        "t: cannot read at byte 43: the device is gone"
    );
    assert!(reader.next_event().unwrap().is_none());
}
