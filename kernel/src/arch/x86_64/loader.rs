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
    boot::found(line.to_str().expect("the command line is text"), memory);
}
