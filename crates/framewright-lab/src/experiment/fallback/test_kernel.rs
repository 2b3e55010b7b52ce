//! A kernel as simple as one can be: free frames below a mark are reclaimed, and no block is made of
//! frames. What the phone is tested on by itself.

use crate::before::buddy::{LinuxBuddy, LinuxBuddyConfig, LinuxPolicy};
use crate::experiment::fallback::params::PhoneMachine;
use crate::pressure::{Frees, Kernel, LISTS, PressureRequest, Tenants};
use crate::replay::ReplaySubject;
use framewright::reclaim::Ask;
use framewright::stats::ReclaimStats;
use framewright::{Context, CpuId, Frame, Order};

/// Rounds of reclaim before a request fails.
const ROUNDS: u32 = 64;

pub(super) struct PlainKernel {
    buddy: LinuxBuddy,
    free: u64,
    low: u64,
    high: u64,
    is_awake: bool,
    stats: ReclaimStats,
}

/// What a shrinker gives goes straight to the lists.
struct Giving<'k> {
    buddy: &'k mut LinuxBuddy,
    freed: u64,
}

impl Frees for Giving<'_> {
    fn give(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.freed += order.frames();
        self.buddy.free(cpu, frame, order).expect("it is allocated");
    }
}

impl PlainKernel {
    pub(super) fn new(machine: &PhoneMachine) -> Self {
        let config = LinuxBuddyConfig {
            absent: &machine.absent(),
            pageblock_order: machine.pageblock_order,
            cpus: machine.cpus,
            per_cpu_lists: false,
            ..LinuxBuddyConfig::new(LinuxPolicy::Linux44, machine.frames())
        };
        Self {
            buddy: LinuxBuddy::new(&config).expect("the machine is one"),
            free: machine.present(),
            low: (machine.min_free_kib + machine.extra_free_kib) / 4,
            high: (machine.min_free_kib + machine.extra_free_kib) * 3 / 8,
            is_awake: false,
            stats: ReclaimStats::default(),
        }
    }

    /// Other watermarks, in frames.
    pub(super) fn set_marks(&mut self, low: u64, high: u64) {
        (self.low, self.high) = (low, high);
    }

    fn reclaim(&mut self, tenants: &dyn Tenants, frames: u64, order: Order) -> [u64; 2] {
        let mut giving = Giving {
            buddy: &mut self.buddy,
            freed: 0,
        };
        let ask = Ask {
            wanted: frames,
            scan: frames * 2,
            order,
            context: Context::ANY,
        };
        let mut found = [0; 2];
        for shrinker in tenants.shrinkers() {
            if shrinker.holding() > 0 {
                let shrunk = shrinker.shrink(&mut giving, &ask);
                found = [found[0] + shrunk.scanned, found[1] + shrunk.freed];
            }
        }
        self.free += giving.freed;
        found
    }
}

impl Kernel for PlainKernel {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn alloc(&mut self, tenants: &dyn Tenants, request: PressureRequest) -> Option<Frame> {
        let PressureRequest {
            cpu,
            order,
            mobility,
            context,
        } = request;
        self.is_awake |= self.free < self.low;
        for round in 0..ROUNDS {
            if let Some(frame) = self.buddy.alloc(cpu, order, mobility) {
                self.free -= order.frames();
                return Some(frame);
            }
            if !context.may_reclaim || round > 8 && self.free > self.high * 4 {
                return None;
            }
            self.stats.allocstall[order.index()] += 1;
            let [scanned, freed] = self.reclaim(tenants, 32, order);
            self.stats.pgscan_direct += scanned;
            self.stats.pgsteal_direct += freed;
            if freed == 0 {
                return None;
            }
        }
        None
    }

    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.free += order.frames();
        self.buddy.free(cpu, frame, order).expect("it is allocated");
    }

    fn background_is_awake(&self) -> bool {
        self.is_awake
    }

    fn background(&mut self, tenants: &dyn Tenants, frames: u64) {
        let wanted = frames.min(self.high.saturating_sub(self.free));
        let [scanned, freed] = self.reclaim(tenants, wanted, Order::ZERO);
        self.stats.pgscan_kswapd += scanned;
        self.stats.pgsteal_kswapd += freed;
        self.is_awake = self.free < self.high;
    }

    fn stats(&self) -> ReclaimStats {
        self.stats
    }

    fn free_blocks(&self) -> [[u64; 11]; LISTS] {
        let [unmovable, movable, reclaimable] = self.buddy.free_blocks();
        [unmovable, reclaimable, movable, [0; 11], [0; 11]]
    }

    fn labels(&self) -> [u64; LISTS] {
        let [unmovable, movable, reclaimable] = self.buddy.labels();
        [unmovable, reclaimable, movable, 0, 0]
    }
}
