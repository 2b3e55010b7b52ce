//! One history under each fallback policy: which pageblocks are broken into?
//!
//! Movable frames fill memory, some are freed, and unmovable ones come. A pageblock with one unmovable
//! frame can no longer be emptied.
//!
//! `cargo run -p framewright-examples --bin policy`

use framewright::engine::{Engine, EngineLayout};
use framewright::platform::SingleThread;
use framewright::policy::{Config, Fallback};
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    for fallback in Fallback::ALL {
        let config = Config {
            fallback,
            ..Config::default()
        };
        let layout = EngineLayout::new(Frame(0), 64 * 512).with_config(config);
        let mut metadata = vec![0; layout.words_needed()?];
        let engine = Engine::new(&layout, &mut metadata, SingleThread::new())?;
        engine.add(Run::new(Frame(0), 64 * 512).ok_or("a run ends inside the numbers")?)?;
        let mut cpu = engine.cpu(CpuId(0))?;
        let mut alloc = |mobility| cpu.alloc(Order::ZERO, mobility, Context::ANY);
        let movable: Vec<Frame> = std::iter::from_fn(|| alloc(Mobility::Movable).ok()).collect();
        // Every seventh page goes, and eight pages side by side where there is a multiple of 500.
        for (nth, frame) in movable.iter().enumerate() {
            if nth % 7 == 0 || nth % 500 < 8 {
                cpu.free(*frame, Order::ZERO)?;
            }
        }
        for _ in 0..400 {
            cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)?;
        }
        let zone = &engine.zones()[0];
        let is_contaminated = |nth: &usize| zone.pageblock(*nth).nonmovable() > 0;
        let contaminated = (0..zone.pageblocks()).filter(is_contaminated).count();
        println!(
            "{:<22}{contaminated} pageblocks contaminated",
            fallback.name()
        );
    }
    println!("the default is {}", Config::default().fallback.name());
    Ok(())
}
