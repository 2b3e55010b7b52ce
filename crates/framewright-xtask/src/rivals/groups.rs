//! Which part of the engine an instruction belongs to.
//!
//! The compiler inlines most of the engine, so a function of the program says little. `addr2line` says for each instruction
//! the functions that are inlined there, innermost first. An instruction belongs to the first of them that lies in a file of
//! the engine's; atomics, checked numbers and the standard library belong to their callers.

use super::profile::{CallgrindPart, CodePlace, EventCount};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// What the benchmark itself executes, and the standard library for it.
pub(crate) const PATTERN: &str = "pattern";

/// What no file of the engine's claims: the C library, and functions that are not inlined.
const LIBRARY: &str = "libraries";

/// A group of what is everywhere, such as an atomic: it belongs to its caller where there is one in the chain.
const CALLER: &str = "atomics";

const ENGINE: &str = "crates/framewright/src/";
const HOST: &str = "crates/framewright-linux/src/";

/// Files of the engine by how their paths begin, the first that matches.
const GROUPS: &[(&str, &str)] = &[
    ("sync/", CALLER),
    ("raw/", CALLER),
    ("units/", CALLER),
    ("platform/", CALLER),
    ("seats/", "turn of the seat"),
    ("frame/seat/turn.rs", "turn of the seat"),
    ("frame/seat/caches.rs", "caches"),
    ("frame/seat/stock.rs", "caches"),
    ("frame/seat/record.rs", "caches"),
    ("frame/seat/chains.rs", "caches"),
    ("frame/seat/part.rs", "parts of blocks"),
    ("frame/seat/mod.rs", "entry of a request"),
    ("frame/seat/", "search for a pageblock"),
    ("frame/pageblock/index", "index"),
    ("frame/pageblock/ranking.rs", "index"),
    ("frame/pageblock/whole.rs", "index"),
    ("frame/pageblock/tag.rs", "tags"),
    ("frame/pageblock/bitmap.rs", "bitmap"),
    ("slots/", "bitmap"),
    ("frame/pageblock/", "lock and counts of the pageblock"),
    ("frame/counters.rs", "counters"),
    ("stats/", "counters"),
    ("policy/", "policy"),
    ("frame/zone/", "zone"),
    ("frame/", "entry of a request"),
    ("kv/table.rs", "table of objects"),
    ("kv/lengths.rs", "class of a length"),
    ("kv/slab/", "slabs"),
    ("kv/seat/magazine.rs", "magazines"),
    ("kv/seat/", "seat of objects"),
    ("kv/", "request for an object"),
    ("vrange/", "address space"),
    ("engine/", "engine"),
    ("reclaim/", "reclaim"),
];

/// The files of the functions that are inlined at a place, innermost first.
type InlineChain = Vec<String>;

/// The group of a file of the engine, by its path below `src`.
pub(crate) fn group_of(path: &str) -> &'static str {
    let mut groups = GROUPS.iter();
    let found = groups.find(|(begin, _)| path.starts_with(begin));
    found.map_or("other", |(_, group)| group)
}

/// The group of a file.
fn of_file(file: &str) -> Option<&'static str> {
    if let Some((_, path)) = file.split_once(ENGINE) {
        return Some(group_of(path));
    }
    file.contains(HOST).then_some("host")
}

fn of_chain(chain: &InlineChain) -> &'static str {
    let groups = || chain.iter().filter_map(|file| of_file(file));
    let own = groups().find(|group| *group != CALLER);
    own.or_else(|| groups().next()).unwrap_or(PATTERN)
}

/// The chains in what addr2line says with `-a -i -f`: an address, then a function and its file by turns.
fn chains(said: &str) -> BTreeMap<u64, InlineChain> {
    let mut found: BTreeMap<u64, InlineChain> = BTreeMap::new();
    let mut address = None;
    let mut is_file = false;
    for line in said.lines() {
        let new = line.strip_prefix("0x").filter(|_| !is_file);
        if let Some(new) = new.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            address = Some(new);
            found.entry(new).or_default();
            continue;
        }
        if let Some(chain) = address
            .filter(|_| is_file)
            .and_then(|at| found.get_mut(&at))
        {
            chain.push(line.to_owned());
        }
        is_file = !is_file;
    }
    found
}

/// Asks addr2line about all these places of a program.
fn inlined(program: &Path, addresses: &[u64]) -> Result<BTreeMap<u64, InlineChain>, String> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-i", "-f", "-e"]).arg(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("addr2line: {error}"))?;
    let mut asked = child.stdin.take().expect("it is piped");
    let text: String = addresses.iter().map(|at| format!("{at:#x}\n")).collect();
    // It answers while it reads, so that both ends would wait for one another.
    let writer = thread::spawn(move || asked.write_all(text.as_bytes()));
    let said = child
        .wait_with_output()
        .map_err(|error| format!("addr2line: {error}"))?;
    let written = writer.join().expect("it does not panic");
    written.map_err(|error| format!("addr2line: {error}"))?;
    Ok(chains(&String::from_utf8_lossy(&said.stdout)))
}

/// The groups of a program's instructions.
pub(crate) struct CodeGroups {
    object: String,
    groups: BTreeMap<u64, &'static str>,
}

impl CodeGroups {
    /// Of all instructions that one of the parts has.
    pub(crate) fn of(program: &Path, parts: &[&CallgrindPart]) -> Result<Self, String> {
        let object = program.display().to_string();
        let places = parts.iter().flat_map(|part| part.costs.keys());
        let own = places.filter(|place| place.object == object);
        let mut addresses: Vec<u64> = own.map(|place| place.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let chains = inlined(program, &addresses)?;
        let groups = chains.iter().map(|(at, chain)| (*at, of_chain(chain)));
        Ok(Self {
            object,
            groups: groups.collect(),
        })
    }

    fn group(&self, place: &CodePlace) -> &'static str {
        match place.object == self.object {
            true => self.groups.get(&place.address).copied().unwrap_or(PATTERN),
            false => LIBRARY,
        }
    }

    /// A part by groups, the largest first, without the pattern.
    pub(crate) fn split(&self, part: &CallgrindPart) -> Vec<(&'static str, EventCount)> {
        let mut sums: BTreeMap<&'static str, EventCount> = BTreeMap::new();
        for (place, count) in &part.costs {
            *sums.entry(self.group(place)).or_default() += *count;
        }
        sums.remove(PATTERN);
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, count)| std::cmp::Reverse(count.instructions));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::profile::tests::PART;

    const SAID: &str = "\
0x0000000000001000
_RNvinner
/rustc/abc/library/core/src/sync/atomic.rs:7
_RNvload
/w/crates/framewright/src/sync/word.rs:3 (discriminator 2)
_RNvtag
/w/crates/framewright/src/frame/pageblock/tag.rs:40
_RNvbench
/w/crates/framewright-linux/benches/frames/pattern.rs:9
0x0000000000001004
_RNvbench
/w/crates/framewright-linux/benches/frames/pattern.rs:10
0x0000000000001008
??
??:0
";

    #[test]
    fn an_instruction_belongs_to_the_innermost_file_that_is_no_tool() {
        let chains = chains(SAID);
        let groups: Vec<_> = chains.values().map(of_chain).collect();
        assert_eq!(groups, ["tags", PATTERN, PATTERN]);
        assert_eq!(chains[&0x1000].len(), 4);
        let alone = vec!["/w/crates/framewright/src/sync/lock.rs:1".to_owned()];
        assert_eq!(of_chain(&alone), CALLER);
        let host = vec!["/w/crates/framewright-linux/src/heap/inner.rs:1".to_owned()];
        assert_eq!(of_chain(&host), "host");
    }

    #[test]
    fn a_part_is_split_without_the_pattern() {
        let part = CallgrindPart::parse(PART).unwrap();
        let chains = chains(SAID);
        let groups = CodeGroups {
            object: "/x/bench".to_owned(),
            groups: chains
                .iter()
                .map(|(at, chain)| (*at, of_chain(chain)))
                .collect(),
        };
        let split: Vec<_> = groups
            .split(&part)
            .into_iter()
            .map(|(group, count)| (group, count.instructions))
            .collect();
        assert_eq!(split, [(LIBRARY, 16), ("tags", 10)]);
    }

    #[test]
    fn each_file_of_the_engine_has_a_group() {
        let root = crate::kernels::boot::root();
        for (begin, _) in GROUPS {
            let path = root.join(ENGINE).join(begin);
            let is_there = path.exists() || path.with_extension("rs").exists();
            assert!(is_there, "{begin} is no file of the engine's");
        }
    }
}
