//! Runs every example as its own process.

use std::process::Command;

fn output(program: &str) -> String {
    let run = Command::new(program).output().unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{program}: {}\n{errors}", run.status);
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_zone_in_a_vec_serves_and_refuses() {
    let out = output(env!("CARGO_BIN_EXE_zone"));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 6, "{out}");
    let kib = lines[0]
        .strip_prefix("metadata: ")
        .unwrap()
        .strip_suffix(" KiB")
        .unwrap();
    assert!((1..=1024).contains(&kib.parse::<u32>().unwrap()), "{out}");
    assert!(lines[1].starts_with("two stacks: frames 0x"));
    assert!(lines[2].ends_with("is free already"), "{out}");
    assert!(lines[3].ends_with("was allocated with order 2"), "{out}");
    assert!(
        lines[4].ends_with("is not the first of an allocation"),
        "{out}"
    );
    assert_eq!(lines[5], "free again: 16384 frames");
}

#[test]
fn a_small_kernels_memory_is_one_static() {
    let out = output(env!("CARGO_BIN_EXE_engine"));
    let (metadata, rest) = out.split_once('\n').unwrap();
    assert!(metadata.starts_with("metadata: "), "{out}");
    assert_eq!(
        rest,
        "300 frames side by side, aligned: true\nmapped pages: 2048\nkmalloc's size: 768 bytes\n\
         refused: true\nfree again: 12288 frames\n"
    );
}

#[test]
fn each_cpu_keeps_its_seats_in_a_cpu_local() {
    let out = output(env!("CARGO_BIN_EXE_cpu_locals"));
    let lines: Vec<_> = out.lines().collect();
    let expected = [
        "without seats: None",
        "CPU 0 has 1000 frames",
        "a call inside a call: Some(None)",
    ];
    assert_eq!(lines[..3], expected, "{out}");
    assert!(lines[3].starts_with("refused: ") && lines[3].contains("taken"));
    let expected = ["CPU 1 freed 1000 of them", "free again: 16384 frames"];
    assert_eq!(lines[4..], expected, "{out}");
}

#[test]
fn threads_take_all_frames_and_one_gives_them_back() {
    let out = output(env!("CARGO_BIN_EXE_threads"));
    assert_eq!(
        out,
        "16384 of 16384 frames were had by 4 threads\nfree again: 16384 frames\n"
    );
}

#[test]
fn areas_are_memory_and_are_unmapped_and_listed() {
    let out = output(env!("CARGO_BIN_EXE_ranges"));
    let expected = "\
in the second frame: wo pages
mappings after the free: 1
the next one is zeroed: true
0x...-0x...   24576 unpurged vm_area
0x...-0x...   24576 writer pages=5 vmalloc
0x...-0x...   12288 reader ioremap
refused: the area at page ... was not made by the call's counterpart
mappings in the window: 1
";
    assert_eq!(out, expected);
}

#[test]
fn a_policy_decides_how_many_pageblocks_are_broken_into() {
    let out = output(env!("CARGO_BIN_EXE_policy"));
    let expected = "\
largest-first         64 pageblocks contaminated
smallest-when-costly  6 pageblocks contaminated
concentrated          6 pageblocks contaminated
the default is concentrated
";
    assert_eq!(out, expected);
}

#[test]
fn kvmalloc_goes_to_mapped_pages_where_memory_is_fragmented() {
    let out = output(env!("CARGO_BIN_EXE_kvmalloc"));
    let expected = "\
[0, 0, 0, 1, 0, 0, 0, 0], 65536 bytes of 7
16 buffers, kept: true
mapped: 16, waited for: 0
65536 bytes came back: 65536 contiguous bytes were not there at once
refused: a request that must succeed has to be allowed to wait and to reclaim
";
    assert_eq!(out, expected);
}

#[test]
fn a_kvmalloc_has_a_cache_give_frames_back() {
    let out = output(env!("CARGO_BIN_EXE_kvmalloc_reclaim"));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "the cache has 4096 frames", "{out}");
    assert!(lines[1].starts_with("refused: "), "{out}");
    let expected = [
        "in mapped pages: true",
        "the cache gave back enough: true",
        "and kept the rest: true",
        "freed: 1048576 bytes",
    ];
    assert_eq!(lines[2..], expected, "{out}");
}

#[test]
fn a_program_runs_on_the_engine_s_heap() {
    let out = output(env!("CARGO_BIN_EXE_global_alloc"));
    let lines: Vec<_> = out.lines().collect();
    let expected = [
        "100 different words, the longest line Some(110) bytes",
        "  2513 word0",
        "  2507 word1",
        "   615 word10",
    ];
    assert_eq!(lines[..4], expected, "{out}");
    if let Some(reason) = lines[4].strip_prefix("on the system's heap: ") {
        eprintln!("skipped: {reason}");
        return;
    }
    let number = |line: usize, name: &str| {
        let number = lines[line]
            .strip_prefix(name)
            .and_then(|rest| rest.split(',').next());
        number.expect(name).parse::<u64>().unwrap()
    };
    assert!(number(4, "small objects: ") > 100_000, "{out}");
    number(5, "blocks of frames: ");
    // What the heap and its seats are made with, and nothing of the program's.
    assert!(number(6, "passed on to the system: ") < 100, "{out}");
    assert_eq!(lines[7], "lost: 0, refused: 0");
}

#[test]
fn under_pressure_a_cache_gives_back_and_pages_move() {
    let out = output(env!("CARGO_BIN_EXE_pressure"));
    let expected = "\
given back by the cache: true
aligned: true
pages moved: true
stalls: true
refused: order 20 is above the maximum 10
";
    assert_eq!(out, expected);
}

#[test]
fn a_reserve_keeps_pages_until_its_owner_takes_the_frames() {
    let out = output(env!("CARGO_BIN_EXE_reserve"));
    let expected = "\
pages: 2048
the camera has 1024 frames
pages: 1024
refused: Run(0x1400..0x1800) is taken already
";
    assert_eq!(out, expected);
}

#[test]
fn a_pin_stops_the_area_that_moves_and_not_the_one_that_drops() {
    let out = output(env!("CARGO_BIN_EXE_contiguous"));
    let expected = "\
with pins:
migrates: none
guaranteed: 1000 frames in one piece
without pins:
migrates: 1000 frames in one piece
guaranteed: 1000 frames in one piece
";
    assert_eq!(out, expected);
}

#[test]
fn a_files_pages_give_way_to_a_reserve_and_that_to_its_owner() {
    let out = output(env!("CARGO_BIN_EXE_files"));
    let expected = "\
in the file: true
freed: 266 frames
the same: true, 266 pages from the reserve, 0 from the file
the device has 1024 frames
the same: true, 0 pages from the reserve, 266 from the file
";
    assert_eq!(out, expected);
}
