//! The rules of the library, by Rust: as C sees it, but in a process with `std`, so that Miri and the checks of the checks
//! reach it. A machine is a vector of frames, and a page table that is only a map.

use framewright_capi_core::arguments::{
    FW_MOVABLE, FW_NOFS, FW_NOIO, FW_NOWAIT, FW_UNMOVABLE, FW_ZERO,
};
use framewright_capi_core::codes::{
    FW_EALREADY, FW_EBUSY, FW_EFOREIGN, FW_EHANDLE, FW_EHOST, FW_EINVAL, FW_ENOENT, FW_ENOMEM,
    FW_EREENTRY, FW_OK,
};
use framewright_capi_kernel::c::platform::{
    FWK_EXECUTABLE, FWK_READ_ONLY, FWK_UNCACHED, FWK_WRITE_COMBINING, FwkPlatform, FwkTables,
    fwk_give_table, fwk_take_table,
};
use framewright_capi_kernel::c::{FwkMemory, frames, guests, memory, objects, ranges, reserve};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

const FRAMES: u64 = 2048;
const RESERVE: u64 = 128;
const FIRST: u64 = 64;
const WINDOW: u64 = 1 << 45;

/// What the callbacks of one memory know.
#[derive(Default)]
struct ToyKernel {
    mapped: RefCell<BTreeMap<u64, u64>>,
    answer: Cell<c_int>,
    flags: Cell<u32>,
    flushes: Cell<u32>,
    /// The memory that `map` calls back, and what it was told.
    calls_back: Cell<*mut FwkMemory>,
    told: Cell<c_int>,
    /// An area whose free `map` defers then.
    to_defer: Cell<*mut c_void>,
}

/// What a second deferral of an area returns; null is none.
fn again(area: *mut c_void) -> c_int {
    if area.is_null() { FW_OK } else { FW_EALREADY }
}

unsafe extern "C" fn map(
    context: *mut c_void,
    at: *mut c_void,
    first: u64,
    frames: u64,
    flags: u32,
    tables: *mut FwkTables,
) -> c_int {
    // SAFETY: the test's own, which outlives the memory. So below.
    let kernel = unsafe { &*context.cast::<ToyKernel>() };
    kernel.flags.set(flags);
    let mut table = 0;
    // SAFETY: what the library handed in, and the test's own.
    unsafe {
        assert_eq!(fwk_take_table(tables, ptr::null_mut()), FW_EINVAL);
        assert_eq!(fwk_take_table(ptr::null_mut(), &mut table), FW_EINVAL);
        assert_eq!(fwk_give_table(ptr::null_mut(), 1), FW_EINVAL);
        if fwk_take_table(tables, &mut table) == FW_OK {
            assert_eq!(fwk_give_table(tables, table), FW_OK);
            assert_eq!(fwk_give_table(tables, table), FW_EINVAL);
        }
        assert_eq!(fwk_give_table(tables, FIRST + FRAMES), FW_EINVAL);
    }
    let memory = kernel.calls_back.get();
    if !memory.is_null() {
        assert!(objects::fwk_kmalloc(memory, 0, 64, 1, 0).is_null());
        kernel.told.set(memory::fwk_last_error(memory, 0));
        let area = kernel.to_defer.replace(ptr::null_mut());
        assert_eq!(ranges::fwk_vfree_atomic(memory, area), FW_OK);
        assert_eq!(ranges::fwk_vfree_atomic(memory, area), again(area));
    }
    if kernel.answer.get() != 0 {
        return kernel.answer.get();
    }
    for nth in 0..frames {
        let page = at.addr() as u64 / 4096 + nth;
        let before = kernel.mapped.borrow_mut().insert(page, first + nth);
        assert_eq!(before, None, "mapped twice");
    }
    0
}

unsafe extern "C" fn unmap(context: *mut c_void, at: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: as above.
    let kernel = unsafe { &*context.cast::<ToyKernel>() };
    let start = at.addr() as u64 / 4096;
    let end = start + bytes as u64 / 4096;
    let mut mapped = kernel.mapped.borrow_mut();
    mapped.retain(|page, _| !(start..end).contains(page));
    0
}

unsafe extern "C" fn flush(context: *mut c_void) {
    // SAFETY: as above.
    let kernel = unsafe { &*context.cast::<ToyKernel>() };
    kernel.flushes.set(kernel.flushes.get() + 1);
}

unsafe extern "C" fn barrier(_context: *mut c_void) {}

#[repr(align(4096))]
#[derive(Clone)]
struct ToyFrame(#[allow(dead_code)] [u8; 4096]);

/// A memory, and all that it lies in.
struct ToyMemory {
    memory: *mut FwkMemory,
    kernel: Rc<ToyKernel>,
    ram: Vec<ToyFrame>,
    metadata: Vec<u8>,
}

fn layout() -> memory::FwkLayout {
    memory::FwkLayout {
        struct_bytes: size_of::<memory::FwkLayout>() as u32,
        cpus: 2,
        first_frame: FIRST,
        frames: FRAMES,
        window: WINDOW,
        window_bytes: 8 << 20,
        reserve_first: FIRST + FRAMES,
        reserve_frames: RESERVE,
        flags: 0,
        units: 0,
        unit_bytes: 0,
    }
}

fn bytes_for(layout: &memory::FwkLayout) -> usize {
    let mut bytes = 0;
    // SAFETY: both are the test's own.
    let code = unsafe { memory::fwk_metadata_bytes(layout, &mut bytes) };
    assert_eq!(code, FW_OK);
    bytes
}

impl ToyMemory {
    fn new(has_barrier: bool) -> Self {
        let layout = layout();
        let kernel = Rc::<ToyKernel>::default();
        let mut ram = vec![ToyFrame([0xa5; 4096]); (FRAMES + RESERVE) as usize];
        let platform = FwkPlatform {
            context: Rc::as_ptr(&kernel).cast_mut().cast(),
            direct_map: (ram.as_mut_ptr().expose_provenance() as u64).wrapping_sub(FIRST * 4096),
            map: Some(map),
            unmap: Some(unmap),
            flush: Some(flush),
            barrier: has_barrier.then_some(barrier),
            ..FwkPlatform::default()
        };
        let mut metadata = vec![0xa5; bytes_for(&layout)];
        let mut memory = ptr::null_mut();
        // SAFETY: all of it is the test's own, and stays until `end`.
        let code = unsafe {
            let metadata = metadata.as_mut_ptr().cast::<c_void>();
            memory::fwk_new(
                &layout,
                &platform,
                metadata,
                bytes_for(&layout),
                &mut memory,
            )
        };
        assert_eq!(code, FW_OK);
        assert_eq!(memory::fwk_add(memory, 0, FIRST, FRAMES), FW_OK);
        Self {
            memory,
            kernel,
            ram,
            metadata,
        }
    }

    fn frame(&self, flags: u32) -> Result<u64, c_int> {
        let mut frame = 0;
        // SAFETY: the number is the test's own.
        let code =
            unsafe { frames::fwk_frame_alloc(self.memory, 0, 0, FW_MOVABLE, flags, &mut frame) };
        if code == FW_OK { Ok(frame) } else { Err(code) }
    }

    fn free_frames(&self) -> u64 {
        assert_eq!(memory::fwk_drain(self.memory, 0), FW_OK);
        let mut stats = memory::FwkStats {
            struct_bytes: size_of::<memory::FwkStats>() as u32,
            ..memory::FwkStats::default()
        };
        // SAFETY: the structure is the test's own.
        let code = unsafe { memory::fwk_stats(self.memory, 0, &mut stats) };
        assert_eq!(code, FW_OK);
        stats.free_frames
    }

    /// Ends a memory in which nothing is allocated.
    fn end(self) {
        assert_eq!(self.free_frames(), FRAMES);
        assert_eq!(memory::fwk_verify(self.memory, 1), FW_OK);
        assert!(self.kernel.mapped.borrow().is_empty());
        // SAFETY: no other thread knows it.
        let code = unsafe { memory::fwk_end(self.memory) };
        assert_eq!(code, FW_OK);
        // CK2: its metadata are still there, and hold no memory.
        assert_eq!(memory::fwk_verify(self.memory, 0), FW_EHANDLE);
        assert_eq!(memory::fwk_last_error(self.memory, 0), FW_EHANDLE);
        drop((self.ram, self.metadata));
    }
}

#[test]
fn both_kinds_of_platform_serve_frames_areas_objects_and_a_reserve() {
    for has_barrier in [false, true] {
        let toy = ToyMemory::new(has_barrier);
        let memory = toy.memory;
        let frame = toy.frame(FW_NOWAIT).unwrap();
        let area = ranges::fwk_vmalloc(memory, 0, 9000, 1, FW_ZERO | FW_NOIO);
        assert!(!area.is_null());
        assert_eq!(toy.kernel.flags.get(), FW_NOIO | FW_NOFS);
        let flags = FWK_READ_ONLY | FWK_EXECUTABLE | FW_NOWAIT;
        let text = ranges::fwk_vmalloc(memory, 0, 100, 1, flags);
        let all = flags | FW_NOIO | FW_NOFS;
        assert!(!text.is_null() && toy.kernel.flags.get() == all);
        assert_eq!(ranges::fwk_vfree(memory, 0, text), FW_OK);
        for caching in [FWK_WRITE_COMBINING, FWK_UNCACHED] {
            assert!(ranges::fwk_vmalloc(memory, 0, 100, 1, caching).is_null());
            assert_eq!(memory::fwk_last_error(memory, 0), FW_EINVAL);
        }
        let both = FWK_UNCACHED | FWK_WRITE_COMBINING;
        let device = ranges::fwk_map_run(memory, 0, 1 << 34, 3, both);
        assert!(!device.is_null() && toy.kernel.flags.get() == FWK_UNCACHED);
        assert_eq!(ranges::fwk_unmap_ram(memory, 0, device, 3), FW_OK);
        for (first, count) in [(1 << 34, 0), (u64::MAX, 3)] {
            assert!(ranges::fwk_map_run(memory, 0, first, count, 0).is_null());
            assert_eq!(memory::fwk_last_error(memory, 0), FW_EINVAL);
        }
        let one = [9];
        // SAFETY: one number.
        let ram = unsafe { ranges::fwk_map_ram(memory, 0, one.as_ptr(), 1, FWK_READ_ONLY) };
        assert!(!ram.is_null() && toy.kernel.flags.get() == FWK_READ_ONLY);
        assert_eq!(ranges::fwk_unmap_ram(memory, 0, ram, 1), FW_OK);
        let object = objects::fwk_kmalloc(memory, 1, 100, 64, FW_ZERO).cast::<u8>();
        assert!(object.addr().is_multiple_of(64));
        // SAFETY: an object of 100 bytes in the test's frames.
        assert!((0..100).all(|nth| unsafe { *object.add(nth) } == 0));
        let grown = objects::fwk_kvrealloc(memory, 0, object.cast(), 5000, 0);
        assert!(!grown.is_null());
        let list = [frame, FIRST + FRAMES];
        // SAFETY: two numbers.
        let mapped = unsafe { ranges::fwk_map_ram(memory, 0, list.as_ptr(), 2, 0) };
        let page = mapped.addr() as u64 / 4096;
        let behind = |nth: u64| toy.kernel.mapped.borrow().get(&(page + nth)).copied();
        assert_eq!(
            [behind(0), behind(1), behind(2)],
            [Some(frame), Some(FIRST + FRAMES), None]
        );
        let (mut id, mut first, mut pool) = (0, 0, 0);
        let page = [7u64; 512].map(|word| word * 3);
        let mut back = [0u64; 512];
        // SAFETY: all of it is the test's own.
        unsafe {
            let code =
                reserve::fwk_reserve_set_aside(memory, 0, c"camera".as_ptr(), 64, 64, &mut id);
            assert_eq!(code, FW_OK);
            assert_eq!(guests::fwk_pool_open(memory, 0, 0, 0, &mut pool), FW_OK);
            let put = guests::fwk_guest_put(memory, 1, pool, 1, 2, page.as_ptr().cast());
            assert_eq!(put, FW_OK);
            let got = guests::fwk_guest_get(memory, 0, pool, 1, 2, back.as_mut_ptr().cast());
            assert_eq!((got, back), (FW_OK, page));
            assert_eq!(reserve::fwk_reserve_take(memory, 0, id, &mut first), FW_OK);
            assert_eq!(
                reserve::fwk_reserve_take(memory, 1, id, &mut first),
                FW_EBUSY
            );
        }
        assert_eq!(reserve::fwk_reserve_release(memory, 0, id), FW_OK);
        assert_eq!(reserve::fwk_reserve_give_up(memory, 0, id), FW_OK);
        assert_eq!(reserve::fwk_reserve_give_up(memory, 0, id), FW_ENOENT);
        // Another one in the same slot has a number of its own.
        let (old, name) = (id, c"codec".as_ptr());
        // SAFETY: a name that ends, and the test's own number.
        let code = unsafe { reserve::fwk_reserve_set_aside(memory, 0, name, 64, 64, &mut id) };
        assert_eq!(code, FW_OK);
        assert_eq!(reserve::fwk_reserve_give_up(memory, 0, old), FW_ENOENT);
        assert_eq!(reserve::fwk_reserve_give_up(memory, 0, id), FW_OK);
        assert_eq!(ranges::fwk_unmap_ram(memory, 0, mapped, 2), FW_OK);
        assert_eq!(objects::fwk_kvfree(memory, 1, grown), FW_OK);
        assert_eq!(ranges::fwk_vfree(memory, 1, area), FW_OK);
        assert_eq!(frames::fwk_frame_free(memory, 1, frame, 0), FW_OK);
        assert_eq!(toy.free_frames(), FRAMES);
        assert!(toy.kernel.flushes.get() > 0);
        toy.end();
    }
}

#[test]
fn ck1_a_call_inside_a_call_of_the_same_cpu_is_refused() {
    let toy = ToyMemory::new(false);
    toy.kernel.calls_back.set(toy.memory);
    let area = ranges::fwk_vmalloc(toy.memory, 0, 4096, 1, 0);
    assert!(!area.is_null());
    assert_eq!(toy.kernel.told.get(), FW_EREENTRY);
    toy.kernel.calls_back.set(ptr::null_mut());
    assert_eq!(ranges::fwk_vfree(toy.memory, 0, area), FW_OK);
    toy.end();
}

#[test]
fn ck1_a_free_may_be_deferred_inside_a_call_of_the_same_cpu() {
    for has_barrier in [false, true] {
        let toy = ToyMemory::new(has_barrier);
        let memory = toy.memory;
        let area = ranges::fwk_vmalloc(memory, 0, 9000, 1, 0);
        assert!(!area.is_null());
        toy.kernel.calls_back.set(memory);
        toy.kernel.to_defer.set(area);
        let other = ranges::fwk_vmalloc(memory, 0, 4096, 1, 0);
        assert!(!other.is_null() && toy.kernel.to_defer.get().is_null());
        toy.kernel.calls_back.set(ptr::null_mut());
        // Not by a call without seats, whatever that returned.
        assert_eq!(memory::fwk_last_error(memory, 0), FW_EREENTRY);
        assert_eq!(ranges::fwk_vfree(memory, 1, area), FW_EALREADY);
        let mut freed = 0;
        // SAFETY: the number is the test's own.
        unsafe {
            assert_eq!(ranges::fwk_free_deferred(memory, 1, &mut freed), FW_OK);
            assert_eq!(freed, 1);
            assert_eq!(ranges::fwk_free_deferred(memory, 0, &mut freed), FW_OK);
            assert_eq!(freed, 0);
            let inside = (&raw mut freed).wrapping_byte_add(1);
            assert_eq!(ranges::fwk_free_deferred(memory, 0, inside), FW_EINVAL);
            assert_eq!(ranges::fwk_free_deferred(memory, 0, ptr::null_mut()), FW_OK);
        }
        assert_eq!(ranges::fwk_vfree(memory, 0, other), FW_OK);
        assert_eq!(memory::fwk_last_error(memory, 1), FW_EALREADY);
        toy.end();
    }
}

#[test]
fn ck2_what_is_no_memory_is_refused() {
    let toy = ToyMemory::new(false);
    assert_eq!(memory::fwk_verify(ptr::null_mut(), 0), FW_EHANDLE);
    let inside = toy.memory.wrapping_byte_add(8);
    assert_eq!(memory::fwk_verify(inside, 0), FW_EHANDLE);
    assert_eq!(memory::fwk_verify(toy.memory, 2), FW_EINVAL);
    assert_eq!(memory::fwk_last_error(toy.memory, 2), FW_EINVAL);
    toy.end();
}

#[test]
fn ck3_a_result_that_cannot_be_written_costs_nothing() {
    let toy = ToyMemory::new(false);
    // SAFETY: null is no place to write to, and is refused.
    let codes = unsafe {
        [
            frames::fwk_frame_alloc(toy.memory, 0, 0, FW_UNMOVABLE, 0, ptr::null_mut()),
            frames::fwk_run_alloc(toy.memory, 0, 3, 1, FW_UNMOVABLE, 0, ptr::null_mut()),
            reserve::fwk_reserve_alloc(toy.memory, 0, RESERVE, 1, ptr::null_mut()),
        ]
    };
    assert_eq!(codes, [FW_EINVAL; 3]);
    let mut first = 0;
    // SAFETY: the number is the test's own.
    let code = unsafe { reserve::fwk_reserve_alloc(toy.memory, 0, RESERVE, 1, &mut first) };
    assert_eq!((code, first), (FW_OK, FIRST + FRAMES));
    toy.end();
}

#[test]
fn ck4_what_map_refuses_is_refused_and_costs_nothing() {
    let toy = ToyMemory::new(true);
    for (answer, code) in [(FW_ENOMEM, FW_ENOMEM), (-77, FW_EHOST), (5, FW_EHOST)] {
        toy.kernel.answer.set(answer);
        assert!(ranges::fwk_vmalloc(toy.memory, 0, 9000, 1, 0).is_null());
        assert_eq!(memory::fwk_last_error(toy.memory, 0), code);
        assert_eq!(memory::fwk_last_error(toy.memory, 1), FW_OK);
        toy.kernel.answer.set(0);
        assert_eq!(toy.free_frames(), FRAMES);
    }
    toy.end();
}

#[test]
fn ck5_a_table_without_map_or_unmap_makes_no_memory() {
    let layout = layout();
    let mut metadata = vec![0u8; bytes_for(&layout)];
    for (maps, unmaps) in [(false, true), (true, false)] {
        let platform = FwkPlatform {
            map: if maps { Some(map) } else { None },
            unmap: if unmaps { Some(unmap) } else { None },
            ..FwkPlatform::default()
        };
        let mut memory = ptr::null_mut();
        // SAFETY: all of it is the test's own; it makes nothing.
        let code = unsafe {
            let metadata = metadata.as_mut_ptr().cast::<c_void>();
            memory::fwk_new(
                &layout,
                &platform,
                metadata,
                bytes_for(&layout),
                &mut memory,
            )
        };
        assert_eq!((code, memory.is_null()), (FW_EINVAL, true));
    }
    // An address that is none of its own is refused where it is freed.
    let toy = ToyMemory::new(false);
    let mine = ptr::from_mut(&mut metadata).cast();
    assert_eq!(objects::fwk_kfree(toy.memory, 0, mine), FW_EFOREIGN);
    toy.end();
}
