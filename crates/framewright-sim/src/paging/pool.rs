//! Frames as a source behind a space. They come in short scattered pieces, which is the worst that a source may do.

use super::{Paging, PagingLie};
use crate::MachineCall;
use framewright::frame::{AllocError, FrameSource};
use framewright::{Context, Frame, Run};

/// The pool of a [`Paging`]'s frames: scattered pieces of one to eight frames.
#[derive(Clone, Copy, Debug)]
pub struct PoolFrames<'p>(pub &'p Paging);

impl FrameSource for PoolFrames<'_> {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self.0).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        self.0.pool_frames.into()
    }

    fn frames_free(&self) -> u64 {
        self.0.free_frames()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        let paging = self.0;
        let state = &mut *paging.state.borrow_mut();
        paging.check_context(state, "alloc_run", Some(context));
        if frames == 0 {
            state.record(|| "a run of no frames was asked for".to_owned());
        }
        if paging.machine.is_hit(MachineCall::Frames) || state.free_frames == 0 {
            return Err(AllocError::Exhausted);
        }
        let pool = paging.pool_frames as usize;
        // Each time at another place, so that frames that come back are not taken next.
        state.cursor = (state.cursor + 1 + state.random.below(16) as usize) % pool;
        let is_free = |at: &usize| !state.frames[*at].is_taken;
        let start = (state.cursor..pool)
            .chain(0..state.cursor)
            .find(is_free)
            .expect("a frame is free");
        let want = frames.clamp(1, 1 + state.random.below(8)) as usize;
        let end = (start..pool.min(start + want))
            .find(|&at| state.frames[at].is_taken)
            .unwrap_or(pool.min(start + want));
        for physical in &mut state.frames[start..end] {
            physical.is_taken = true;
            physical.contents ^= 0x5a5a_5a5a;
            physical.contents |= 1;
        }
        let taken = (end - start) as u64;
        state.free_frames -= taken;
        Ok(Run::new(Frame(start as u64), taken).expect("a small number"))
    }

    /// Every third run that comes back takes a while.
    fn slow_calls(&self) -> u64 {
        self.0.state.borrow().runs_back / 3
    }

    fn free_run(&mut self, frames: Run) {
        let paging = self.0;
        let state = &mut *paging.state.borrow_mut();
        state.runs_back += 1;
        for frame in frames.start().0..frames.end().0 {
            let physical = match state.frames.get(frame as usize) {
                Some(&physical) if frame < u64::from(paging.pool_frames) => physical,
                _ => {
                    state.record(|| {
                        format!("{} was given to a pool that never had it", Frame(frame))
                    });
                    continue;
                }
            };
            if !physical.is_taken {
                state.record(|| format!("V7: {} was given back twice", Frame(frame)));
                continue;
            }
            if physical.is_table {
                state.record(|| {
                    format!(
                        "{} was given back, and a page table lies in it",
                        Frame(frame)
                    )
                });
            }
            if physical.entries > 0 {
                state.record(|| format!("V5: {} was given back and is mapped", Frame(frame)));
            }
            if state.tlbs.iter().any(|tlb| tlb.reaches(Frame(frame))) {
                state
                    .record(|| format!("V5: {} was given back and a TLB reaches it", Frame(frame)));
            }
            if !paging.lies(PagingLie::LoseFrames) {
                state.frames[frame as usize].is_taken = false;
                state.free_frames += 1;
            }
        }
    }
}
