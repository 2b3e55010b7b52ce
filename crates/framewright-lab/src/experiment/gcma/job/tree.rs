//! Source files for the job: given ones, or some that are made from a seed.
//!
//! Made ones look like C: a list of headers to include, then functions over names that are used again and
//! again. Lengths are log-normal, 1 to 100 KiB, 16 KiB in the mean: what is drawn is drawn with integers, so that a
//! seed gives the same bytes everywhere.

use crate::experiment::Failure;
use crate::files::TempFolder;
use crate::printable;
use framewright_sim::Random;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files of a given tree at most, and their bytes.
const FILES_MAX: usize = 200_000;
const BYTES_MAX: u64 = 8 << 30;

/// Folders below the given one at most.
const DEPTH_MAX: usize = 32;

/// The mean length of a made file.
pub(super) const MEAN_BYTES: u64 = 16 << 10;

/// One header for this many other files.
const FILES_PER_HEADER: u64 = 16;

/// Files in a folder.
const FILES_PER_FOLDER: u64 = 200;

/// Names that a tree's text is made of.
const NAMES: u64 = 4096;

/// A file to be built.
#[derive(Debug, Clone)]
pub(in crate::experiment::gcma) struct SourceFile {
    pub(in crate::experiment::gcma) path: PathBuf,
    pub(in crate::experiment::gcma) len_bytes: u64,
}

/// Sources, in the order of their paths, and the headers among them.
#[derive(Debug)]
pub(in crate::experiment::gcma) struct SourceTree {
    pub(in crate::experiment::gcma) sources: Vec<SourceFile>,
    /// File names of headers, in order, with the place among the sources.
    headers: Vec<(String, usize)>,
    /// A made tree's folder, which is gone with it.
    _made: Option<TempFolder>,
}

/// Below `end`, small ones more often: the product of two.
fn low(draw: &mut Random, end: u64) -> u64 {
    draw.remainder(end) * draw.remainder(end) / end
}

/// A length: two to a power that is the sum of twelve draws, which is nearly normal.
fn length(draw: &mut Random) -> u64 {
    // Sixteenths of a power of two: the mean is 13.5, the deviation 1.2.
    let sum: u64 = (0..12).map(|_| draw.remainder(20)).sum();
    let sixteenths = (13 * 16 + 8 + sum).saturating_sub(12 * 19 / 2).max(160);
    let (whole, part) = (sixteenths / 16, sixteenths % 16);
    // Between two powers a straight line.
    (((16 + part) << whole) / 16).clamp(1 << 10, 100 << 10)
}

/// A name, as `page_count_17`.
fn push_name(text: &mut Vec<u8>, nth: u64) {
    const WORDS: [&str; 16] = [
        "page", "zone", "count", "node", "list", "lock", "flags", "order", "entry", "state",
        "index", "free", "next", "range", "cache", "size",
    ];
    text.extend_from_slice(WORDS[nth as usize % 16].as_bytes());
    text.push(b'_');
    text.extend_from_slice(WORDS[nth as usize / 16 % 16].as_bytes());
    if nth >= 256 {
        text.push(b'_');
        text.extend_from_slice((nth / 256).to_string().as_bytes());
    }
}

/// One file's text.
fn text(len: u64, headers: u64, draw: &mut Random) -> Vec<u8> {
    let mut text = Vec::with_capacity(len as usize + 256);
    if headers > 0 {
        for _ in 0..2 + draw.remainder(6) {
            let nth = low(draw, headers);
            text.extend_from_slice(format!("#include \"h{nth:04}.h\"\n").as_bytes());
        }
    }
    while (text.len() as u64) < len {
        text.extend_from_slice(b"\nstatic unsigned long ");
        push_name(&mut text, draw.remainder(NAMES));
        text.extend_from_slice(b"(struct ");
        push_name(&mut text, low(draw, NAMES));
        text.extend_from_slice(b" *p)\n{\n");
        for _ in 0..4 + draw.remainder(20) {
            text.extend_from_slice(match draw.remainder(4) {
                0 => b"\tif (!p->",
                1 => b"\treturn p->",
                2 => b"\tfor (i = p->",
                _ => b"\tp->",
            });
            push_name(&mut text, low(draw, NAMES));
            text.extend_from_slice(b" = ");
            push_name(&mut text, low(draw, NAMES));
            text.extend_from_slice(format!("({:#x});\n", low(draw, 1 << 16)).as_bytes());
        }
        text.extend_from_slice(b"}\n");
    }
    text.truncate(len as usize);
    text
}

impl SourceTree {
    /// A tree of about `bytes` bytes in a folder of its own, the same for each seed.
    pub(in crate::experiment::gcma) fn make(bytes: u64, seed: u64) -> Result<Self, Failure> {
        let folder = TempFolder::make("tree")
            .map_err(|e| Failure::new(format!("no folder for source files: {e}")))?;
        let failed = |path: &Path, e: io::Error| {
            Failure::new(format!("{}: cannot write: {e}", printable::path(path)))
        };
        let mut draw = Random::new(seed);
        let files = (bytes / MEAN_BYTES).max(16);
        let headers = (files / FILES_PER_HEADER).max(1);
        let mut sources = Vec::new();
        for nth in 0..files {
            let parent = match nth.checked_sub(headers) {
                None => folder.path().join("include"),
                Some(other) => folder
                    .path()
                    .join(format!("d{:03}", other / FILES_PER_FOLDER)),
            };
            let name = match nth.checked_sub(headers) {
                None => format!("h{nth:04}.h"),
                Some(other) => format!("f{other:05}.c"),
            };
            let len_bytes = match nth < headers {
                // Headers are the shorter half.
                true => length(&mut draw) / 2,
                false => length(&mut draw),
            };
            let of_it = text(
                len_bytes,
                if nth < headers { 0 } else { headers },
                &mut draw,
            );
            let path = parent.join(name);
            fs::create_dir_all(&parent)
                .and_then(|()| fs::write(&path, &of_it))
                .map_err(|e| failed(&path, e))?;
            sources.push(SourceFile { path, len_bytes });
        }
        Ok(Self::of(sources, Some(folder)))
    }

    /// The regular files below a folder.
    pub(in crate::experiment::gcma) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut sources = Vec::new();
        walk(folder, 0, &mut sources)?;
        if sources.is_empty() {
            let name = printable::path(folder);
            return Err(Failure::new(format!(
                "{name}: no file is in it, expected some"
            )));
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self::of(sources, None))
    }

    fn of(sources: Vec<SourceFile>, made: Option<TempFolder>) -> Self {
        let name = |(nth, source): (usize, &SourceFile)| {
            let name = source.path.file_name()?.to_str()?;
            name.ends_with(".h").then(|| (name.to_owned(), nth))
        };
        let mut headers: Vec<_> = sources.iter().enumerate().filter_map(name).collect();
        headers.sort();
        Self {
            sources,
            headers,
            _made: made,
        }
    }

    /// The first header of that name.
    pub(super) fn header(&self, name: &str) -> Option<&SourceFile> {
        let at = self
            .headers
            .partition_point(|(other, _)| other.as_str() < name);
        let (found, nth) = self.headers.get(at)?;
        (found == name).then(|| &self.sources[*nth])
    }
}

fn walk(folder: &Path, depth: usize, sources: &mut Vec<SourceFile>) -> Result<(), Failure> {
    let failed =
        |e: io::Error| Failure::new(format!("{}: cannot read: {e}", printable::path(folder)));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Links are not followed: a tree has no loop.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && depth < DEPTH_MAX {
            walk(&entry.path(), depth + 1, sources)?;
        } else if kind.is_file() {
            let len_bytes = entry.metadata().map_err(failed)?.len();
            if len_bytes > 0 {
                sources.push(SourceFile {
                    path: entry.path(),
                    len_bytes,
                });
            }
        }
        let bytes: u64 = sources.last().map_or(0, |source| source.len_bytes);
        if sources.len() > FILES_MAX || bytes > BYTES_MAX {
            let name = printable::path(folder);
            return Err(Failure::new(format!(
                "{name}: more than {FILES_MAX} files, or one of more than {} GiB",
                BYTES_MAX >> 30
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_tree_and_another_seed_another_one() {
        let contents = |seed| {
            let tree = SourceTree::make(1 << 20, seed).unwrap();
            let read = |s: &SourceFile| fs::read(&s.path).unwrap();
            (tree.sources.iter().map(read).collect::<Vec<_>>(), tree)
        };
        let ((one, tree), (again, _), (other, _)) = (contents(1), contents(1), contents(2));
        assert_eq!(one, again);
        assert_ne!(one, other);
        let lengths: Vec<u64> = tree.sources.iter().map(|s| s.len_bytes).collect();
        assert_eq!(
            lengths,
            one.iter().map(|f| f.len() as u64).collect::<Vec<_>>()
        );
        let folder = tree.sources[0]
            .path
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .to_owned();
        let found = SourceTree::read(&folder).unwrap();
        let bytes = |t: &SourceTree| t.sources.iter().map(|s| s.len_bytes).sum::<u64>();
        assert_eq!(bytes(&found), bytes(&tree));
        assert_eq!(
            found.header("h0003.h").map(|s| &s.path),
            tree.header("h0003.h").map(|s| &s.path)
        );
        assert!(tree.header("h0003.h").is_some() && tree.header("x.h").is_none());
        drop(tree);
        assert!(!folder.exists(), "nothing is left behind");
        assert!(SourceTree::read(&folder).is_err());
    }

    #[test]
    fn lengths_are_those_of_source_files() {
        let mut draw = Random::new(3);
        let mut lengths: Vec<u64> = (0..10_000).map(|_| length(&mut draw)).collect();
        lengths.sort_unstable();
        let mean = lengths.iter().sum::<u64>() / 10_000;
        assert!(
            (MEAN_BYTES * 8 / 10..MEAN_BYTES * 12 / 10).contains(&mean),
            "{mean}"
        );
        assert!(lengths[0] >= 1 << 10 && lengths[9999] <= 100 << 10);
        assert!(lengths[9000] > 4 * lengths[1000], "they differ");
    }
}
