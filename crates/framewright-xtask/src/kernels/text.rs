//! How large a kernel without tests is: the bytes of its section `.text`.
//!
//! The engine is generic, and its code is compiled where it is called. So the kernel is built without its tests, with what a
//! kernel would call in their place (`kernel/src/calls.rs`), in as many forms as there are things to leave out.

use super::boot::{self, KernelArch};
use super::figures::MARGIN;
use crate::results::{ResultRow, RowSource};
use std::fs;

/// How the result file calls the case and the metric.
const CASE: &str = "text";
const BYTES: &str = "bytes";

/// What is in a kernel, and the features that put it there.
const KERNELS: &[(&str, &str)] = &[
    ("least", ""),
    ("with per-CPU objects", "percpu"),
    ("with reclaim", "percpu,reclaim"),
    ("all", "percpu,reclaim,reserve"),
];

/// The bytes of the section `.text` of an ELF file, 64 bits, little-endian.
fn text_bytes(file: &[u8]) -> Option<u64> {
    let number = |at: usize, bytes: usize| {
        let part = file.get(at..at.checked_add(bytes)?)?;
        let digits = part.iter().rev();
        Some(digits.fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)))
    };
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, entry) = (number(0x28, 8)? as usize, number(0x3a, 2)? as usize);
    let section = |nth: u64| table + entry * nth as usize;
    let names = number(section(number(0x3e, 2)?) + 24, 8)? as usize;
    let is_text = |nth: &u64| {
        let name = number(section(*nth), 4).map(|name| names + name as usize);
        name.is_some_and(|name| file[name.min(file.len())..].starts_with(b".text\0"))
    };
    let text = (0..number(0x3c, 2)?).find(is_text)?;
    number(section(text) + 32, 8)
}

fn row(what: &str, bytes: f64) -> ResultRow {
    ResultRow::one([CASE, what, BYTES], BYTES, RowSource::Simulated, bytes)
}

/// Builds each of these kernels, or only the last one, which has all; a row each.
pub(crate) fn measure(arch: KernelArch, is_each: bool) -> Result<Vec<ResultRow>, String> {
    let mut rows = Vec::new();
    let first = if is_each { 0 } else { KERNELS.len() - 1 };
    for (what, features) in &KERNELS[first..] {
        let kernel = boot::build_with(arch, Some(features))?;
        let at = kernel.display();
        let file = fs::read(&kernel).map_err(|error| format!("{at}: {error}"))?;
        let bytes = text_bytes(&file).ok_or_else(|| format!("{at}: no section .text"))?;
        println!("text, {what}: {bytes} bytes");
        rows.push(row(what, bytes as f64));
    }
    Ok(rows)
}

/// What differs from earlier rows by more than the margin.
pub(crate) fn compare(rows: &[ResultRow], earlier: &[ResultRow]) -> Vec<String> {
    let changed = |row: &ResultRow| {
        let is_same = |other: &&ResultRow| {
            (&other.case, &other.variant) == (&row.case, &row.variant) && other.metric == BYTES
        };
        let (name, now) = (&row.variant, row.median);
        let Some(before) = earlier.iter().find(is_same) else {
            return Some(format!("text, {name}: no earlier figure"));
        };
        let change = now / before.median - 1.0;
        let before = before.median;
        (change.abs() > MARGIN).then(|| format!("text, {name}: {now} bytes, {before} before"))
    };
    rows.iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a table of three sections: nothing, `.text` and the names.
    fn elf(bytes: u64) -> Vec<u8> {
        let names = b"\0.text\0.names\0";
        let mut file = vec![0; 64 + 3 * 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |at: usize, number: u64, len: usize| {
            file[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
        };
        put(0x28, 64, 8);
        put(0x3a, 64, 2);
        put(0x3c, 3, 2);
        put(0x3e, 2, 2);
        put(64 + 64, 1, 4);
        put(64 + 64 + 32, bytes, 8);
        put(64 + 128, 7, 4);
        put(64 + 128 + 24, 64 + 192, 8);
        file.extend(names);
        file
    }

    #[test]
    fn the_section_is_found_and_a_file_that_is_none_is_refused() {
        assert_eq!(text_bytes(&elf(123_456)), Some(123_456));
        let whole = elf(7);
        for len in [0, 5, 63, 100, 200] {
            assert_eq!(text_bytes(&whole[..len]), None, "{len} bytes of it");
        }
        let mut other = elf(7);
        other[64 + 192 + 2] = b'd';
        assert_eq!(text_bytes(&other), None, "no such section");
    }

    #[test]
    fn a_size_that_changes_by_more_than_the_margin_is_told() {
        let row = |bytes| row("x", bytes);
        let told = |now, before: &[ResultRow]| compare(&[row(now)], before).join("");
        assert_eq!(told(114.0, &[row(100.0)]), "");
        assert!(told(116.0, &[row(100.0)]).contains("116 bytes, 100 before"));
        assert!(told(84.0, &[row(100.0)]).contains("84 bytes"));
        assert!(told(84.0, &[]).contains("no earlier"));
    }
}
