//! What compaction costs for each frame moved, without the moving: the engine's own part.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench moves            # some seconds
//! cargo bench -p framewright-linux --bench moves -- --quick # 256 MiB
//! ```
//!
//! `--json FILE` appends the figures there, one a line. For profiles, `--order N` chooses the patterns of that order.
//!
//! 1 GiB of frames of 4 KiB full of movable single frames; of these a part is freed, at random or
//! every other one; then blocks are made until that is no longer possible. The client says of everything
//! that it has moved. Printed are nanoseconds for each frame moved and for each block made, the best of
//! the rounds and the median, and what was looked at. No figure fails the run.

#[path = "../frames/rows.rs"]
mod rows;

use framewright::frame::{Seat, ZoneLayout};
use framewright::platform::FramePlatform;
use framewright::policy::ReclaimConfig;
use framewright::reclaim::{Compaction, Migrate, Move, MoveState, Reclaim};
use framewright::{CpuId, Frame, Mobility, Order};
use framewright_linux::{Host, HostError, Linux, Options};
use framewright_sim::Random;
use std::time::Instant;

/// A client without contents anywhere.
struct NoContents;

impl Migrate for NoContents {
    fn migrate(&self, moves: &mut [Move]) {
        for of in moves {
            of.state = MoveState::Moved;
        }
    }
}

/// One line of the table.
struct MoveLine {
    name: &'static str,
    order: u8,
    /// Of a thousand frames this many are freed.
    freed_permille: usize,
    at_random: bool,
}

const CASES: [MoveLine; 5] = [
    case("every other free", 9, 500, false),
    case("half free, at random", 9, 500, true),
    case("a fifth free, at random", 9, 200, true),
    case("a fifth free, at random", 3, 200, true),
    case("half free, at random", 10, 500, true),
];

const fn case(name: &'static str, order: u8, freed_permille: usize, at_random: bool) -> MoveLine {
    MoveLine {
        name,
        order,
        freed_permille,
        at_random,
    }
}

/// How many blocks are made in one round at most.
const BLOCKS_MAX: u64 = 64;

/// What one round came to.
#[derive(Clone, Copy)]
struct RoundOutcome {
    ns: f64,
    blocks: u64,
    moved: u64,
    looks: u64,
}

fn main() {
    let is_quick = std::env::args().any(|arg| arg == "--quick");
    let (frames, rounds) = if is_quick { (1 << 16, 3) } else { (1 << 18, 7) };
    println!("{} MiB of 4 KiB frames, {rounds} rounds", frames >> 8);
    println!(
        "{:<26}{:>6}{:>8}{:>10}{:>14}{:>14}{:>14}",
        "pattern", "order", "blocks", "moved", "ns/frame", "(median)", "us/block"
    );
    let options = Options::new(ZoneLayout::new(Frame(0), frames).with_cpus(2));
    let only = std::env::args().skip_while(|arg| arg != "--order").nth(1);
    let is_chosen = |case: &&MoveLine| {
        only.as_ref()
            .is_none_or(|only| *only == case.order.to_string())
    };
    for case in CASES.iter().filter(is_chosen) {
        let outcomes: Vec<_> = (0..rounds)
            .map(|round| match Host::new(&options) {
                Ok(host) => measure(&host, case, round),
                Err(HostError::NoMembarrier) => {
                    measure::<()>(&Host::fenced(&options).expect("a host"), case, round)
                }
                Err(error) => panic!("{error}"),
            })
            .collect();
        print_line(case, outcomes);
    }
}

fn print_line(case: &MoveLine, mut outcomes: Vec<RoundOutcome>) {
    let each = |of: &RoundOutcome| of.ns / of.moved.max(1) as f64;
    outcomes.sort_by(|a, b| each(a).total_cmp(&each(b)));
    let at = format!("{}/{}", case.name.replace(',', ""), case.order);
    let each_ns: Vec<f64> = outcomes.iter().map(each).collect();
    rows::add(&at, "framewright", "frame_ns", "ns", &each_ns);
    let (best, median) = (outcomes[0], outcomes[outcomes.len() / 2]);
    println!(
        "{:<26}{:>6}{:>8}{:>10}{:>14.1}{:>14.1}{:>14.2}   {} looks",
        case.name,
        case.order,
        best.blocks,
        best.moved,
        each(&best),
        each(&median),
        best.ns / best.blocks.max(1) as f64 / 1000.0,
        best.looks
    );
}

fn measure<B: FramePlatform + Clone + Sync>(
    host: &Host<B>,
    case: &MoveLine,
    round: u64,
) -> RoundOutcome {
    let zone = host.zone();
    let mut words = vec![0; Reclaim::words_needed(zone)];
    let reclaim = Reclaim::new(zone, &ReclaimConfig::default(), &mut words).expect("memory");
    let mut seat = host.seat().expect("a slot");
    fill(&mut seat, case, round);
    let order = Order::new(case.order).expect("a case's order");
    let begin = Instant::now();
    let mut blocks = 0;
    while let Compaction::Captured(_) =
        reclaim.compact_ahead(&mut seat, order, Mobility::Movable, &[&NoContents])
    {
        blocks += 1;
        if blocks == BLOCKS_MAX {
            break;
        }
    }
    let ns = begin.elapsed().as_nanos() as f64;
    let stats = reclaim.stats();
    if round == 0 {
        zone.verify().expect("every invariant holds");
    }
    RoundOutcome {
        ns,
        blocks,
        moved: stats.pgmigrate_success,
        looks: stats.compact_migrate_scanned + stats.compact_free_scanned,
    }
}

/// Fills the zone and frees the case's part of it.
fn fill<B: FramePlatform>(seat: &mut Seat<'_, '_, Linux<B>>, case: &MoveLine, round: u64) {
    assert_eq!(seat.cpu(), CpuId(0));
    let mut random = Random::new(round);
    let mut held = Vec::new();
    while let Ok(frame) = seat.alloc(Order::ZERO, Mobility::Movable) {
        held.push(frame);
    }
    held.sort_unstable();
    let mut counted = 0;
    for frame in held {
        let is_freed = if case.at_random {
            random.remainder(1000) < case.freed_permille as u64
        } else {
            counted += case.freed_permille;
            counted % 1000 < case.freed_permille
        };
        if is_freed {
            seat.free(frame, Order::ZERO).expect("it was allocated");
        }
    }
    seat.zone().drain();
}
