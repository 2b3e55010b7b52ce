//! PFT4: what compaction moved, from text to the file and back.

use crate::support::{columns_file, input, order};
use framewright::Mobility;
use framewright_lab::trace::{Trace, TraceMove, TraceOp, read_pft, write_pft3, write_pft4};

/// Two objects of two frames, of the second one half is freed, and three moves.
fn small() -> Trace {
    let alloc = TraceOp::alloc(false, order(1), Mobility::Movable, 0, 255, 0);
    let moved = |at, object, offset, n, from, to| TraceMove {
        at,
        object,
        offset,
        order: order(n),
        from,
        to,
    };
    Trace {
        nframes: 1024,
        ops: vec![alloc, alloc, TraceOp::free_part(1, 0, order(0), 0)],
        moves: vec![
            moved(2, 1, 0, 1, 8, None),
            moved(2, 0, 1, 0, 3, Some(1000)),
            moved(3, 1, 1, 0, 9, Some(900)),
        ],
        ..Trace::default()
    }
}

const MOVES: &[u8] = &[
    2, 2, 1, 16, // object 1, of order 1, from 8
    0, 1, 0x30, 9, 0xd0, 0x0f, // object 0 at offset 1, from 3 to 1000
    1, 2, 0x30, 12, 0xc7, 0x01, // object 1 at offset 1, from 9 to 900
];

fn by_hand(moves: &[u8]) -> Vec<u8> {
    let columns: [(&[u8; 8], &[u8]); 15] = [
        (b"init\0\0\0\0", &[]),
        (b"absent\0\0", &[]),
        (b"gfptab\0\0", &[]),
        (b"ops\0\0\0\0\0", &[1 << 2 | 1 << 6, 1 << 2 | 1 << 6, 2]),
        (b"cpu\0\0\0\0\0", &[0; 3]),
        (b"free\0\0\0\0", &[]),
        (b"part\0\0\0\0", &[0, 0]),
        (b"gfp\0\0\0\0\0", &[255; 2]),
        (b"pid\0\0\0\0\0", &[0; 4]),
        (b"tick\0\0\0\0", &[]),
        (b"comm\0\0\0\0", &[]),
        (b"stacks\0\0", &[]),
        (b"stack\0\0\0", &[]),
        (b"work\0\0\0\0", &[]),
        (b"moves\0\0\0", moves),
    ];
    columns_file(b"PFT4", [1024, 0, 2, 3, 15], &columns)
}

#[test]
fn moves_are_written_as_the_form_says_and_read_as_they_were() {
    let mut bytes = Vec::new();
    write_pft4(&small(), &mut bytes).unwrap();
    assert_eq!(bytes, by_hand(MOVES));
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), small());
    // The third version is read for ever, and has the same trace without them.
    let mut bytes = Vec::new();
    write_pft3(&small(), &mut bytes).unwrap();
    let nothing = Trace {
        moves: Vec::new(),
        ..small()
    };
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), nothing);
}

#[test]
fn p1_a_move_that_cannot_be_is_refused_with_its_place() {
    let refused = |moves: &[u8]| {
        let error = read_pft(input(by_hand(moves)).unwrap()).unwrap_err();
        error.to_string()
    };
    for (moves, says) in [
        (
            &[0][..],
            "the column `moves` ends too early or is damaged at entry 0",
        ),
        (&[4, 0, 1, 0], "move 0 is behind the last of 3 operations"),
        // Not there yet, freed, not in it, and not aligned in it.
        (
            &[0, 0, 1, 0],
            "move 0 is of order 1 at offset 0 of object 0",
        ),
        (
            &[3, 2, 1, 0],
            "move 0 is of order 1 at offset 0 of object 1",
        ),
        (
            &[2, 0, 0x40, 0],
            "move 0 is of order 0 at offset 2 of object 0",
        ),
        (
            &[2, 0, 0x21, 0],
            "move 0 is of order 1 at offset 1 of object 0",
        ),
        // Outside the machine, and no block.
        (&[2, 0, 0, 0x80, 0x10], "expected blocks below 1024"),
        (&[2, 0, 1, 2], "expected blocks below 1024"),
        (&[2, 0, 0x10, 0, 0x80, 0x10], "expected blocks below 1024"),
    ] {
        assert!(refused(moves).contains(says), "{}", refused(moves));
    }
    let mut trace = small();
    trace.moves.swap(1, 2);
    let says = write_pft4(&trace, Vec::new()).unwrap_err().to_string();
    assert!(
        says.contains("move 2 is before the one in front of it"),
        "{says}"
    );
}
