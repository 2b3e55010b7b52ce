//! What reclaim and compaction have counted.

use super::PerOrder;
use crate::units::Order;
use core::fmt;

/// What reclaim and compaction have counted, under Linux's names.
///
/// A snapshot: plain numbers, taken counter by counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReclaimStats {
    /// Requests that reclaimed before they were served or failed, by order (`allocstall`).
    pub allocstall: PerOrder,
    /// Frames that the background had clients look at.
    pub pgscan_kswapd: u64,
    /// Frames that requests had clients look at.
    pub pgscan_direct: u64,
    /// Frames that clients gave back to the background.
    pub pgsteal_kswapd: u64,
    /// Frames that clients gave back to requests.
    pub pgsteal_direct: u64,
    /// Times the background was woken.
    pub kswapd_wake: u64,
    /// Times it was woken again before a short sleep was over, because it was below the low
    /// watermark at once.
    pub kswapd_low_wmark_hit_quickly: u64,
    /// Times it found itself below the high watermark when the short sleep was over.
    pub kswapd_high_wmark_hit_quickly: u64,
    /// Requests that had memory compacted.
    pub compact_stall: u64,
    /// Of these, requests that found a block afterwards.
    pub compact_success: u64,
    /// Of these, requests that did not.
    pub compact_fail: u64,
    /// Times the background began to compact.
    pub compact_daemon_wake: u64,
    /// Looks of the migrate scanner: one for the descriptor of a pageblock that it passes by, and
    /// one for each frame of a pageblock that it goes through.
    pub compact_migrate_scanned: u64,
    /// Looks of the free scanner, likewise.
    pub compact_free_scanned: u64,
    /// Frames taken out of use by either scanner: sources offered to clients, and targets.
    pub compact_isolated: u64,
    /// Frames with contents that moved.
    pub pgmigrate_success: u64,
    /// Frames with contents that stayed.
    pub pgmigrate_fail: u64,
}

impl ReclaimStats {
    /// Requests that stalled: of all orders (`allocstall` as Linux had it when it was one number).
    #[must_use]
    pub fn allocstalls(&self) -> u64 {
        self.allocstall.iter().sum()
    }

    /// Adds another zone's counters.
    pub fn add(&mut self, other: &Self) {
        for (sum, other) in self.allocstall.iter_mut().zip(other.allocstall) {
            *sum += other;
        }
        for ((_, sum), (_, other)) in self.named_mut().into_iter().zip(other.named()) {
            *sum += other;
        }
    }

    /// What was counted since an `earlier` snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (now, then) in since.allocstall.iter_mut().zip(earlier.allocstall) {
            *now = now.saturating_sub(then);
        }
        for ((_, now), (_, then)) in since.named_mut().into_iter().zip(earlier.named()) {
            *now = now.saturating_sub(then);
        }
        since
    }

    /// Every counter but the stalls by order, with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 16] {
        let mut copy = *self;
        copy.named_mut().map(|(name, value)| (name, *value))
    }

    fn named_mut(&mut self) -> [(&'static str, &mut u64); 16] {
        macro_rules! named {
            ($($name:ident),*) => { [$((stringify!($name), &mut self.$name)),*] };
        }
        named!(
            pgscan_kswapd,
            pgscan_direct,
            pgsteal_kswapd,
            pgsteal_direct,
            kswapd_wake,
            kswapd_low_wmark_hit_quickly,
            kswapd_high_wmark_hit_quickly,
            compact_stall,
            compact_success,
            compact_fail,
            compact_daemon_wake,
            compact_migrate_scanned,
            compact_free_scanned,
            compact_isolated,
            pgmigrate_success,
            pgmigrate_fail
        )
    }
}

/// As `/proc/vmstat` lists them: a name and a number on each line; the stalls by order as the
/// document's kernel did (`allocstall_order_2 7`), up to the largest order that had one.
impl fmt::Display for ReclaimStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "allocstall {}", self.allocstalls())?;
        let last = self.allocstall.iter().rposition(|&stalls| stalls > 0);
        for order in 0..=last.unwrap_or(0).min(Order::MAX.index()) {
            writeln!(f, "allocstall_order_{order} {}", self.allocstall[order])?;
        }
        self.named()
            .iter()
            .try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_listing_names_each_counter_once_and_stalls_up_to_the_largest_order() {
        let mut stats = ReclaimStats {
            compact_stall: 3,
            ..ReclaimStats::default()
        };
        stats.allocstall[2] = 7;
        let text = stats.to_string();
        assert!(text.starts_with(
            "allocstall 7\nallocstall_order_0 0\nallocstall_order_1 0\nallocstall_order_2 7\npgscan_kswapd 0\n"
        ));
        assert_eq!(text.matches("compact_stall 3\n").count(), 1);
        assert_eq!(text.lines().count(), 4 + 16);
    }

    #[test]
    fn what_was_counted_since_a_snapshot_and_the_snapshot_add_up() {
        let mut earlier = ReclaimStats::default();
        earlier.allocstall[3] = 2;
        for (_, counter) in earlier.named_mut() {
            *counter = 5;
        }
        let mut now = earlier;
        now.allocstall[0] = 4;
        now.pgmigrate_fail = 11;
        let mut sum = now.since(&earlier);
        assert_eq!((sum.allocstall[3], sum.pgmigrate_fail), (0, 6));
        sum.add(&earlier);
        assert_eq!(sum, now);
    }

    #[test]
    fn adding_twice_doubles_every_counter() {
        let mut one = ReclaimStats::default();
        for (nth, (_, value)) in one.named_mut().into_iter().enumerate() {
            *value = nth as u64 + 1;
        }
        one.allocstall = [5; 21];
        let mut two = one;
        two.add(&one);
        for ((name, one), (_, two)) in one.named().into_iter().zip(two.named()) {
            assert_eq!(two, 2 * one, "{name}");
        }
        assert_eq!(two.allocstalls(), 210);
    }
}
