//! The document of the figures, made from the result file.

use crate::figures::{KernelFigure, VfreeMode};
use std::fmt::Write;

/// A row: the test, Linux 6.12's published figure, and the bars that were set, kept and strict.
struct Row {
    test: &'static str,
    what: &'static str,
    linux: f64,
    bar_kept: Option<f64>,
    bar_strict: Option<f64>,
}

const fn row(
    test: &'static str,
    what: &'static str,
    linux: f64,
    bar_kept: Option<f64>,
    bar_strict: Option<f64>,
) -> Row {
    Row {
        test,
        what,
        linux,
        bar_kept,
        bar_strict,
    }
}

/// Linux 6.12 in the same emulator with `-icount`, as published before this kernel was built; not booted here.
const ROWS: &[Row] = &[
    row(
        "fix_size",
        "one page, allocated and freed",
        3460.0,
        Some(400.0),
        Some(1500.0),
    ),
    row(
        "full_fit",
        "the same among 8,192 holes, with set-up",
        7200.0,
        Some(1600.0),
        Some(3000.0),
    ),
    row(
        "long_busy_list",
        "100 pages and one among 15,000 areas, with set-up",
        51800.0,
        Some(13000.0),
        None,
    ),
    row(
        "random_size",
        "1 to 100 pages",
        24000.0,
        Some(6000.0),
        Some(8000.0),
    ),
    row(
        "fix_align",
        "5 pages, zeroed, aligned to 32 KiB",
        6000.0,
        None,
        Some(1500.0),
    ),
    row(
        "random_size_align",
        "1 to 10 pages, zeroed, aligned up to 4 MiB",
        5500.0,
        None,
        Some(1500.0),
    ),
    row("vm_map_ram_1", "one frame", 880.0, Some(440.0), None),
    row("vm_map_ram_4", "4 frames", 1120.0, Some(500.0), None),
    row("vm_map_ram_16", "16 frames", 2080.0, Some(900.0), None),
    row("vm_map_ram_64", "64 frames", 5900.0, Some(2400.0), None),
    row(
        "vm_map_ram_16_apart",
        "16 frames, none beside another",
        2080.0,
        Some(900.0),
        None,
    ),
    row(
        "vm_map_ram_64_apart",
        "64 frames, none beside another",
        5900.0,
        Some(2400.0),
        None,
    ),
    row("alloc_pages_0", "a frame", 548.0, Some(97.0), None),
    row("alloc_pages_3", "8 frames", 696.0, Some(97.0), None),
    row("alloc_pages_9", "512 frames", 6237.0, Some(569.0), None),
    row("kmalloc_64", "64 bytes", 119.0, Some(90.0), None),
    row("kvmalloc_4k", "4 KiB", 170.0, Some(150.0), None),
    row("kvmalloc_64k", "64 KiB", 1610.0, Some(400.0), None),
    row("kvmalloc_1m", "1 MiB", 10989.0, Some(2500.0), None),
    row(
        "map_1",
        "the platform alone: one page mapped and unmapped",
        0.0,
        None,
        None,
    ),
    row("map_64", "the same with 64 pages", 0.0, None, None),
    row(
        "longest_random",
        "the longest of 20,000 calls of 1 to 100 pages",
        0.0,
        Some(20_000.0),
        None,
    ),
    row(
        "longest_16m_zeroed",
        "16 MiB, zeroed",
        0.0,
        Some(20_000.0),
        None,
    ),
    row(
        "longest_drain",
        "a drain of 2,000 areas",
        0.0,
        Some(20_000.0),
        None,
    ),
];

const HEAD: &str = "\
# The kernel in the machine

`kernel/` is a bare-metal kernel for x86-64 whose memory manager is the engine. All that its author writes to have
the engine is one file of 300 lines, `kernel/src/memory.rs`; page tables and shootdown are `framewright-x86_64`'s.

```sh
cargo xtask kernel                                   # builds it, boots it, checks the engine's invariants
cargo xtask kernel --cpus 2 --test smp --threads     # the stress, with a thread for each CPU
cargo xtask kernel --suite                           # every test; figures are compared with the result file
cargo xtask kernel --write                           # the same, and writes the result file and this page
```

It needs QEMU (Debian: `qemu-system-x86`) and the target `x86_64-unknown-none`. `cargo xtask` alone lists the options.

## Instructions a loop

One CPU, 2 GiB, QEMU with `-icount`, 20,000 loops, one test a boot. An instruction count is the same on every machine.
It is no time: it knows no caches, and an atomic operation costs one. Each call turns interrupts off and on again.

- *Linux 6.12* is its own test module (`test_vmalloc`) in the same emulator, as published before; it was not booted for
  this page. Its figures of the zeroing tests are net of zeroing, and so are ours.
- *kept* is the engine's default: a freed area keeps frames and mapping for the next request of its length.
- *strict* keeps nothing (`kept_pages_max: 0`): each area is mapped anew. Its pages are unmapped by the next purge, not
  before `vfree` returns, as in Linux. The engine has no mode yet in which `vfree` unmaps at once.
- The *bar* is what was asked for, kept / strict. **Bold**: missed.
- *strict* is counted where a test frees areas; the others have nothing that could be kept.
- Linux maps `vm_map_ram`'s frames one by one, so its cost is the same wherever they lie. So is the engine's
  call of the platform where they lie apart; frames side by side it maps as one run, which costs less.
- `longest_*` is one call, from its beginning to its end, with interrupts off: an instruction is a nanosecond there, so
  the bar is 20 µs. Words zeroed are in it. An interrupt that comes meanwhile waits so long.

";

/// A figure, bold where it misses its bar.
fn cell(figures: &[KernelFigure], test: &str, mode: VfreeMode, bar: Option<f64>) -> (String, bool) {
    let found = figures
        .iter()
        .find(|figure| figure.test == test && figure.mode == mode);
    let Some(figure) = found else {
        return ("-".to_owned(), false);
    };
    let rounded = figure.instructions.round();
    let is_missed = bar.is_some_and(|bar| rounded > bar);
    let text = number(rounded);
    (
        if is_missed {
            format!("**{text}**")
        } else {
            text
        },
        is_missed,
    )
}

/// With a comma before the last three digits.
fn number(value: f64) -> String {
    let value = value as u64;
    if value >= 1_000_000 {
        let (millions, rest) = (value / 1_000_000, value % 1_000_000);
        return format!("{millions},{:03},{:03}", rest / 1000, rest % 1000);
    }
    if value < 1000 {
        return value.to_string();
    }
    format!("{},{:03}", value / 1000, value % 1000)
}

/// The whole document.
pub(crate) fn page(figures: &[KernelFigure]) -> String {
    let mut out = HEAD.to_owned();
    out += "| test | what | Linux 6.12 | kept | strict | kept / Linux | bar |\n|---|---|---|---|---|---|---|\n";
    let mut missed = Vec::new();
    for row in ROWS {
        let (kept, is_kept_missed) = cell(figures, row.test, VfreeMode::Kept, row.bar_kept);
        let (strict, is_strict_missed) = cell(figures, row.test, VfreeMode::Strict, row.bar_strict);
        let bar = |bar: Option<f64>| bar.map_or("-".to_owned(), number);
        let bars = format!("{} / {}", bar(row.bar_kept), bar(row.bar_strict));
        let figure = figures.iter().find(|figure| figure.test == row.test);
        let ratio = figure.filter(|_| row.linux > 0.0);
        let ratio = ratio.map(|figure| format!("{:.2}", figure.instructions / row.linux));
        let ratio = ratio.unwrap_or("-".to_owned());
        let (test, what) = (row.test, row.what);
        let linux = if row.linux > 0.0 {
            number(row.linux)
        } else {
            "-".to_owned()
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| `{test}` | {what} | {linux} | {kept} | {strict} | {ratio} | {bars} |"
        );
        for (is_missed, mode) in [(is_kept_missed, "kept"), (is_strict_missed, "strict")] {
            if is_missed {
                missed.push(format!("`{test}` ({mode})"));
            }
        }
    }
    let bars = ROWS
        .iter()
        .flat_map(|row| [row.bar_kept, row.bar_strict])
        .flatten()
        .count();
    let met = bars - missed.len();
    let _ = writeln!(
        out,
        "\n{met} of {bars} bars are met. Missed: {}.",
        missed.join(", ")
    );
    let slower: Vec<String> = ROWS
        .iter()
        .filter(|row| {
            let mut of_row = figures.iter().filter(|figure| figure.test == row.test);
            of_row.any(|figure| figure.instructions > row.linux && row.linux > 0.0)
        })
        .map(|row| format!("`{}`", row.test))
        .collect();
    let _ = writeln!(
        out,
        "\nMore instructions than Linux: {}.",
        slower.join(", ")
    );
    if let Some(figure) = figures.first() {
        let (commit, qemu) = (&figure.commit, &figure.qemu);
        let _ = writeln!(out, "\nMeasured at {commit} with QEMU {qemu}.");
    }
    out + TAIL
}

const TAIL: &str = "
## What else the suite boots

| test | what must hold |
|---|---|
| `smp` | 2 and 4 CPUs, instructions counted and with a thread for each CPU: areas, objects and mappings pass from CPU to CPU; every word of each is written, and checked before it is freed |
| `smp`, `noflush=1` | a kernel whose flush does nothing is caught with each of 20 seeds, with 16 lazy pages at most and nothing kept; the kernel with its flush passes with the same words |
| `interrupts` | the same stress while timer interrupts allocate and free objects, frames and areas on the first CPU |
| `nested` | a kernel that leaves interrupts on in its calls: a handler in the midst of one finds the CPU's place busy, is refused and counted; nothing breaks |
| `guards`, `stack` | a guard page faults, and the handler names the area; a stack that goes over its end hits a guard page |
| `heap` | Rust's collections over `kvmalloc` |
| `huge` | a long area comes by pages of 2 MiB |
| `reclaim` | a cache of a file half as long again as memory gives frames back to requests, page tables' too; every word of each page is checked as it goes |
| `reserve` | guests put and get pages in the reserve while an owner takes runs, writes them and gives them back; each page that comes back is whole |
| `full` | without memory, page tables' too, each request ends in an error, and all frames come back |

Machines of 128 MiB to 5 GiB, `microvm` and `q35`, with holes and memory above 4 GiB. Each boot ends with `verify()` of
the whole engine.

## What is not there yet
A replayed trace, per-CPU objects, CPUs that go away, page tables given back, interrupts off for a bounded
time, Linux booted beside it, another architecture. Page tables come from seats of their own, because `Map::map` is
handed no source of frames: so the engine is laid out for twice the CPUs.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{boot, figures};
    use std::fs;

    #[test]
    fn the_page_is_the_one_of_the_result_file() {
        let root = boot::root();
        let results = fs::read_to_string(root.join("docs/results/kernel.jsonl")).unwrap();
        let figures = figures::parse(&results).unwrap();
        let written = fs::read_to_string(root.join("docs/kernel-machine.md")).unwrap();
        assert_eq!(
            page(&figures),
            written,
            "cargo xtask kernel --write makes it"
        );
        for row in ROWS {
            let of_row = figures.iter().filter(|figure| figure.test == row.test);
            assert_ne!(of_row.count(), 0, "{}: no figure", row.test);
        }
    }

    #[test]
    fn a_missed_bar_is_bold() {
        let said = "figure fix_size 51200 51200 loops 20000 maps 1";
        let figures = [KernelFigure::read(said, VfreeMode::Kept, "", "").unwrap()];
        let kept = |bar| cell(&figures, "fix_size", VfreeMode::Kept, bar);
        assert_eq!(kept(Some(400.0)), ("**512**".to_owned(), true));
        assert_eq!(kept(Some(512.0)), ("512".to_owned(), false));
        assert_eq!(kept(None), ("512".to_owned(), false));
        assert_eq!(number(1_234.0), "1,234");
        assert!(page(&figures).contains("| **512** |"));
    }
}
