//! What every machine has in common, on the machine that builds it: `cargo test --target` and the host's name.
#![cfg(any(target_arch = "x86_64", target_arch = "riscv64"))]

/// What a loader hands over.
#[allow(unused, reason = "the kernel's own addresses are not here")]
#[path = "../src/boot.rs"]
mod boot;

/// Of the architecture's crate they use what is the same on each.
mod arch {
    #[cfg(target_arch = "riscv64")]
    pub use framewright_riscv64 as cpu;
    #[cfg(target_arch = "x86_64")]
    pub use framewright_x86_64 as cpu;
}

use boot::MemoryRange;
use framewright::{Frame, Run};

#[test]
fn only_whole_frames_of_a_range_are_usable() {
    let usable = |start, bytes, from| {
        let run = MemoryRange { start, bytes }.usable_from(Frame(from));
        run.map(|run: Run| (run.start().0, run.frames()))
    };
    assert_eq!(usable(0x1000, 0x3000, 0), Some((1, 3)));
    assert_eq!(usable(0x1001, 0x2fff, 0), Some((2, 2)));
    assert_eq!(usable(0x1000, 0x2fff, 0), Some((1, 2)));
    assert_eq!(usable(0x1000, 0x3000, 2), Some((2, 2)));
    assert_eq!(usable(0x1000, 0x3000, 4), None);
    assert_eq!(usable(0x1000, 0x3000, 9), None);
    assert_eq!(usable(0x1800, 0xfff, 0), None, "no whole frame");
    assert_eq!(usable(0x1000, 0, 0), None);
}

#[test]
fn words_and_memory_are_as_the_loader_said() {
    assert_eq!((boot::word("test"), boot::memory().len()), (None, 0));
    let ranges = [(0, 0x9_f000), (0x10_0000, 0x700_0000)];
    let ranges = ranges.map(|(start, bytes)| MemoryRange { start, bytes });
    boot::found("test=smp loops=200 cpus= seed=7", ranges.into_iter());
    assert_eq!(boot::word("test"), Some("smp"));
    assert_eq!(boot::word("cpus"), Some(""));
    assert_eq!((boot::word("loop"), boot::word("smp")), (None, None));
    assert_eq!(
        (boot::number("loops"), boot::number("seed")),
        (Some(200), Some(7))
    );
    assert_eq!(boot::number("window"), None);
    let found = boot::memory()
        .iter()
        .map(|range| (range.start, range.bytes));
    assert!(found.eq([(0, 0x9_f000), (0x10_0000, 0x700_0000)]));
}
