//! What the loader hands over (PVH): the memory map and the command line.

use crate::boot::{self, MemoryRange};
use core::ffi::{CStr, c_char};

/// The loader's structure, version 1.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    tables: u64,
    memory_map: u64,
    memory_entries: u32,
}

/// A range of physical addresses.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoaderRange {
    start: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

/// Below this lie the loader's data, firmware, and the first instructions of other CPUs.
const LOW: u64 = 1 << 20;

/// Reads the loader's data. The command line stays where it is: below 1 MiB.
///
/// # Safety
/// `info` is what the loader handed over.
pub unsafe fn read(info: u64) {
    const MAGIC: u32 = 0x336e_c578;
    const MEMORY: u32 = 1;
    // SAFETY: as the caller owes; the map covers these addresses.
    let (line, ranges) = unsafe {
        let info = &*(info as *const StartInfo);
        assert!(
            info.magic == MAGIC && info.version >= 1,
            "not booted by PVH"
        );
        let map = info.memory_map as *const LoaderRange;
        (
            CStr::from_ptr(info.command_line as *const c_char),
            core::slice::from_raw_parts(map, info.memory_entries as usize),
        )
    };
    let memory = ranges.iter().filter(|range| range.kind == MEMORY);
    let memory = memory.filter_map(|range| {
        let start = range.start.max(LOW);
        let bytes = (range.start + range.bytes).checked_sub(start)?;
        Some(MemoryRange { start, bytes })
    });
    #[cfg(feature = "replay")]
    let memory = {
        // SAFETY: as above.
        let module = unsafe { module(info) };
        if let Some(module) = module {
            boot::MODULE.set(module);
        }
        memory.flat_map(move |range| outside(range, module))
    };
    boot::found(line.to_str().expect("the command line is text"), memory);
}

/// The file that the loader put beside the kernel.
///
/// # Safety
/// As of [`read`].
#[cfg(feature = "replay")]
unsafe fn module(info: u64) -> Option<MemoryRange> {
    // SAFETY: as the caller owes; a module's first two words are its address and its length.
    unsafe {
        let info = &*(info as *const StartInfo);
        let first = info.module_list as *const MemoryRange;
        (info.modules > 0).then(|| first.read())
    }
}

/// What of a range a module leaves: below it and above it.
#[cfg(feature = "replay")]
fn outside(range: MemoryRange, module: Option<MemoryRange>) -> impl Iterator<Item = MemoryRange> {
    let end = range.start + range.bytes;
    let (from, to) = module.map_or((end, end), |module| {
        (module.start, module.start + module.bytes)
    });
    let parts = [(range.start, end.min(from)), (range.start.max(to), end)];
    parts.into_iter().filter_map(|(start, end)| {
        let bytes = end.checked_sub(start).filter(|bytes| *bytes > 0)?;
        Some(MemoryRange { start, bytes })
    })
}
