//! What only page tables and faults can show: guards, faults that name their area, huge pages, no memory left.

use super::{Dice, address, loops, measure, on_all_cpus, table_frames, touch, vfree, vmalloc};
use crate::arch::cpu::instructions::{time_stamp, without_interrupts};
use crate::arch::{call_on_stack, try_write};
use crate::counts::COUNTS;
use crate::memory::{BarePc, WINDOW, engine, page_tables, with};
use crate::say;
use crate::serial::{Exit, exit};
use crate::traps::{Named, WANTED_BELOW, tag_of_stack};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use framewright::frame::tables_of;
use framewright::kv::KvRequest;
use framewright::platform::RangePlatform;
use framewright::vrange::AreaRequest;
use framewright::{Context, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};

/// Guard pages fault, and so does a page that was freed and drained; others do not.
pub fn guards() {
    // One area behind the other, so that only the guard page asked for lies before it.
    let before = vmalloc(&AreaRequest::new(4).guarded());
    for request in [AreaRequest::new(4), AreaRequest::new(4).guarded()] {
        let page = vmalloc(&request.tagged(7));
        let end = address(page) + 4 * Page::BYTES;
        assert!(
            try_write(address(page)) && try_write(end - 1),
            "the area is mapped"
        );
        assert!(!try_write(end), "the guard page is not");
        if request.guard_before {
            assert!(!try_write(address(page) - 1), "nor that before it");
            assert!(is_named(address(page) - 1, "guard page below"));
        }
        assert!(is_named(end, "guard page behind"));
        vfree(page);
        with(|cpu| cpu.ranges().drain());
        assert!(
            !try_write(address(page)),
            "a freed page is gone after a drain"
        );
    }
    vfree(before);
    accesses();
}

/// Whether a fault at an address would be told so.
fn is_named(at: u64, text: &str) -> bool {
    format!("{}", Named(at)).contains(text)
}

/// Whether a page's entry says that access. On RISC-V none says anything of caches.
fn is_entry_for(page: Page, access: PageAccess) -> bool {
    let (_, says) = page_tables().translate(page).expect("it is mapped");
    let says_caching = cfg!(not(target_arch = "riscv64"));
    let cached = PageAccess::new(access.is_writable(), access.is_executable());
    says == if says_caching { access } else { cached }
}

/// What is mapped to be read alone faults at a write, and so does no area after it.
fn accesses() {
    for _ in 0..3 {
        for (access, is_writable) in [
            (PageAccess::READ, false),
            (PageAccess::DATA, true),
            (PageAccess::TEXT, false),
            (PageAccess::ALL, true),
        ] {
            let page = vmalloc(&AreaRequest::new(2).zeroed().mapped_for(access));
            assert!(try_write(address(page)) == is_writable, "{access:?}");
            assert!(is_entry_for(page, access), "{access:?}");
            vfree(page);
        }
    }
    // The same frames once more, as a run and one by one.
    let area = vmalloc(&AreaRequest::new(1));
    let frame = engine().space().frame_behind(area).expect("it is mapped");
    for access in [
        PageAccess::READ,
        PageAccess::TEXT,
        PageAccess::DATA.write_combining(),
        PageAccess::DEVICE,
    ] {
        let run = Run::new(frame, 1).expect("a frame");
        let mapped = with(|cpu| {
            [
                cpu.ioremap(run, access, Context::ANY),
                cpu.vmap(&[frame], access, Context::ANY),
            ]
        });
        for at in mapped {
            let at = at.expect("there is room");
            assert!(try_write(address(at)) == access.is_writable(), "{access:?}");
            assert!(is_entry_for(at, access), "{access:?}");
            with(|cpu| cpu.unmap_ram(at, 1)).expect("it is mapped");
        }
    }
    vfree(area);
}

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let mut words = [depth; 64];
    // Kept on the stack.
    core::hint::black_box(&mut words);
    recurse(depth + 1) + words[depth as usize % 64]
}

extern "C" fn overflow() {
    say!("{}", recurse(0));
}

/// A thread's stack is an area. It goes over the end, into its guard page.
pub fn stack() {
    let stack = vmalloc(&AreaRequest::new(4).tagged(2).guarded());
    say!("the stack at {:#x}", address(stack));
    assert!(is_named(
        address(stack) - 1,
        "in the guard page below the vmalloc area of 4 pages"
    ));
    WANTED_BELOW.store(2, Relaxed);
    let top = address(stack) + 4 * Page::BYTES;
    call_on_stack(top, overflow)
}

/// The last CPU goes over the end of its own stack, and the fault names that.
pub fn stacks() {
    on_all_cpus(|cpu| {
        if cpu.0 + 1 < crate::cpus() {
            return;
        }
        let here = 0u8;
        let at = Page::of_address((&raw const here) as u64);
        let stack = engine().space().find(at).expect("a stack is an area");
        assert_eq!(stack.tag, tag_of_stack(cpu));
        let below = format!("in the guard page below the stack of CPU {}", cpu.0);
        let above = format!("in the guard page behind the stack of CPU {}", cpu.0);
        assert!(is_named(address(stack.start) - 1, &below));
        assert!(is_named(
            address(stack.start) + stack.pages * Page::BYTES,
            &above
        ));
        WANTED_BELOW.store(stack.tag, Relaxed);
        overflow();
    });
    panic!("CPU {} went on", crate::cpus() - 1);
}

/// Collections of Rust's on the engine's objects, contiguous and mapped ones.
pub fn heap() {
    let mut map = BTreeMap::new();
    for number in 0..10_000_u64 {
        map.insert(number * 7919 % 10_007, format!("number {number}"));
    }
    assert_eq!(map.len(), 10_000);
    assert_eq!(map[&7919], "number 1");
    let lengths: usize = map.values().map(String::len).sum();
    assert_eq!(lengths, 10_000 * 7 + 10 + 90 * 2 + 900 * 3 + 9000 * 4);
    let words: Vec<u64> = (0..1_000_000).collect();
    assert_eq!(words.iter().sum::<u64>(), 499_999_500_000);
    let sixteen: Vec<u8> = alloc::vec![0xa5; 16 << 20];
    assert!(sixteen.iter().all(|byte| *byte == 0xa5));
    let stats = engine().objects().stats();
    say!("{stats:?}");
}

/// A long area whose frames come aligned is mapped by pages of 2 MiB.
pub fn huge() {
    let before = COUNTS.maps.get();
    let start = time_stamp();
    let page = vmalloc(&AreaRequest::new(4096).for_huge_pages());
    let ticks = time_stamp() - start;
    let huge = (0..8)
        .filter(|nth| page_tables().is_huge(Page(page.0 + 512 * nth)))
        .count();
    let maps = COUNTS.maps.get() - before;
    say!("16 MiB in {ticks} ticks: {maps} maps, {huge} huge pages");
    assert!(huge >= 4, "hardly any page is huge");
    for nth in 0..4096 {
        touch(Page(page.0 + nth));
    }
    vfree(page);
    with(|cpu| cpu.ranges().drain());
    assert!(!try_write(address(page)) && !try_write(address(page) + (4096 << 12) - 1));
}

/// Without memory every request ends in an error, page tables' too; then all of it is there again.
pub fn full() {
    let free = || engine().frame_stats().nr_free_pages;
    let (before, tables_before) = (free(), table_frames());
    let mut areas = Vec::with_capacity(1 << 16);
    for pages in [4096, 64, 1] {
        while areas.len() < areas.capacity()
            && let Ok(page) = with(|cpu| cpu.vmalloc(&AreaRequest::new(pages)))
        {
            touch(page);
            areas.push(page);
        }
    }
    say!("{} areas, {} of {before} frames left", areas.len(), free());
    let refused = with(|cpu| cpu.vmalloc(&AreaRequest::new(64)));
    let nowait = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::NOWAIT));
    say!("then {refused:?} and {nowait:?}");
    assert!(refused.is_err(), "there is memory left");
    if let Ok(frame) = nowait {
        with(|cpu| cpu.free(frame, Order::ZERO)).expect("it was allocated");
    }
    engine()
        .verify()
        .expect("the invariants hold without memory");
    areas.drain(..).for_each(vfree);
    drop(areas);
    with(|cpu| {
        cpu.objects().drain();
        cpu.ranges().drain();
    });
    let tables = table_frames() - tables_before;
    say!("{} frames free again, {tables} page tables", free());
    assert!(free() + tables + 8 >= before, "frames are lost");
}

/// The first frame, area and object, by the machine's clock, which an emulator that counts instructions drives by them.
pub fn ready(name: &str) {
    const BAR: u64 = 100_000;
    let frame = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY));
    let area = vmalloc(&AreaRequest::new(4));
    touch(area);
    let object = with(|cpu| cpu.kmalloc(&KvRequest::new(64)));
    let ticks = crate::ticks_since_start();
    say!("figure {name} {0} {0} loops 1 maps 0", ticks * 100);
    let (micros, present) = (ticks / 1000, engine().zones()[0].present_frames());
    say!(
        "the first allocation of {} MiB after {micros} µs",
        present >> 8
    );
    // Where it is not known, RISC-V takes a little longer: its zeroes take three instructions a word.
    if cfg!(target_arch = "x86_64") || crate::boot::number("zeroed") == Some(1) {
        assert!(micros <= BAR, "not ready after {BAR} µs");
    }
    with(|cpu| cpu.free(frame.expect("there is memory"), Order::ZERO)).expect("it was allocated");
    with(|cpu| cpu.kvfree(object.expect("there is memory"))).expect("it was allocated");
    vfree(area);
    // To verify so many frames takes longer than all of this test.
    say!("passed");
    exit(Exit::Passed)
}

/// Maps a run and unmaps it. Its tables stay.
#[inline(never)] // or the compiler makes another loop of what is measured
fn bring_tables(at: Page, run: Run) {
    with(|cpu| {
        let tables = &mut tables_of(cpu.frames(), Context::ANY);
        let mapped = BarePc.map(at, run, PageAccess::DATA, tables);
        mapped.expect("nothing is there");
    });
    let range = PageRange::new(at, run.frames()).expect("a few pages");
    BarePc.unmap(range).expect("it was mapped");
}

/// What the platform itself costs in a mapping: a run mapped and unmapped, without the engine.
pub fn map<const PAGES: u64>(name: &str) {
    let at = Page((WINDOW >> 12) - 512);
    let range = PageRange::new(at, PAGES).expect("a few pages");
    let run = Run::new(Frame(1), PAGES).expect("a few frames");
    bring_tables(at, run);
    measure(name, || {
        without_interrupts(|| {
            let mapped = BarePc.map(at, run, PageAccess::DATA, &mut ());
            mapped.expect("nothing is there");
            BarePc.unmap(range).expect("it was mapped");
        });
    });
}

/// How long a call keeps interrupts off: the longest of many, in instructions.
pub fn longest(name: &str) {
    let time = |work: &mut dyn FnMut()| {
        COUNTS.begin_span();
        work();
        COUNTS.end_span();
    };
    COUNTS.span_longest.store(0, Relaxed);
    if name == "longest_random" {
        let mut dice = Dice::new(5);
        let mut live = [None; 512];
        for _ in 0..loops() {
            let place = &mut live[dice.below(512) as usize];
            let request = AreaRequest::new(1 + dice.below(100));
            time(&mut || match place.take() {
                Some(page) => vfree(page),
                None => *place = Some(vmalloc(&request)),
            });
        }
        for page in live.into_iter().flatten() {
            time(&mut || vfree(page));
        }
    } else if name == "longest_16m_zeroed" {
        let request = AreaRequest::new(4096).zeroed();
        time(&mut || vfree(vmalloc(&request)));
    } else {
        let pages: Vec<Page> = (0..2000)
            .map(|nth| vmalloc(&AreaRequest::new(1 + nth % 7)))
            .collect();
        pages.into_iter().for_each(vfree);
        COUNTS.span_longest.store(0, Relaxed);
        time(&mut || with(|cpu| cpu.ranges().drain()));
    }
    let hundredths = COUNTS.span_longest.load(Relaxed) * 100;
    say!("figure {name} {hundredths} {hundredths} loops 1 maps 0");
}
