//! The account of a lock.

/// The account of a lock, or of all locks of one name, since they were made.
///
/// Zero unless the owner accounts its locks. That is a mode of running, because it reads a clock
/// twice each time that a lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockStats {
    /// Times it was taken.
    pub acquisitions: u64,
    /// Times another CPU held it: the CPU that wanted it waited, or, for a pageblock's lock, went
    /// elsewhere.
    pub contended: u64,
    /// The longest that it was held, in nanoseconds, preemption included.
    pub hold_ns_max: u64,
}

impl LockStats {
    /// Adds the account of another lock of the same name.
    pub fn add(&mut self, other: &Self) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
        self.hold_ns_max = self.hold_ns_max.max(other.hold_ns_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_locks_events_are_added_and_the_longer_hold_counts() {
        let mut sum = LockStats {
            acquisitions: 1,
            contended: 2,
            hold_ns_max: 30,
        };
        sum.add(&LockStats {
            acquisitions: 10,
            contended: 20,
            hold_ns_max: 5,
        });
        let expected = LockStats {
            acquisitions: 11,
            contended: 22,
            hold_ns_max: 30,
        };
        assert_eq!(sum, expected);
    }
}
