//! Several threads on a host: each has a seat of its own, and frames have contents.
//!
//! `cargo run -p framewright-examples --bin threads`

use framewright::platform::FramePlatform;
use framewright::{Context, Frame, Mobility, Order};
use framewright_linux::{Host, HostError, Options};
use std::error::Error;
use std::thread;

const THREADS: u16 = 4;
const FRAMES: u64 = 16384;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::of_frames(FRAMES).with_threads(THREADS);
    match Host::new(&options) {
        Ok(host) => run(&host),
        Err(HostError::NoMembarrier) => run(&Host::fenced(&options)?),
        Err(error) => Err(error.into()),
    }
}

fn run<B: FramePlatform + Clone + Sync>(host: &Host<B>) -> Result<(), Box<dyn Error>> {
    // All threads take frames until there are none, and write their number into each.
    let frames: Vec<Frame> = thread::scope(|scope| {
        let workers = (0..THREADS).map(|number| scope.spawn(move || take_all(host, number as u8)));
        let workers: Vec<_> = workers.collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_default())
            .collect()
    });
    println!(
        "{} of {FRAMES} frames were had by {THREADS} threads",
        frames.len()
    );

    // Then one thread frees them all.
    let mut cpu = host.cpu()?;
    for frame in frames {
        cpu.free(frame, Order::ZERO)?;
    }
    host.engine().verify()?;
    println!("free again: {} frames", host.zone().stats().nr_free_pages);
    Ok(())
}

fn take_all<B: FramePlatform + Clone>(host: &Host<B>, number: u8) -> Vec<Frame> {
    let mut frames = Vec::new();
    // More threads than slots would be an error here; there are as many.
    let Ok(mut cpu) = host.cpu() else {
        return frames;
    };
    while let Ok(frame) = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY) {
        if host.ram().write(frame, &[number; 4096]).is_ok() {
            frames.push(frame);
        }
    }
    frames
}
