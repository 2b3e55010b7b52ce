//! What a platform that maps gets of a source of frames: single frames for page tables, and nothing else.

use super::FrameSource;
use crate::platform::{OrElse, TableSource};
use crate::units::{Context, Frame, Run};

/// A source as the platform sees it while it maps: single frames for page tables, within a context.
pub(crate) struct FrameTables<'f, F> {
    frames: &'f mut F,
    context: Context,
}

impl<'f, F> FrameTables<'f, F> {
    #[inline(always)]
    pub(crate) const fn new(frames: &'f mut F, context: Context) -> Self {
        Self { frames, context }
    }
}

impl<F: FrameSource> TableSource for FrameTables<'_, F> {
    #[inline(always)]
    fn context(&self) -> Context {
        self.context
    }

    #[inline(never)] // or what it needs lies on the stack of each call that maps
    fn take_table(&mut self) -> Option<Frame> {
        let run = self.frames.alloc_run(1, self.context).ok()?;
        let others = run.frames().checked_sub(1)?;
        if others != 0 {
            // If a wait unwinds out of this, nothing else knows of the one that was wanted.
            let one = run.part(0, 1);
            let unwound = OrElse::new(self, |source: &mut Self| source.frames.free_run(one));
            unwound.seat.frames.free_run(run.part(1, others));
            unwound.end();
        }
        Some(run.start())
    }

    #[cold]
    fn give_back(&mut self, frame: Frame) {
        if let Some(run) = Run::new(frame, 1) {
            self.frames.free_run(run);
        }
    }

    #[cold]
    fn try_give_back(&mut self, frame: Frame) -> bool {
        self.frames.try_free(frame).is_ok()
    }
}

/// The frames of a source as one of page tables, for a platform that maps by itself within that context: in a call of the engine the
/// platform is handed one.
pub fn tables_of<F: FrameSource>(frames: &mut F, context: Context) -> impl TableSource {
    FrameTables::new(frames, context)
}
