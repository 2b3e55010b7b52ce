//! The policies of one space as plain values.

/// The policies of one space, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeConfig {
    /// The most pages that may be lazy, plus one batch for each CPU; an eighth of the window, if
    /// that is less, and in an `Engine` a 32nd of its frames, holes included, if that is less:
    /// frames behind lazy pages serve no request.
    pub lazy_pages_max: u64,
    /// In a strict space, a free of a `vmalloc`ed area that would leave more pages lazy than this first purges its CPU's
    /// own, because frames behind lazy pages serve no request and grow cold. More than `lazy_pages_max` counts as that.
    pub lazy_frames_max: u64,
    /// Whether a new vmap block goes in front in its CPU's list of blocks with room: the newest block is then tried first,
    /// and older ones keep their holes for ever, as in Linux until 2015; here so that the difference can be shown. Else it
    /// goes behind: the oldest block with room serves a request, so that blocks fill up and retire \[R. Pen, "fix possible
    /// exhaustion of vmalloc space caused by vm_map_ram allocator", 2015\].
    pub newest_first: bool,
    /// Whether slots of a vmap block are used again as soon as their flush generation has passed;
    /// if not, a block is used again only as a whole, when all its slots are dirty, as in Linux:
    /// then a request of up to 64 pages can fail although slots are free.
    pub recycle: bool,
    /// Whether CPUs take spans from the arena for small areas; if not, each area is cut from the
    /// arena, under its lock.
    pub spans: bool,
    /// Whether each free unmaps its area before it returns, as Linux clears the page tables: then an access after a free
    /// faults, unless the CPU still has a translation. If not, freed areas stay mapped until a purge, and `vmalloc`ed
    /// ones that are kept serve the next request in nanoseconds instead of calls of the platform.
    pub strict: bool,
    /// The most pages of freed areas that a CPU keeps with their frames for the next request of the same length, and
    /// the most that lie between the CPUs, if there are several; 0 for none. A kept area is mapped, in a strict space unmapped and
    /// flushed; there, in an `Engine`, all CPUs together keep at most a 32nd of the frames that exist.
    pub kept_pages_max: u64,
}

impl RangeConfig {
    /// Strict, as Linux is, with spans and recycling, for `cpus` CPUs: at most 32 MiB lazy for each doubling of the
    /// CPUs, as Linux has it (`lazy_max_pages`), and 2 MiB for each CPU where frames are behind, so that a CPU's cache
    /// still has most of a frame when it comes back. A CPU alone keeps as many pages as one of several reaches, its own and those
    /// between the CPUs.
    #[must_use]
    pub const fn for_cpus(cpus: u16) -> Self {
        let cpus = if cpus == 0 { 1 } else { cpus };
        let doublings = (u16::BITS - cpus.leading_zeros()) as u64;
        Self {
            lazy_pages_max: doublings * 8192,
            lazy_frames_max: cpus as u64 * 512,
            newest_first: false,
            recycle: true,
            spans: true,
            strict: true,
            kept_pages_max: if cpus == 1 { 4096 } else { 2048 },
        }
    }

    /// The same, but not strict: freed areas stay mapped for a while.
    #[must_use]
    pub const fn kept(self) -> Self {
        Self {
            strict: false,
            ..self
        }
    }
}

impl Default for RangeConfig {
    fn default() -> Self {
        Self::for_cpus(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_alone_reaches_as_many_kept_pages_as_one_of_several() {
        let kept = |cpus| RangeConfig::for_cpus(cpus).kept_pages_max;
        let between = |cpus| if cpus > 1 { kept(cpus) } else { 0 };
        let reached = |cpus| kept(cpus) + between(cpus);
        assert_eq!([1, 2, 64].map(reached), [4096; 3]);
        assert_eq!(RangeConfig::for_cpus(0), RangeConfig::for_cpus(1));
    }

    #[test]
    fn the_lazy_bound_grows_with_the_logarithm_of_the_cpus() {
        let bound = |cpus| RangeConfig::for_cpus(cpus).lazy_pages_max;
        assert_eq!(
            [bound(1), bound(2), bound(3), bound(64)],
            [8192, 16384, 16384, 57344]
        );
    }
}
