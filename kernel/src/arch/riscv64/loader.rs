//! What the firmware hands over: a device tree.

use crate::boot::{self, MemoryRange};
use fdt::Fdt;

/// The most parts of memory between what is reserved.
const PARTS_MAX: usize = 32;

/// Ranges of memory, from which reserved ones are taken.
struct MemoryParts {
    parts: [MemoryRange; PARTS_MAX],
    count: usize,
}

impl MemoryParts {
    fn add(&mut self, start: u64, end: u64) {
        if start < end {
            let place = self.parts.get_mut(self.count);
            let bytes = end - start;
            *place.expect("at most 32 parts of memory") = MemoryRange { start, bytes };
            self.count += 1;
        }
    }

    /// Takes addresses away.
    fn reserve(&mut self, start: u64, end: u64) {
        let before = self.parts;
        let count = core::mem::take(&mut self.count);
        for part in &before[..count] {
            let part_end = part.start + part.bytes;
            self.add(part.start, part_end.min(start));
            self.add(part.start.max(end), part_end);
        }
    }
}

/// Reads the memory and the command line from the tree, which stays where it is.
///
/// # Safety
/// `at` is what the firmware handed over.
pub unsafe fn read(at: *const u8) -> Fdt<'static> {
    // SAFETY: as the caller owes; the boot's root maps these addresses.
    let tree = unsafe { Fdt::from_ptr(at) };
    let tree = tree.unwrap_or_else(|error| panic!("no device tree at {at:p}: {error:?}"));
    let mut memory = MemoryParts {
        parts: [MemoryRange { start: 0, bytes: 0 }; PARTS_MAX],
        count: 0,
    };
    for node in tree.all_nodes() {
        let is_memory = node.property("device_type").and_then(|kind| kind.as_str());
        for region in node
            .reg()
            .filter(|_| is_memory == Some("memory"))
            .into_iter()
            .flatten()
        {
            let start = region.starting_address as u64;
            memory.add(start, start + region.size.unwrap_or(0) as u64);
        }
    }
    for reserved in tree.memory_reservations() {
        let start = reserved.address() as u64;
        memory.reserve(start, start + reserved.size() as u64);
    }
    let reserved = tree.find_node("/reserved-memory");
    for node in reserved.iter().flat_map(|node| node.children()) {
        for region in node.reg().into_iter().flatten() {
            let start = region.starting_address as u64;
            memory.reserve(start, start + region.size.unwrap_or(0) as u64);
        }
    }
    memory.reserve(at as u64, at as u64 + tree.total_size() as u64);
    #[cfg(feature = "replay")]
    if let Some(module) = module(&tree) {
        memory.reserve(module.start, module.start + module.bytes);
        boot::MODULE.set(module);
    }
    let line = tree.chosen().bootargs().unwrap_or("");
    boot::found(line, memory.parts.into_iter().take(memory.count));
    tree
}

/// The file that the loader put beside the kernel.
#[cfg(feature = "replay")]
fn module(tree: &Fdt<'static>) -> Option<MemoryRange> {
    let chosen = tree.find_node("/chosen")?;
    let address = |name| Some(chosen.property(name)?.as_usize()? as u64);
    let start = address("linux,initrd-start")?;
    let bytes = address("linux,initrd-end")?.checked_sub(start)?;
    Some(MemoryRange { start, bytes })
}

/// The firmware's numbers of all harts.
pub fn harts<'t>(tree: &'t Fdt<'static>) -> impl Iterator<Item = u64> + 't {
    tree.cpus().map(|cpu| cpu.ids().first() as u64)
}
