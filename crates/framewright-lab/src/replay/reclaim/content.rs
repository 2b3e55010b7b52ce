//! What each object holds (a file's copy, a program's page, a huge page), guessed from the request's flags: reclaim
//! may take only the first. The guess is in one place because every figure of stalls depends on it.

use crate::trace::{InitClass, OpKind, Trace};
use framewright::{Context, Mobility};

/// What an object of a recording holds, as far as the recording tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ObjectContent {
    /// Unmovable or reclaimable: the kernel's own. Which of it a shrinker could free, no recording
    /// says, so none of it is given back.
    Kernel,
    /// Movable, and a program's own: it can be moved, but there is no device to page it out to.
    Anonymous,
    /// Movable, and a copy of what a file has: it can be moved, and given back.
    Cache,
}

// Linux 6.18's numbers, which the readers translate every name to.
const IO: u32 = 1 << 6;
const FS: u32 = 1 << 7;
const DIRECT_RECLAIM: u32 = 1 << 10;
const WRITE: u32 = 1 << 12;
const NORETRY: u32 = 1 << 16;
const NOMEMALLOC: u32 = 1 << 19;

/// Frames of a huge page.
const HUGE: u64 = 512;

impl ObjectContent {
    /// What a request with these flags is for.
    ///
    /// A movable request is for the page cache if it is to be written to (`__GFP_WRITE`), gives up
    /// rather than try again (`__GFP_NORETRY`: reading ahead, and folios larger than they need be),
    /// or must not enter a file system (no `__GFP_FS`: a file system's own metadata). Programs' pages
    /// have none of these, but huge ones may have all; they alone must not use the emergency reserves
    /// (`__GFP_NOMEMALLOC`). Without flags it counts as a program's: what is not known to be in a file
    /// is not thrown away.
    #[must_use]
    pub const fn of_request(mobility: Mobility, flags: Option<u32>) -> Self {
        if !mobility.is_movable() {
            return Self::Kernel;
        }
        match flags {
            Some(flags) if flags & NOMEMALLOC != 0 => Self::Anonymous,
            Some(flags) if flags & (WRITE | NORETRY) != 0 || flags & FS == 0 => Self::Cache,
            _ => Self::Anonymous,
        }
    }

    /// What the initial objects hold, by id.
    ///
    /// Page flags say of a movable frame only that it is movable. A naturally aligned run of 512
    /// movable frames of which the trace frees none is taken for a huge page of a program; every
    /// other movable frame for page cache.
    #[must_use]
    pub fn of_initial(trace: &Trace) -> Vec<Self> {
        let mut is_freed = vec![false; trace.init.len()];
        for op in &trace.ops {
            if matches!(op.kind(), OpKind::Free | OpKind::FreePart)
                && let Some(freed) = is_freed.get_mut(op.value as usize)
            {
                *freed = true;
            }
        }
        let mut staying = vec![0u64; trace.nframes.div_ceil(HUGE) as usize];
        for (object, &is_freed) in trace.init.iter().zip(&is_freed) {
            if object.class == InitClass::Movable
                && !is_freed
                && let Some(block) = staying.get_mut((object.frame.0 / HUGE) as usize)
            {
                *block += 1;
            }
        }
        let of = |object: &crate::trace::InitObject| {
            let staying = staying.get((object.frame.0 / HUGE) as usize);
            match object.class {
                InitClass::Unmovable | InitClass::Slab => Self::Kernel,
                InitClass::Movable if staying == Some(&HUGE) => Self::Anonymous,
                InitClass::Movable => Self::Cache,
            }
        };
        trace.init.iter().map(of).collect()
    }

    /// What all objects of the trace hold, by id.
    #[must_use]
    pub fn of_all(trace: &Trace) -> Vec<Self> {
        let mut contents = Self::of_initial(trace);
        let allocs = trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc);
        contents.extend(allocs.map(|op| {
            let flags = trace.gfp.get(usize::from(op.gfp)).copied();
            Self::of_request(op.mobility(), flags)
        }));
        contents
    }
}

/// What a request with these flags may wait for; without flags, for anything.
#[must_use]
pub const fn context_of(flags: Option<u32>) -> Context {
    let Some(flags) = flags else {
        return Context::ANY;
    };
    if flags & DIRECT_RECLAIM == 0 {
        return Context::NOWAIT;
    }
    Context {
        may_io: flags & IO != 0,
        may_fs: flags & FS != 0,
        ..Context::ANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{InitObject, TraceOp};
    use framewright::{Frame, Order};

    #[test]
    fn a_movable_request_is_for_the_cache_if_its_flags_are_those_of_reading_or_writing_files() {
        let of = |flags| ObjectContent::of_request(Mobility::Movable, Some(flags));
        // As the recordings have them: written to, a large folio, read ahead, a file system's block.
        for flags in [0x14_1cca, 0x15_3cca, 0x15_2c4a, 0x14_8c48] {
            assert_eq!(of(flags), ObjectContent::Cache, "{flags:#x}");
        }
        // Zeroed, copied on write, huge.
        for flags in [0x14_0dca, 0x14_0cca, 0x3d_24ca, 0x1c_24ca] {
            assert_eq!(of(flags), ObjectContent::Anonymous, "{flags:#x}");
        }
        assert_eq!(
            ObjectContent::of_request(Mobility::Movable, None),
            ObjectContent::Anonymous
        );
        for mobility in [Mobility::Unmovable, Mobility::Reclaimable] {
            assert_eq!(
                ObjectContent::of_request(mobility, Some(0x14_1cca)),
                ObjectContent::Kernel
            );
        }
    }

    #[test]
    fn what_may_reclaim_and_where_it_may_go_stands_in_the_flags() {
        assert_eq!(context_of(None), Context::ANY);
        assert_eq!(context_of(Some(0xcc0)), Context::ANY);
        assert_eq!(context_of(Some(0xc40)), Context::NOFS);
        assert_eq!(context_of(Some(0xc00)), Context::NOIO);
        assert_eq!(context_of(Some(0x2800)), Context::NOWAIT);
    }

    #[test]
    fn an_initial_run_of_512_movable_frames_that_stays_is_a_huge_page_and_other_ones_are_cache() {
        let mut trace = Trace {
            nframes: 4 * 512,
            ..Trace::default()
        };
        let object = |frame, class| InitObject {
            frame: Frame(frame),
            class,
        };
        // Whole and staying; whole but one frame goes; not whole; and a slab frame.
        for frame in (0..1024).chain(1024..1030) {
            trace.init.push(object(frame, InitClass::Movable));
        }
        trace.init.push(object(1030, InitClass::Slab));
        trace.ops.push(TraceOp::free(700, Order::ZERO, 0));
        let contents = ObjectContent::of_all(&trace);
        assert!(
            contents[..512]
                .iter()
                .all(|&c| c == ObjectContent::Anonymous)
        );
        assert!(
            contents[512..1030]
                .iter()
                .all(|&c| c == ObjectContent::Cache)
        );
        assert_eq!(contents[1030..], [ObjectContent::Kernel]);
    }
}
