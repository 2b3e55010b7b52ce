//! PFT5: which free frames lay on CPUs' lists at the start, from the snapshots to the file and back.

use crate::support::{columns_file, input};
use framewright::{Frame, Run};
use framewright_lab::trace::{InitClass, InitObject, Trace, read_pft, write_pft4, write_pft5};

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

/// Frames 3 and 900 to 902 lie on no free list; frame 8 is in use, and there is none from 16 on to 20.
fn small() -> Trace {
    Trace {
        nframes: 1024,
        init: vec![InitObject {
            frame: Frame(8),
            class: InitClass::Movable,
        }],
        absent: vec![run(16, 4)],
        unlisted: vec![run(3, 1), run(900, 3)],
        ..Trace::default()
    }
}

fn by_hand(unlisted: &[u8]) -> Vec<u8> {
    let mut columns: Vec<(&[u8; 8], &[u8])> =
        vec![(b"init\0\0\0\0", &[0x42]), (b"absent\0\0", &[16, 4])];
    let empty = [
        b"gfptab\0\0",
        b"ops\0\0\0\0\0",
        b"cpu\0\0\0\0\0",
        b"free\0\0\0\0",
        b"part\0\0\0\0",
        b"gfp\0\0\0\0\0",
        b"pid\0\0\0\0\0",
        b"tick\0\0\0\0",
        b"comm\0\0\0\0",
        b"stacks\0\0",
        b"stack\0\0\0",
        b"work\0\0\0\0",
        b"moves\0\0\0",
    ];
    columns.extend(empty.map(|name| (name, &[][..])));
    columns.push((b"unlisted", unlisted));
    columns_file(b"PFT5", [1024, 1, 0, 0, 16], &columns)
}

#[test]
fn what_lay_on_cpus_lists_is_written_as_the_form_says_and_read_as_it_was() {
    let mut bytes = Vec::new();
    write_pft5(&small(), &mut bytes).unwrap();
    assert_eq!(bytes, by_hand(&[3, 1, 0x80, 0x07, 3]));
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), small());
    // The fourth version is read for ever, and has the same trace without it.
    let mut bytes = Vec::new();
    write_pft4(&small(), &mut bytes).unwrap();
    let nothing = Trace {
        unlisted: Vec::new(),
        ..small()
    };
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), nothing);
}

#[test]
fn p1_frames_on_a_list_that_are_not_free_are_refused_with_their_place() {
    for (unlisted, says) in [
        (&[3][..], "the column `unlisted` ends too early"),
        (&[3, 0], "unlisted run 0 is empty or outside the machine"),
        (
            &[0xff, 0x07, 2],
            "unlisted run 0 is empty or outside the machine",
        ),
        (&[8, 1], "an initial object is there"),
        (&[2, 1, 3, 4], "an initial object is there"),
        (&[14, 3], "a frame of it is absent"),
        (&[19, 1], "a frame of it is absent"),
    ] {
        let refused = read_pft(input(by_hand(unlisted)).unwrap()).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    for unlisted in [
        vec![run(900, 3), run(3, 1)],
        vec![run(8, 1)],
        vec![run(1023, 2)],
    ] {
        let trace = Trace {
            unlisted,
            ..small()
        };
        let mut bytes = Vec::new();
        assert!(
            write_pft5(&trace, &mut bytes).is_err(),
            "{:?}",
            trace.unlisted
        );
        assert!(bytes.is_empty());
    }
}
