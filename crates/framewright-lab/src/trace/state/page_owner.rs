//! The reader of `/sys/kernel/debug/page_owner`, as the kernel prints it or as `page_owner_sort` sums it up: which call chain
//! holds which frames, also of what was asked for before a recording began.
//!
//! ```text
//!   Page allocated via order 2, mask 0xd20c0(...), pid 7, tgid 7 (comm), ts 1 ns     ─▶ a block begins
//!   PFN 0x1200 type Unmovable Block 9 type Movable Flags 0x...                       ─▶ its mobility, and its pageblock
//!    alloc_pages_noprof+0x4c/0x80                                                    ─▶ its chain, the innermost first
//!                                                                                    ─▶ it ends
//! ```
//!
//! `page_owner_sort` drops the line that begins with PFN and says before each block how often it was there. So a sorted dump has
//! no pageblocks, and mobility follows from the mask.
//!
//! A task's name may have any bytes, line ends among them, and so may end a block early, or begin a line as the kernel or
//! `page_owner_sort` does. What then stands outside a block is passed over and counted, but nothing is before the first; so is a
//! line that begins with PFN and has nothing more, where the line before it ends within a name. With a line that is passed over
//! a count of blocks is forgotten, so that no name multiplies a block.

use super::words::shown;
use crate::trace::text::TextLines;
use crate::trace::{Input, MemoryLimit, TooMuchMemory, TraceError};
use std::collections::BTreeMap;

/// Functions of a chain at most: the kernel keeps 16.
const CHAIN_MAX: usize = 128;
/// What is held for a stack besides its names, for each name, and for a stack's frames in a pageblock.
const STACK_BYTES: u64 = 192;
const NAME_BYTES: u64 = 32;
const PLACE_BYTES: u64 = 96;
/// `__GFP_MOVABLE`.
const GFP_MOVABLE: u64 = 0x8;
/// Orders that an allocator may have.
const ORDER_MAX: u32 = 20;

/// A command with the functions that asked for it, the innermost first.
pub type OwnerStack = (String, Vec<String>);

/// What one chain of functions holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnedFrames {
    /// Frames that cannot move.
    pub fixed: u64,
    /// Those of them in pageblocks that hold movable frames, too.
    pub fixed_in_mixed: u64,
    /// Frames that can move.
    pub movable: u64,
}

impl OwnedFrames {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.fixed = self.fixed.saturating_add(other.fixed);
        self.fixed_in_mixed = self.fixed_in_mixed.saturating_add(other.fixed_in_mixed);
        self.movable = self.movable.saturating_add(other.movable);
    }
}

/// A dump, summed up by command and chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageOwners {
    /// What each holds.
    pub stacks: BTreeMap<OwnerStack, OwnedFrames>,
    /// Whether pageblocks are known: not of a sorted dump.
    pub has_blocks: bool,
    /// Lines outside blocks, which were passed over.
    pub stray_lines: u64,
}

/// A block of frames that is being read.
#[derive(Debug, Default)]
struct OwnedRecord {
    frames: u64,
    comm: String,
    /// Whether its first line ends within the task's name.
    is_cut: bool,
    mask: u64,
    /// Whether it can move, and its pageblock.
    place: Option<(bool, u64)>,
    chain: Vec<String>,
}

/// What a pageblock holds.
#[derive(Debug, Default)]
struct OwnedPageblock {
    has_movable: bool,
    /// Frames that cannot move, by stack.
    fixed: BTreeMap<u32, u64>,
}

#[derive(Debug, Default)]
struct OwnerSums {
    places: BTreeMap<OwnerStack, u32>,
    stacks: Vec<OwnedFrames>,
    blocks: BTreeMap<u64, OwnedPageblock>,
    held_bytes: u64,
    /// Whether a block was seen.
    any: bool,
    stray_lines: u64,
    limit: MemoryLimit,
}

impl OwnerSums {
    /// Adds a block that was there so many times; an error where more is held than may be.
    fn take(&mut self, block: OwnedRecord, times: u64) -> Result<(), String> {
        let frames = block.frames.saturating_mul(times);
        let next = self.stacks.len() as u32;
        let names = block.chain.iter().chain([&block.comm]);
        let names: u64 = names.map(|name| name.len() as u64 + NAME_BYTES).sum();
        let place = *self.places.entry((block.comm, block.chain)).or_insert(next);
        if place == next {
            self.stacks.push(OwnedFrames::default());
            self.held_bytes += names + STACK_BYTES;
        }
        let sums = &mut self.stacks[place as usize];
        let (is_movable, pageblock) = match block.place {
            Some((is_movable, pageblock)) => (is_movable, Some(pageblock)),
            None => (block.mask & GFP_MOVABLE != 0, None),
        };
        match is_movable {
            true => sums.movable = sums.movable.saturating_add(frames),
            false => sums.fixed = sums.fixed.saturating_add(frames),
        }
        if let Some(pageblock) = pageblock {
            let blocks = self.blocks.len();
            let holds = self.blocks.entry(pageblock).or_default();
            match is_movable {
                true => holds.has_movable = true,
                false => {
                    let before = holds.fixed.len();
                    let fixed = holds.fixed.entry(place).or_default();
                    *fixed = fixed.saturating_add(frames);
                    self.held_bytes += PLACE_BYTES * (holds.fixed.len() - before) as u64;
                }
            }
            self.held_bytes += PLACE_BYTES * (self.blocks.len() - blocks) as u64;
        }
        let held = TooMuchMemory::check(self.held_bytes, self.limit.len_bytes());
        held.map_err(|over| format!("to sum the dump up {over}"))
    }

    fn summed(mut self) -> PageOwners {
        for block in self.blocks.values().filter(|block| block.has_movable) {
            for (&place, &frames) in &block.fixed {
                let sums = &mut self.stacks[place as usize];
                sums.fixed_in_mixed = sums.fixed_in_mixed.saturating_add(frames);
            }
        }
        let of = |(stack, place): (OwnerStack, u32)| (stack, self.stacks[place as usize]);
        PageOwners {
            stacks: self.places.into_iter().map(of).collect(),
            has_blocks: !self.blocks.is_empty(),
            stray_lines: self.stray_lines,
        }
    }
}

/// Reads a dump.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_page_owner(input: Input) -> Result<PageOwners, TraceError> {
    let mut sums = OwnerSums {
        limit: input.memory_limit(),
        ..OwnerSums::default()
    };
    let mut lines = TextLines::new(input);
    let mut block: Option<OwnedRecord> = None;
    let mut times = 1;
    loop {
        let read = match lines.next_line()? {
            None => break,
            Some(line) => one_line(
                &String::from_utf8_lossy(line.bytes),
                &mut block,
                &mut times,
                &mut sums,
            ),
        };
        read.map_err(|fault| TraceError::at_line(lines.name(), lines.number(), fault))?;
    }
    let at_end = |fault: String| TraceError::at_line(lines.name(), lines.number(), fault);
    if let Some(block) = block {
        sums.take(block, times).map_err(at_end)?;
    }
    match sums.any {
        true => Ok(sums.summed()),
        false => Err(TraceError::new(
            lines.name(),
            "no frame has an owner, expected a dump of /sys/kernel/debug/page_owner",
        )),
    }
}

fn one_line(
    text: &str,
    block: &mut Option<OwnedRecord>,
    times: &mut u64,
    sums: &mut OwnerSums,
) -> Result<(), String> {
    let number = |word: &str| -> Result<u64, String> {
        let read = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => word.parse(),
        };
        read.map_err(|_| format!("'{}' is not a whole number", shown(word)))
    };
    if text.trim().is_empty() {
        if let Some(block) = block.take() {
            sums.take(block, std::mem::replace(times, 1))?;
        }
        return Ok(());
    }
    // Older tools do not say how many pages that is.
    if let Some((count, rest)) = text.split_once(" times")
        && block.is_none()
        && !count.is_empty()
        && (rest.starts_with(':') || (rest.starts_with(", ") && rest.contains(" pages")))
        && count.bytes().all(|byte| byte.is_ascii_digit())
    {
        *times = number(count)?;
        return Ok(());
    }
    if let Some(rest) = text.strip_prefix("Page allocated via order ") {
        if let Some(block) = block.take() {
            sums.take(block, std::mem::replace(times, 1))?;
        }
        let end = rest.find(',').unwrap_or(rest.len());
        let order = number(&rest[..end])?;
        let order = u32::try_from(order)
            .ok()
            .filter(|&order| order <= ORDER_MAX);
        let order = order.ok_or_else(|| format!("expected an order of 0 to {ORDER_MAX}"))?;
        let mask = rest.split_once("mask ").map(|(_, mask)| {
            let end = mask.find(['(', ',', ' ']).unwrap_or(mask.len());
            number(&mask[..end])
        });
        // The mask's own names stand in parentheses before those of the task.
        let task = rest
            .split_once("tgid ")
            .and_then(|(_, task)| Some(task.split_once('(')?.1));
        let comm = task.and_then(|task| task.rsplit_once(')'));
        let is_whole = |end: &str| {
            let time = end
                .strip_prefix(", ts ")
                .and_then(|end| end.split_once(" ns"));
            time.is_some_and(|(ns, _)| number(ns).is_ok())
        };
        let is_cut = task.is_some() && !comm.is_some_and(|(_, end)| is_whole(end));
        sums.any = true;
        *block = Some(OwnedRecord {
            frames: 1 << order,
            comm: comm.map_or("", |(comm, _)| comm).to_owned(),
            is_cut,
            mask: mask.transpose()?.unwrap_or(0),
            ..OwnedRecord::default()
        });
        return Ok(());
    }
    let Some(block) = block else {
        if sums.any {
            sums.stray_lines += 1;
            *times = 1;
            return Ok(());
        }
        return Err(format!(
            "'{}', expected 'Page allocated via order N, mask ...'",
            shown(text)
        ));
    };
    if let Some(rest) = text.strip_prefix("PFN ") {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [_, "type", mobility, "Block", pageblock, ..] = words.as_slice() else {
            // A name of 15 bytes that makes its line look whole leaves no room for more than this.
            if block.is_cut || rest.starts_with("), ts ") {
                sums.stray_lines += 1;
                return Ok(());
            }
            return Err(format!(
                "'{}', expected 'PFN N type MOBILITY Block N type MOBILITY'",
                shown(text)
            ));
        };
        let is_movable = matches!(*mobility, "Movable" | "CMA");
        block.place = Some((is_movable, number(pageblock)?));
    } else if text.starts_with([' ', '\t']) && block.chain.len() < CHAIN_MAX {
        // Older kernels print the address in front, and of a module's function the module's name stands behind it.
        let mut words = text.split_whitespace();
        let name = words.find(|word| !word.starts_with('[')).unwrap_or("");
        let name = name.split_once('+').map_or(name, |(name, _)| name);
        if !name.is_empty() {
            block.chain.push(name.to_owned());
        }
    }
    // Of what else the kernel says, such as that a frame was moved or is charged to a group, nothing is needed.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "\
Page allocated via order 2, mask 0xd20c0(__GFP_IO|__GFP_FS|__GFP_COMP), pid 7, tgid 7 (cc(1) x), ts 1 ns
PFN 0x1200 type Unmovable Block 9 type Movable Flags 0x200(slab|zone=1)
 get_page_from_freelist+0x1a/0x20
 alloc_pages_noprof+0x4c/0x80
 __alloc_skb+0x10/0x20
 tcp_sendmsg+0x7/0x9
Charged to memcg x

Page allocated via order 0, mask 0x112cca(GFP_HIGHUSER_MOVABLE), pid 1, tgid 1 (sh), ts 1 ns, free_ts 0 ns
PFN 4611 type Movable Block 9 type Movable Flags 0x0()
 [<ffffffff81234567>] do_anonymous_page+0x1/0x2
Page has been migrated, last migrate reason: compaction

Page allocated via order 1, mask 0xcc0(GFP_KERNEL)
PFN 5632 type Reclaimable Block 11 type Reclaimable Flags 0x0()
 new_inode+0x1/0x2
";

    fn read(text: &str) -> Result<PageOwners, TraceError> {
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        read_page_owner(Input::from_reader("p", bytes).unwrap())
    }

    fn stack(comm: &str, names: &[&str]) -> OwnerStack {
        let names = names.iter().map(|&name| name.to_owned());
        (comm.to_owned(), names.collect())
    }

    #[test]
    fn frames_that_cannot_move_are_in_the_way_beside_movable_ones() {
        let owners = read(DUMP).unwrap();
        assert!(owners.has_blocks);
        let skb = stack(
            "cc(1) x",
            &[
                "get_page_from_freelist",
                "alloc_pages_noprof",
                "__alloc_skb",
                "tcp_sendmsg",
            ],
        );
        let of = |stack: &OwnerStack| owners.stacks[stack];
        let expected = OwnedFrames {
            fixed: 4,
            fixed_in_mixed: 4,
            movable: 0,
        };
        assert_eq!(of(&skb), expected);
        assert_eq!(of(&stack("sh", &["do_anonymous_page"])).movable, 1);
        let inode = of(&stack("", &["new_inode"]));
        assert_eq!((inode.fixed, inode.fixed_in_mixed), (2, 0));
        assert_eq!(owners.stacks.len(), 3);
    }

    #[test]
    fn a_sorted_dump_counts_each_block_as_often_as_it_was_there() {
        let sorted = "3 times, 12 pages, pid 7, tgid 7:\n".to_owned()
            + "Page allocated via order 2, mask 0xd20c0(__GFP_IO), pid 7, tgid 7 (cc1), ts 1 ns\n __alloc_skb+0x1/0x2\n\n"
            + "2 times, 2 pages:\nPage allocated via order 0, mask 0x112cca(GFP_HIGHUSER_MOVABLE)\n fault+0x1/0x2\n\n\n";
        let owners = read(&sorted).unwrap();
        assert!(!owners.has_blocks);
        assert_eq!(owners.stacks[&stack("cc1", &["__alloc_skb"])].fixed, 12);
        assert_eq!(owners.stacks[&stack("", &["fault"])].movable, 2);
        // Older tools do not say how many pages that is.
        let older = sorted
            .replace(" times, 12 pages, pid 7, tgid 7:", " times:")
            .replace(" times, 2 pages:", " times:");
        assert_eq!(read(&older).unwrap(), owners);
    }

    #[test]
    fn a_function_is_named_without_its_address_and_its_module() {
        let of = |line: &str| {
            let text = format!(
                "Page allocated via order 0, mask 0xcc0(GFP_KERNEL), pid 1, tgid 1 (a), ts 1 ns\n{line}\n"
            );
            let owners = read(&text).unwrap();
            let ((_, chain), _) = owners.stacks.into_iter().next().unwrap();
            chain.join(" ")
        };
        for (line, name) in [
            (" post_alloc_hook+0x1f3/0x230", "post_alloc_hook"),
            (
                " ath10k_htt_rx_alloc+0x12/0x90 [ath10k_core]",
                "ath10k_htt_rx_alloc",
            ),
            (" [<ffffffff81234567>] rx+0x1/0x2 [ath10k_core]", "rx"),
            (" [<ffffffff81234567>]", ""),
        ] {
            assert_eq!(of(line), name);
        }
    }

    #[test]
    fn a_task_whose_name_has_line_ends_spoils_its_own_block_alone() {
        let head =
            "Page allocated via order 1, mask 0xcc0(GFP_KERNEL), pid 1, tgid 1 (a\n\nb), ts 1 ns\n";
        let text = format!(
            "{head}PFN 5632 type Unmovable Block 11 type Movable Flags 0x0()\n x+0x1/0x2\n\n{DUMP}"
        );
        let owners = read(&text).unwrap();
        assert_eq!(owners.stray_lines, 3);
        assert_eq!(owners.stacks.len(), 3 + 1);
        let all: u64 = owners.stacks.values().map(|held| held.fixed).sum();
        assert_eq!(all, 4 + 2 + 2);
    }

    #[test]
    fn a_task_s_name_is_never_taken_for_a_line_of_the_dump() {
        let block = |comm: &str| {
            format!(
                "Page allocated via order 1, mask 0xcc0(GFP_KERNEL), pid 1, tgid 1 ({comm}), ts 1 ns\n\
                 PFN 5632 type Unmovable Block 11 type Movable Flags 0x0()\n x+0x1/0x2\n\n"
            )
        };
        for (comm, stray) in [
            ("a\nPFN 1", 1),
            ("a)\nPFN 1", 1),
            ("a\nPFN 1 type X", 1),
            ("a), ts \nPFN 1", 1),
            ("), ts ns\nPFN 1\n", 1),
            ("), ts 1 ns\nPFN ", 1),
            // What stands behind a blank line is in no block.
            ("a\n\n times:", 3),
            ("a\n\n9999 times:", 2),
            ("a\n\n9 times:\n\n", 3),
        ] {
            let owners = read(&(block(comm) + DUMP)).unwrap_or_else(|e| panic!("{comm:?}: {e}"));
            assert_eq!(owners.stray_lines, stray, "{comm:?}");
            let all: u64 = owners.stacks.values().map(|held| held.fixed).sum();
            assert_eq!(all, 4 + 2 + 2, "{comm:?}");
        }
        // A name that is whole excuses nothing.
        let faulty = block("a").replace(" type Unmovable", "");
        assert!(read(&faulty).unwrap_err().to_string().starts_with("p:2: "));
    }

    #[test]
    fn what_is_no_dump_is_refused_with_its_line() {
        for (text, says) in [
            ("", "no frame has an owner"),
            ("\n\n", "no frame has an owner"),
            (
                "hello\n",
                "p:1: 'hello', expected 'Page allocated via order N, mask ...'",
            ),
            (
                "Page allocated via order x, mask 0x0\n",
                "p:1: 'x' is not a whole number",
            ),
            (
                "Page allocated via order 64, mask 0x0\n",
                "p:1: expected an order of 0 to 20",
            ),
            (
                "Page allocated via order 1, mask 0x0()\nPFN 7 type\n",
                "p:2: 'PFN 7 type', expected 'PFN N type MOBILITY Block N",
            ),
            (
                "Page allocated via order 1, mask 0x0()\nPFN 7 type Movable Block z type\n",
                "p:2: 'z' is not a whole number",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        // One that is cut off counts as far as it goes.
        let cut = &DUMP[..DUMP.len() - 10];
        assert_eq!(read(cut).unwrap().stacks.len(), 3);
    }
}
