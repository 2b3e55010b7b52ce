//! A seed that a run prints must mean the same sequence on every machine and in every later version, so the generator
//! is written here and not taken from a crate.

/// The small generator of tests, models, benchmarks and experiments: the same seed, the same numbers, on every machine.
///
/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014): 64 bits of state, period 2^64. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator for that seed; any seed will do.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias is below `bound / 2^64`.
    ///
    /// # Panics
    /// If `bound` is zero: there is no such number.
    #[inline]
    pub const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// A number below `bound`, which is not 0: what the next 64 bits leave when divided by it. Figures that were
    /// measured with a sequence of these keep it.
    #[inline]
    pub const fn remainder(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// The same for a place in something of that length.
    #[inline]
    pub const fn index(&mut self, len: usize) -> usize {
        self.remainder(len as u64) as usize
    }

    /// Puts the elements in an order that is drawn.
    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            of.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// True `percent` times in a hundred.
    #[inline]
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        // The reference implementation's first outputs for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
        let mut below = Random::new(3);
        assert!((0..1000).all(|_| below.below(7) < 7));
        assert!((0..1000).all(|_| below.remainder(7) < 7));
        let heads = (0..10_000).filter(|_| below.chance(30)).count();
        assert!((2800..3200).contains(&heads));
    }
}
