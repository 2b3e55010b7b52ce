//! Buffers that need not be contiguous: kvmalloc with owners, where memory is fragmented.
//!
//! `cargo run -p framewright-examples --bin kvmalloc`

use framewright::Context;
use framewright::kv::{KVBox, KVVec};
use framewright::policy::Effort;
use framewright_linux::{Heap, HeapOptions};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // 16 MiB for two threads. Owners hold a handle to the heap: nothing is global.
    let heap = Heap::try_new(HeapOptions::new(16 << 20).with_threads(2))?;

    // A value that is contiguous in memory, and one that need not be.
    let mut counters = KVBox::try_new([0u64; 8], heap.contiguous())?;
    counters[3] += 1;
    let buffer = KVBox::try_new([7u8; 65536], &heap)?;
    println!("{counters:?}, {} bytes of {}", buffer.len(), buffer[65535]);
    drop(buffer);

    // Now all memory is in single frames, every second of which is free.
    let mut frames = KVVec::try_with_capacity(4096, &heap)?;
    while let Ok(frame) = KVBox::try_new([0u8; 4096], heap.contiguous()) {
        frames
            .try_push(Some(frame))
            .map_err(|refused| refused.error)?;
    }
    frames.iter_mut().step_by(2).for_each(|frame| *frame = None);

    // No contiguous block is free: the buffers get mapped pages at once, without a wait.
    let mut buffers = KVVec::new(&heap);
    for number in 0..16u8 {
        let mut buffer = KVVec::try_with_capacity(65536, &heap)?;
        buffer.try_extend_from_slice(&[number; 65536])?;
        buffers.try_push(buffer).map_err(|refused| refused.error)?;
    }
    let are_kept = |(number, buffer): (usize, &KVVec<u8, _>)| {
        buffer.iter().all(|byte| usize::from(*byte) == number)
    };
    println!(
        "16 buffers, kept: {}",
        buffers.iter().enumerate().all(are_kept)
    );
    if let Some(stats) = heap.stats() {
        let objects = stats.objects;
        println!(
            "mapped: {}, waited for: {}",
            objects.spills,
            objects.compact_stall + objects.allocstall
        );
    }

    // What cannot be had comes back, and says why; place, effort and context go with the handle.
    match KVBox::try_new([1u8; 65536], heap.contiguous()) {
        Ok(_) => println!("64 KiB side by side"),
        Err(refused) => println!("{} bytes came back: {}", refused.value.len(), refused.error),
    }
    let patient = heap.with(Effort::MustSucceed, Context::NOWAIT);
    if let Err(refused) = KVBox::try_new(0u8, patient) {
        println!("refused: {refused}");
    }
    Ok(())
}
