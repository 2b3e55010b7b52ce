//! Pairs of an allocation and its free: blocks of frames, objects.

use super::measure;
use crate::memory::with;
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
