use crate::support::{columns_file, input, order};
use framewright::{Frame, Mobility, Run};
use framewright_lab::trace::{
    InitClass, InitObject, Input, MemoryLimit, Recording, Trace, TraceOp, read_frames, read_pft,
    write_frames, write_pft1,
};

fn init(frame: u64, class: InitClass) -> InitObject {
    InitObject {
        frame: Frame(frame),
        class,
    }
}

/// One of everything: objects 0 to 2 are initial, 3 has order 3, 4 order 0.
fn small() -> Trace {
    Trace {
        nframes: 4096,
        absent: vec![Run::new(Frame(512), 512).unwrap()],
        init: vec![
            init(3, InitClass::Slab),
            init(4, InitClass::Unmovable),
            init(2000, InitClass::Movable),
        ],
        ops: vec![
            TraceOp::alloc(false, order(3), Mobility::Movable, 1, 0, 300),
            TraceOp::tick(1000),
            TraceOp::alloc(false, order(0), Mobility::Reclaimable, 0x80, 255, 0),
            TraceOp::free(1, order(0), 2),
            TraceOp::free_part(3, 4, order(2), 1),
            TraceOp::alloc(true, order(9), Mobility::Unmovable, 1, 1, 65535),
            TraceOp::free_part(3, 0, order(1), 1),
            TraceOp::free(4, order(0), 0x81),
        ],
        gfp: vec![0x14_0cca, 0x52c40],
        ..Trace::default()
    }
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pft1(trace, &mut bytes).unwrap();
    bytes
}

fn error(bytes: &[u8]) -> String {
    read_pft(input(bytes).unwrap()).unwrap_err().to_string()
}

/// What `small` is as bytes, written by hand from the description of the form.
fn small_by_hand() -> Vec<u8> {
    // Zigzag of 4 x (frame - the last one) + class.
    let init = [28u8, 8, 0xe2, 0x7c];
    let absent = [0x80u8, 4, 0x80, 4];
    let gfptab = [0xca, 0x0c, 0x14, 0, 0x40, 0x2c, 5, 0];
    let ops = [
        3 << 2 | 1 << 6,
        3 | 15 << 2 | 3 << 6,
        2 << 6,
        1,
        2 | 2 << 2,
        3 | 9 << 2,
        2 | 1 << 2,
        1,
    ];
    let cpu = [1, 0x80, 2, 1, 1, 1, 0x81];
    let free = [3, 0];
    let part = [1, 4, 1, 0];
    let gfp = [0, 255, 1];
    let pid = [44, 1, 0, 0, 255, 255];
    let tick = [0xe8, 7];
    let columns: [(&[u8; 8], &[u8]); 10] = [
        (b"init\0\0\0\0", &init),
        (b"absent\0\0", &absent),
        (b"gfptab\0\0", &gfptab),
        (b"ops\0\0\0\0\0", &ops),
        (b"cpu\0\0\0\0\0", &cpu),
        (b"free\0\0\0\0", &free),
        (b"part\0\0\0\0", &part),
        (b"gfp\0\0\0\0\0", &gfp),
        (b"pid\0\0\0\0\0", &pid),
        (b"tick\0\0\0\0", &tick),
    ];
    columns_file(b"PFT1", [4096, 3, 2, 8, 10], &columns)
}

/// Where a column's length stands, and where its bytes start, in `small_by_hand`.
fn column(name: &str) -> (usize, usize) {
    let bytes = small_by_hand();
    let mut start = 24 + 160;
    for i in 0..10 {
        let entry = 24 + 16 * i;
        if bytes[entry..].starts_with(format!("{name}\0").as_bytes()) {
            return (entry + 8, start);
        }
        start += usize::from(bytes[entry + 8]);
    }
    panic!("no column {name}");
}

#[test]
fn a_trace_is_written_as_the_form_says_and_read_as_it_was() {
    assert_eq!(written(&small()), small_by_hand());
    let read = read_pft(input(small_by_hand()).unwrap()).unwrap();
    assert_eq!(read, small());
    let Recording::Columns(found) = Recording::from_input(input(small_by_hand()).unwrap()).unwrap()
    else {
        panic!("the form was not recognised");
    };
    assert_eq!(*found, small());
    let empty = Trace::default();
    assert_eq!(read_pft(input(written(&empty)).unwrap()).unwrap(), empty);
}

#[test]
fn columns_may_stand_in_another_order() {
    let mut bytes = small_by_hand();
    let (first, second) = (24, 40);
    let (init, absent) = (column("init").1, column("absent").1);
    // The two have the same length, so that nothing else moves.
    for i in 0..16 {
        bytes.swap(first + i, second + i);
    }
    for i in 0..4 {
        bytes.swap(init + i, absent + i);
    }
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), small());
}

#[test]
fn a_file_cut_off_anywhere_is_an_error_that_names_the_place() {
    let bytes = small_by_hand();
    for cut in 0..bytes.len() {
        let message = error_or_text(&bytes[..cut]);
        assert!(
            message.contains("(the file is cut off)"),
            "{cut}: {message}"
        );
    }
    assert_eq!(
        error(&bytes[..10]),
        "t: the header ends after 10 of 24 bytes (the file is cut off)"
    );
    assert_eq!(
        error(&bytes[..30]),
        "t: the table of columns ends after 6 of 160 bytes (the file is cut off)"
    );
    assert_eq!(
        error(&bytes[..column("ops").1 + 3]),
        "t: the column `ops` ends after 3 of 8 bytes (the file is cut off)"
    );
}

fn error_or_text(bytes: &[u8]) -> String {
    match read_pft(input(bytes).unwrap()) {
        Ok(trace) => format!("read: {trace:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_no_trace_can_mean_is_refused_with_the_operation_or_the_column() {
    let change = |changes: &[(usize, u8)]| {
        let mut bytes = small_by_hand();
        for &(at, value) in changes {
            bytes[at] = value;
        }
        bytes
    };
    let op = |i: usize| column("ops").1 + i;
    for (bytes, message) in [
        (
            change(&[(0, b'Q')]),
            "the input does not start with PFT1 to PFT5, expected a trace in columns",
        ),
        (
            change(&[(20, 11)]),
            "the header says 11 columns, expected 10",
        ),
        (
            change(&[(11, 255), (15, 255)]),
            "the header says 4278190083 initial objects and 4278190082 allocations, expected at most 2^32 - 1 together",
        ),
        (
            change(&[(5, 0)]),
            "the header says 3 initial objects in 0 frames, expected no more than frames",
        ),
        (
            change(&[(24, b'X')]),
            "the column `Xnit` is unknown, expected one of init absent gfptab ops cpu free part gfp pid tick",
        ),
        (
            change(&[(24 + 64, b'o'), (25 + 64, b'p'), (26 + 64, b's')]),
            "the column `ops` is there twice, expected once",
        ),
        (
            [small_by_hand(), vec![0]].concat(),
            "there are bytes after the last column, expected the end",
        ),
        (
            change(&[(8, 5)]),
            "the column `init` has 4 bytes for 5 objects, expected 5 to 50",
        ),
        (
            change(&[(8, 4)]),
            "the column `init` ends too early or is damaged at entry 3",
        ),
        (
            change(&[(8, 2)]),
            "the column `init` has 2 bytes more than are used, expected none",
        ),
        (
            change(&[(column("init").1, 6)]),
            "initial object 0 has class 3, expected 0 to 2",
        ),
        (
            change(&[(column("init").1, 7)]),
            "initial object 0 is outside the machine, expected a frame below 4096",
        ),
        (
            change(&[(column("init").1 + 1, 0)]),
            "two initial objects are at frame 0x3, expected one",
        ),
        (
            change(&[(column("absent").1 + 1, 1), (column("absent").1 + 3, 32)]),
            "absent run 0 is empty or outside the machine, expected frames below 4096",
        ),
        (
            change(&[(column("absent").1 + 3, 15)]),
            "an initial object is at frame 0x7d0, which is absent",
        ),
        (
            change(&[(12, 3)]),
            "the column `ops` has 2 allocations, expected 3 as the header says",
        ),
        (
            change(&[(16, 9)]),
            "the column `ops` has 8 bytes for 9 operations, expected 9 to 9",
        ),
        (
            change(&[(op(0), 3 << 2 | 3 << 6)]),
            "operation 0: mobility 3, expected 0 to 2",
        ),
        (
            change(&[(op(0), 15 << 2)]),
            "operation 0: order 15 is above the maximum 14",
        ),
        (
            change(&[(op(3), 1 | 1 << 6)]),
            "operation 3: a free has a mobility, expected 0",
        ),
        (
            change(&[(op(3), 1 | 1 << 2)]),
            "operation 3: free of object 1 with order 1, which was allocated with order 0",
        ),
        (
            change(&[(column("free").1 + 1, 3)]),
            "operation 7: free of object 1, which was freed before",
        ),
        (
            change(&[(column("free").1, 5)]),
            "operation 3: free of the object 5 before the newest, which is older than the first",
        ),
        (
            change(&[(column("part").1 + 2, 5)]),
            "operation 6: free of the object 5 before the newest, which is older than the first",
        ),
        (
            change(&[(column("part").1 + 3, 4)]),
            "operation 6: free of a part of object 3 at offset 4, which was freed before",
        ),
        (
            change(&[(column("part").1 + 1, 8)]),
            "operation 4: free of a part of object 3 at offset 8 with order 2, which is not a block inside it",
        ),
        (
            change(&[(op(7), 1 | 3 << 2), (column("free").1 + 1, 1)]),
            "operation 7: free of the whole object 3, of which parts were freed before",
        ),
        (
            change(&[(column("gfp").1, 2)]),
            "operation 0: gfp index 2, expected one below 2, or 255",
        ),
        (
            change(&[(column("gfptab").0, 7), (column("ops").0, 9), (16, 9)]),
            "the column `gfptab` has 7 bytes, expected a multiple of 4 up to 1020",
        ),
        (
            change(&[(op(7), 3 | 15 << 2)]),
            "operation 7: the column `tick` ends too early or is damaged",
        ),
        (
            change(&[(op(7), 3 | 9 << 2)]),
            "operation 7: the column `gfp` ends too early or is damaged",
        ),
        (
            change(&[(op(5), 1)]),
            "operation 7: the column `free` ends too early or is damaged",
        ),
        (
            change(&[(op(5), 2)]),
            "operation 6: the column `part` ends too early or is damaged",
        ),
    ] {
        assert_eq!(error_or_text(&bytes), format!("t: {message}"));
    }
}

#[test]
fn a_header_that_claims_too_much_costs_what_the_file_holds() {
    for at in [4usize, 8, 12, 16] {
        let mut bytes = small_by_hand();
        bytes[at..at + 4].fill(0xff);
        if at == 8 {
            // So that the number of initial objects is what is refused.
            bytes[4..8].fill(0xff);
        }
        let read = read_pft(input(bytes).unwrap());
        assert_eq!(read.is_ok(), at == 4, "{at}");
    }
    for i in 0..10 {
        let mut bytes = small_by_hand();
        bytes[24 + 16 * i + 8..24 + 16 * i + 16].fill(0xff);
        let message = error(&bytes);
        assert!(message.contains("18446744073709551615 bytes"), "{message}");
    }
}

#[test]
fn what_the_form_cannot_hold_is_refused_before_a_byte_is_written() {
    let refused = |trace: &Trace| {
        let mut bytes = Vec::new();
        let error = write_pft1(trace, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(bytes.is_empty());
        error.to_string()
    };
    let with = |change: fn(&mut Trace)| {
        let mut trace = small();
        change(&mut trace);
        trace
    };
    for (trace, message) in [
        (
            with(|t| t.nframes = 1 << 32),
            "4294967296 frames, PFT holds at most 2^32 - 1",
        ),
        (
            with(|t| t.gfp = vec![0; 256]),
            "256 flag words, PFT holds at most 255",
        ),
        (
            with(|t| t.ops[0] = TraceOp::alloc(false, order(15), Mobility::Movable, 1, 0, 300)),
            "operation 0: order 15 is above the maximum 14",
        ),
        (
            with(|t| t.ops[0] = TraceOp::alloc(false, order(3), Mobility::Movable, 1, 2, 300)),
            "operation 0: gfp index 2 of a table of 2",
        ),
        (
            with(|t| t.ops.push(TraceOp::free(4, order(0), 0))),
            "operation 8: free of object 4, which was freed before",
        ),
        (
            with(|t| t.ops.push(TraceOp::free(9, order(0), 0))),
            "operation 8: free of object 9, which is not allocated yet",
        ),
        (
            with(|t| t.init[0].frame = Frame(600)),
            "initial object 0 is at frame 0x258, where there is none",
        ),
        (
            with(|t| t.init[0].frame = Frame(4096)),
            "initial object 0 is at frame 0x1000, where there is none",
        ),
        (
            with(|t| t.init[1].frame = Frame(3)),
            "two initial objects are at frame 0x3",
        ),
        (
            with(|t| t.absent.push(Run::new(Frame(0), 1).unwrap())),
            "absent run 1 (Run(0x0..0x1)) is empty, out of order or outside the machine",
        ),
    ] {
        assert_eq!(refused(&trace), message);
    }
}

#[test]
fn chosen_frames_are_read_for_the_allocations_of_their_trace() {
    let trace = small();
    let mut bytes = Vec::new();
    write_frames(&[1024, 4095], &mut bytes).unwrap();
    assert_eq!(bytes, [0x80, 0x10, 0xfe, 0x2f]);
    let frames = |bytes: &[u8]| {
        read_frames(input(bytes).unwrap(), &trace).map_err(|error| error.to_string())
    };
    assert_eq!(frames(&bytes), Ok(vec![1024, 4095]));
    let refused = |bytes: &[u8]| frames(bytes).unwrap_err();
    assert_eq!(
        refused(&bytes[..2]),
        "t: the input ends after 1 frames, expected one for each allocation of the trace"
    );
    assert_eq!(refused(&bytes[..3]), "t: frame 1 is cut off or damaged");
    assert_eq!(
        refused(&[&bytes[..], &[0]].concat()),
        "t: there are bytes after frame 2, expected as many frames as the trace has allocations"
    );
    for (chosen, i, n) in [([4096, 0], 0, 3), ([1025, 0], 0, 3), ([1024, 4096], 1, 0)] {
        let mut bytes = Vec::new();
        write_frames(&chosen, &mut bytes).unwrap();
        assert_eq!(
            refused(&bytes),
            format!(
                "t: the frame of allocation {i} is outside the machine or not aligned, expected a \
                 block of order {n} below frame 4096"
            )
        );
    }
}

/// A head whose columns are of these lengths, without the columns.
fn head(nframes: u32, ninit: u32, nops: u32, lens: &[(&str, u64)]) -> Vec<u8> {
    let mut bytes = b"PFT1".to_vec();
    for number in [nframes, ninit, 0, nops, 10] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for name in [
        "init", "absent", "gfptab", "ops", "cpu", "free", "part", "gfp", "pid", "tick",
    ] {
        let mut padded = [0; 8];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        bytes.extend_from_slice(&padded);
        let len = lens.iter().find(|(of, _)| *of == name).map_or(0, |l| l.1);
        bytes.extend_from_slice(&len.to_le_bytes());
    }
    bytes
}

/// Zeros without end, and how many of them were taken.
struct Zeros {
    head: std::io::Cursor<Vec<u8>>,
    taken: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl std::io::Read for Zeros {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = match self.head.read(out)? {
            0 => {
                out.fill(0);
                out.len()
            }
            n => n,
        };
        self.taken
            .fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(n)
    }
}

#[test]
fn p2_a_column_longer_than_the_counts_allow_is_refused_before_its_first_byte() {
    for (column, len, nops, expected) in [
        (
            "pid",
            4 << 30,
            0,
            "the column `pid` has 4294967296 bytes for 0 operations, expected 0 to 0",
        ),
        (
            "pid",
            3,
            1,
            "the column `pid` has 3 bytes for 1 operations, expected 0 to 2",
        ),
        (
            "tick",
            4 << 30,
            9,
            "the column `tick` has 4294967296 bytes for 9 operations, expected 0 to 90",
        ),
        (
            "gfptab",
            1024,
            9,
            "the column `gfptab` has 1024 bytes for 255 words, expected 0 to 1020",
        ),
        (
            "absent",
            21,
            0,
            "the column `absent` has 21 bytes for 1 frames, expected 0 to 20",
        ),
    ] {
        let nframes = if column == "absent" { 1 } else { 1024 };
        let taken = std::sync::Arc::default();
        let zeros = Zeros {
            head: std::io::Cursor::new(head(
                nframes,
                0,
                nops,
                &[(column, len), ("ops", u64::from(nops))],
            )),
            taken: std::sync::Arc::clone(&taken),
        };
        let error = read_pft(Input::from_reader("t", zeros).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), format!("t: {expected}"));
        let taken = taken.load(std::sync::atomic::Ordering::Relaxed);
        assert!(taken < 200_000, "{taken} bytes of the column were read");
    }
}

#[test]
fn p4_columns_above_the_memory_limit_are_refused_with_the_option_that_allows_them() {
    let nops = u32::MAX;
    let claimed = head(1024, 0, nops, &[("ops", u64::from(nops))]);
    assert_eq!(
        error(&claimed),
        "t: the columns as the header gives them: takes 73728 MiB of memory, expected at most 4096 \
         MiB; `--memory-limit 73728` allows it"
    );
    let small = written(&small());
    let limited = input(small.clone()).unwrap();
    let limited = limited.with_memory_limit(MemoryLimit::bytes(100));
    assert!(read_pft(limited).is_err());
    let enough = input(small).unwrap();
    let enough = enough.with_memory_limit(MemoryLimit::bytes(1 << 10));
    assert!(read_pft(enough).is_ok());
}
