//! Pairs of an allocation and its free: blocks of frames, objects.

use super::{Dice, Since, measure};
use crate::memory::with;
use alloc::vec::Vec;
use framewright::kv::KvRequest;
use framewright::{Context, Mobility, Order};

pub fn alloc_pages(order: u8) {
    let name = match order {
        0 => "alloc_pages_0",
        3 => "alloc_pages_3",
        _ => "alloc_pages_9",
    };
    let order = Order::new(order).expect("a small order");
    measure(name, || {
        let frame = with(|cpu| cpu.alloc(order, Mobility::Unmovable, Context::ANY));
        let frame = frame.expect("there is memory");
        with(|cpu| cpu.free(frame, order)).expect("it was allocated");
    });
}

pub fn kmalloc(bytes: u64) {
    let request = KvRequest::new(bytes);
    measure("kmalloc_64", || {
        let object = with(|cpu| cpu.kmalloc(&request)).expect("there is memory");
        with(|cpu| cpu.objects().kfree(object)).expect("it was allocated");
    });
}

pub fn kvmalloc(bytes: u64) {
    let name = match bytes {
        4096 => "kvmalloc_4k",
        65536 => "kvmalloc_64k",
        _ => "kvmalloc_1m",
    };
    let request = KvRequest::new(bytes);
    measure(name, || {
        let object = with(|cpu| cpu.kvmalloc(&request)).expect("there is memory");
        with(|cpu| cpu.kvfree(object)).expect("it was allocated");
    });
}

/// Per-CPU objects as Linux's test has them: all of them live at a time.
pub fn percpu() {
    const OBJECTS: u64 = 35_000;
    let mut draw = Dice::new(0);
    let mut all = Vec::with_capacity(OBJECTS as usize);
    let since = Since::now();
    for _ in 0..OBJECTS {
        let (bytes, align) = (1 + draw.below(1024), 2 << draw.below(11));
        let object = with(|cpu| cpu.alloc_percpu(bytes, align, Context::ANY));
        all.push(object.expect("there is memory"));
    }
    for object in all.drain(..) {
        with(|cpu| cpu.free_percpu(object)).expect("it was allocated");
    }
    since.say("pcpu", OBJECTS);
}
