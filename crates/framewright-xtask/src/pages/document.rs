//! The table of the kernel's figures beside Linux's, which `cargo xtask linux` takes, and what was asked for.

use super::query::number;
use crate::kernels::figures::{self, KernelFigure, VfreeMode};
use crate::kernels::linux;
use crate::results::ResultFile;
use std::fmt::Write;

/// A row: the test, Linux 6.12's published figure, and the bars that were set, kept and strict.
struct Row {
    test: &'static str,
    what: &'static str,
    published: f64,
    bar_kept: Option<f64>,
    bar_strict: Option<f64>,
}

const fn row(
    test: &'static str,
    what: &'static str,
    published: f64,
    bar_kept: Option<f64>,
    bar_strict: Option<f64>,
) -> Row {
    Row {
        test,
        what,
        published,
        bar_kept,
        bar_strict,
    }
}

/// A published figure is shown where the one of `cargo xtask linux` differs by more.
const NEAR: f64 = 0.15;

/// With figures of Linux 6.12 in the same emulator with `-icount`, as published before this kernel was built.
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
    row("vm_map_ram_1", "one frame", 880.0, Some(440.0), Some(440.0)),
    row("vm_map_ram_4", "4 frames", 1120.0, Some(500.0), Some(500.0)),
    row(
        "vm_map_ram_16",
        "16 frames",
        2080.0,
        Some(900.0),
        Some(900.0),
    ),
    row(
        "vm_map_ram_64",
        "64 frames",
        5900.0,
        Some(2400.0),
        Some(2400.0),
    ),
    row(
        "vm_map_ram_16_apart",
        "16 frames, none beside another",
        2080.0,
        Some(900.0),
        Some(900.0),
    ),
    row(
        "vm_map_ram_64_apart",
        "64 frames, none beside another",
        5900.0,
        Some(2400.0),
        Some(2400.0),
    ),
    row("alloc_pages_0", "a frame", 548.0, Some(97.0), None),
    row("alloc_pages_3", "8 frames", 696.0, Some(97.0), None),
    row("alloc_pages_9", "512 frames", 6237.0, Some(569.0), None),
    row("kmalloc_64", "64 bytes", 119.0, Some(90.0), None),
    row("kvmalloc_4k", "4 KiB", 170.0, Some(150.0), None),
    row("kvmalloc_64k", "64 KiB", 1610.0, Some(400.0), None),
    row("kvmalloc_1m", "1 MiB", 10989.0, Some(2500.0), Some(2500.0)),
    row(
        "pcpu",
        "an object of each CPU, up to 1 KiB",
        19445.0,
        Some(2000.0),
        None,
    ),
    row(
        "map_1",
        "the platform alone: one page mapped and unmapped",
        0.0,
        None,
        None,
    ),
    row("map_64", "the same with 64 pages", 0.0, None, None),
    row(
        "replay",
        "a request or a free of the recorded sample, on real frames",
        0.0,
        None,
        None,
    ),
    row(
        "longest_random",
        "interrupts off at most: 20,000 calls of 1 to 100 pages",
        0.0,
        Some(20_000.0),
        Some(20_000.0),
    ),
    row(
        "longest_16m_zeroed",
        "the same: 16 MiB, zeroed",
        0.0,
        Some(20_000.0),
        Some(20_000.0),
    ),
    row(
        "longest_drain",
        "the same: a drain of 2,000 areas",
        0.0,
        Some(20_000.0),
        Some(20_000.0),
    ),
    row(
        "ready_64g",
        "the first frame, area and object, with 64 GiB",
        0.0,
        Some(100_000_000.0),
        None,
    ),
    row(
        "ready_64g_zeroed",
        "the same where memory is known to hold zeroes",
        0.0,
        Some(100_000_000.0),
        None,
    ),
];

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

/// Linux's figures in a result file.
struct LinuxFigures<'a>(&'a ResultFile);

impl LinuxFigures<'_> {
    fn of(&self, test: &str) -> Option<f64> {
        let row = self.0.find(test, linux::VARIANT, linux::INSTRUCTIONS);
        row.map(|row| row.median)
    }

    /// The figure, and the published one where that says something else.
    fn cell(&self, row: &Row) -> String {
        let Some(measured) = self.of(row.test) else {
            return "-".to_owned();
        };
        let (shown, published) = (number(measured.round()), number(row.published));
        let is_near = (measured - row.published).abs() <= row.published * NEAR;
        match is_near || row.published == 0.0 {
            true => shown,
            false => format!("{shown} (published: {published})"),
        }
    }
}

/// The table, and what it comes to.
pub(crate) fn table(file: &ResultFile) -> String {
    let (figures, linux) = (figures::of_rows(&file.rows), LinuxFigures(file));
    let mut out = String::new();
    out += "| test | what | Linux 6.12 | kept | strict | strict / Linux | bar |\n|---|---|---|---|---|---|---|\n";
    let mut missed = Vec::new();
    let mut slower = Vec::new();
    for row in ROWS {
        let (kept, is_kept_missed) = cell(&figures, row.test, VfreeMode::Kept, row.bar_kept);
        let (strict, is_strict_missed) =
            cell(&figures, row.test, VfreeMode::Strict, row.bar_strict);
        let bar = |bar: Option<f64>| bar.map_or("-".to_owned(), number);
        let bars = format!("{} / {}", bar(row.bar_kept), bar(row.bar_strict));
        // Linux is strict. What frees no area is the same in both modes.
        let mut of_row = figures.iter().filter(|figure| figure.test == row.test);
        let figure = of_row
            .clone()
            .find(|figure| figure.mode == VfreeMode::Strict);
        let figure = figure.or_else(|| of_row.clone().next());
        let measured = linux.of(row.test);
        let ratio = figure.zip(measured);
        let ratio = ratio.map(|(figure, linux)| format!("{:.2}", figure.instructions / linux));
        let ratio = ratio.unwrap_or("-".to_owned());
        let (test, what, shown) = (row.test, row.what, linux.cell(row));
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| `{test}` | {what} | {shown} | {kept} | {strict} | {ratio} | {bars} |"
        );
        for (is_missed, mode) in [(is_kept_missed, "kept"), (is_strict_missed, "strict")] {
            if is_missed {
                missed.push(format!("`{test}` ({mode})"));
            }
        }
        let is_slower = |linux| of_row.any(|figure| figure.instructions > linux);
        if measured.is_some_and(is_slower) {
            slower.push(format!("`{test}`"));
        }
    }
    // A bar without a figure is neither met nor missed.
    let has = |row: &Row, mode| {
        let mut figures = figures.iter();
        figures.any(|figure| figure.test == row.test && figure.mode == mode)
    };
    let bars = ROWS
        .iter()
        .flat_map(|row| {
            let kept = row.bar_kept.filter(|_| has(row, VfreeMode::Kept));
            let strict = row.bar_strict.filter(|_| has(row, VfreeMode::Strict));
            [kept, strict]
        })
        .flatten()
        .count();
    let met = bars - missed.len();
    let _ = writeln!(
        out,
        "\n{met} of {bars} bars are met. Missed: {}.",
        missed.join(", ")
    );
    if slower.is_empty() {
        slower.push("nothing".to_owned());
    }
    let slower = slower.join(", ");
    let _ = writeln!(out, "\nMore instructions than Linux: {slower}.");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_figure() {
        let file = ResultFile::read("kernel").unwrap();
        let figures = figures::of_rows(&file.rows);
        for row in ROWS {
            let of_row = figures.iter().filter(|figure| figure.test == row.test);
            assert_ne!(of_row.count(), 0, "{}: no figure", row.test);
            let has_linux = LinuxFigures(&file).of(row.test).is_some();
            assert_eq!(has_linux, row.published > 0.0, "{}: Linux's", row.test);
        }
    }

    #[test]
    fn a_missed_bar_is_bold() {
        let said = "figure fix_size 51200 51200 loops 20000 maps 1";
        let figures = [KernelFigure::read(said, VfreeMode::Kept).unwrap()];
        let kept = |bar| cell(&figures, "fix_size", VfreeMode::Kept, bar);
        assert_eq!(kept(Some(400.0)), ("**512**".to_owned(), true));
        assert_eq!(kept(Some(512.0)), ("512".to_owned(), false));
        assert_eq!(kept(None), ("512".to_owned(), false));
        let table = table(&file(&figures, 0.0));
        assert!(table.contains("| **512** |"));
        // The bars of all others have no figure here.
        assert!(table.contains("0 of 1 bars are met. Missed: `fix_size` (kept)."));
    }

    /// A result file with these figures, and one of Linux, unless it is 0.
    fn file(figures: &[KernelFigure], linux: f64) -> ResultFile {
        let mut file = ResultFile {
            run: crate::results::tests::run_record(0.0),
            rows: figures::rows(figures),
        };
        if linux > 0.0 {
            let mut row = file.rows[0].clone();
            (row.variant, row.median) = (linux::VARIANT.to_owned(), linux);
            file.rows.push(row);
        }
        file
    }

    #[test]
    fn linux_is_what_was_measured_and_the_published_figure_stands_where_it_differs() {
        let said = "figure fix_size 100000 100000 loops 20000 maps 1";
        let figures = [KernelFigure::read(said, VfreeMode::Strict).unwrap()];
        let row = |linux| {
            let table = table(&file(&figures, linux));
            let row = table.lines().find(|line| line.starts_with("| `fix_size`"));
            row.unwrap().to_owned()
        };
        let near = row(3900.0);
        assert!(near.contains("| 3,900 | - | 1,000 | 0.26 |"), "{near}");
        let far = row(2000.0);
        assert!(far.contains("| 2,000 (published: 3,460) | - |"), "{far}");
        assert!(far.contains("| 0.50 |"), "{far}");
        assert!(row(0.0).contains("freed | - | - | 1,000 | - |"));
        let slower = |linux| table(&file(&figures, linux));
        assert!(slower(999.0).contains("More instructions than Linux: `fix_size`."));
        assert!(slower(1001.0).contains("More instructions than Linux: nothing."));
    }
}
