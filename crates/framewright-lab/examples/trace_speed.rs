//! How many lines a second the text reader takes on one core: generated text from memory, and
//! the files named on the command line, unpacked as they are read.
//!
//! `cargo run --release -p framewright-lab --example trace_speed -- [FILE...]`

use framewright_lab::trace::{Input, TextReader, TraceError};
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Lines of generated text: some 40 MiB, well above every cache.
const LINES: u64 = 300_000;

/// Readings of one input; the fastest is the one least disturbed.
const ROUNDS: u32 = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), TraceError> {
    let text = generated().into_bytes();
    measure("generated", || {
        Input::from_reader("generated", Cursor::new(text.clone()))
    })?;
    for path in std::env::args_os().skip(1) {
        let path = Path::new(&path);
        measure(&path.display().to_string(), || Input::open(path))?;
    }
    Ok(())
}

fn measure(name: &str, open: impl Fn() -> Result<Input, TraceError>) -> Result<(), TraceError> {
    let mut best = f64::INFINITY;
    let mut lines = 0;
    for _ in 0..ROUNDS {
        let input = open()?;
        let start = Instant::now();
        let mut reader = TextReader::new(input);
        // What is read must be used, or the compiler may leave out the reading.
        let mut frames = 0u64;
        while let Some(event) = reader.next_event()? {
            frames = frames.wrapping_add(event.time_ns);
        }
        std::hint::black_box(frames);
        best = best.min(start.elapsed().as_secs_f64());
        lines = reader.counts().lines;
    }
    println!(
        "{name}: {lines} lines in {:.1} ms, {:.2} million lines a second",
        best * 1e3,
        lines as f64 / best / 1e6
    );
    Ok(())
}

/// Allocations and frees as a recent kernel prints them, each frame twice.
fn generated() -> String {
    let mut text = String::from("# tracer: nop\n#\n");
    for i in 0..LINES / 2 {
        let pfn = 0x10_0000 + i * 7;
        let (cpu, micros) = (i % 8, i * 3 % 1_000_000);
        let task = ["bash", "python3", "kworker/u8:2", "<idle>"][i as usize % 4];
        let flags = [
            "GFP_KERNEL_ACCOUNT|__GFP_ZERO|__GFP_COMP",
            "GFP_HIGHUSER_MOVABLE|__GFP_COMP",
            "__GFP_RECLAIMABLE|__GFP_IO|__GFP_FS|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP",
        ][i as usize % 3];
        let migratetype = i % 3;
        let _ = writeln!(
            text,
            "{task:>16}-{:<7} [{cpu:03}] .....  1781.{micros:06}: mm_page_alloc: \
             page=00000000b89009e2 pfn={pfn:#x} order=0 migratetype={migratetype} \
             gfp_flags={flags}",
            1000 + i % 5000
        );
        let _ = writeln!(
            text,
            "{task:>16}-{:<7} [{cpu:03}] ...2.  1781.{micros:06}: mm_page_free: \
             page=00000000b89009e2 pfn={pfn:#x} order=0",
            1000 + i % 5000
        );
    }
    text
}
