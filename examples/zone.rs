//! A zone in a `Vec`: nothing but numbers is managed, so it needs no memory behind the frames.
//!
//! `cargo run -p framewright-examples --bin zone`

use framewright::engine::{Engine, EngineLayout};
use framewright::platform::SingleThread;
use framewright::{CpuId, Frame, Mobility, Order, Run};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // 64 MiB of frames from number 0x8000 on. The layout says how much metadata it takes.
    let layout = EngineLayout::new(Frame(0x8000), 16384);
    let mut metadata = vec![0; layout.words_needed()?];
    println!("metadata: {} KiB", metadata.len() * 8 / 1024);

    let engine = Engine::new(&layout, &mut metadata, SingleThread::new())?;
    engine.add(Run::new(Frame(0x8000), 16384).ok_or("a run ends inside the numbers")?)?;

    let mut cpu = engine.cpu(CpuId(0))?;
    let stack = Order::new(2).ok_or("2 is an order")?;
    // The last argument is the context. The default is the one in which a request may wait.
    let one = cpu.alloc(stack, Mobility::Unmovable, Default::default())?;
    let two = cpu.alloc(stack, Mobility::Unmovable, Default::default())?;
    println!("two stacks: frames {one} and {two}");

    // A block is freed once, by its first frame, with the order that it was allocated with.
    cpu.free(one, stack)?;
    for (frame, order) in [
        (one, stack),
        (two, Order::ZERO),
        (Frame(two.0 + 1), Order::ZERO),
    ] {
        match cpu.free(frame, order) {
            Ok(()) => return Err("a wrong free was not refused".into()),
            Err(error) => println!("refused: {error}"),
        }
    }
    cpu.free(two, stack)?;

    engine.verify()?;
    let stats = engine.frame_stats();
    println!("free again: {} frames", stats.nr_free_pages);
    Ok(())
}
