//! kvmalloc with reclaim: a cache has all memory, and gives frames back when an object needs them.
//!
//! `cargo run -p framewright-examples --bin kvmalloc_reclaim`

use framewright::Frame;
use framewright::frame::FrameSource;
use framewright::kv::KvRequest;
use framewright::reclaim::{Ask, Shrink, Shrunk};
use framewright_linux::{HostKv, Options};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;

/// A cache: frames that can be filled again, the oldest in front.
#[derive(Default)]
struct RefillableFrames(RefCell<VecDeque<Frame>>);

impl<F: FrameSource> Shrink<F> for RefillableFrames {
    fn holding(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        let mut held = self.0.borrow_mut();
        let freed = ask.wanted.min(ask.scan).min(held.len() as u64);
        for frame in held.drain(..freed as usize) {
            frames.free_frame(frame);
        }
        Shrunk {
            scanned: freed,
            freed,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cache = RefillableFrames::default();
    let shrinkers: [&dyn Shrink<_>; 1] = [&cache];

    // 16 MiB, all of it in the cache.
    let host = HostKv::fenced(&Options::of_frames(4096))?;
    let mut cpu = host.cpu()?.with_shrinkers(&shrinkers);
    while let Ok(frame) = cpu.frames().alloc_frame() {
        cache.0.borrow_mut().push_back(frame);
    }
    // As after a while of use: the oldest lie apart, so that what they leave is no block.
    let mut frames = cache.0.borrow_mut();
    frames.make_contiguous().sort_by_key(|frame| frame.0 % 2);
    println!("the cache has {} frames", frames.len());
    drop(frames);
    // By default a request fails fast, and asks no client.
    if let Err(error) = cpu.kvmalloc(&KvRequest::new(1 << 20)) {
        println!("refused: {error}");
    }

    // One that must succeed has them give back as much as it takes.
    let buffer = cpu.kvmalloc(&KvRequest::new(1 << 20).must_succeed())?;
    println!("in mapped pages: {}", host.kv().is_mapped(buffer));
    let given = 4096 - cache.0.borrow().len();
    println!("the cache gave back enough: {}", given >= 256);
    println!("and kept the rest: {}", given < 1024);
    println!("freed: {} bytes", cpu.kvfree(buffer)?);
    drop(cpu);
    host.engine().verify()?;
    Ok(())
}
