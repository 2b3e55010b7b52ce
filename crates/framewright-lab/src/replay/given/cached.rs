//! The free frames that lay on CPUs' lists when a recording began, as blocks on the list of one CPU.

use crate::trace::{OpKind, Trace};
use framewright::{CpuId, Frame, Order};

/// A block that lies on a CPU's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedBlock {
    /// Its first frame.
    pub frame: Frame,
    /// Its order.
    pub order: Order,
    /// The CPU.
    pub cpu: CpuId,
}

impl CachedBlock {
    /// Those of a recording, as far as it tells; each list begins with what it gives first.
    ///
    /// A frame lay with the CPU that took it first, by the recording kernel's choice of frames (`chosen`), and in a block of the
    /// order that was asked for. What was taken only after it had gone back to the free lists, or never, lies alone, with the CPU
    /// of the one before it.
    #[must_use]
    pub fn all(trace: &Trace, chosen: Option<&[u32]>) -> Vec<Self> {
        let mut is_cached = vec![false; trace.nframes as usize];
        let mut left = 0;
        for run in &trace.unlisted {
            if let Some(frames) = is_cached.get_mut(run.start().0 as usize..run.end().0 as usize) {
                frames.fill(true);
                left += run.frames();
            }
        }
        let mut blocks = Vec::new();
        let chosen = chosen.unwrap_or_default();
        let allocs = trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc);
        for (op, &frame) in allocs.zip(chosen) {
            if left == 0 {
                break;
            }
            let (first, frames) = (frame as usize, op.order().frames());
            let block = is_cached.get_mut(first..first + frames as usize);
            if let Some(block) = block.filter(|block| !block.contains(&false)) {
                block.fill(false);
                left -= frames;
                blocks.push(Self {
                    frame: Frame(u64::from(frame)),
                    order: op.order(),
                    cpu: CpuId(op.cpu()),
                });
            }
        }
        let mut by_frame: Vec<(u64, CpuId)> = blocks.iter().map(|b| (b.frame.0, b.cpu)).collect();
        by_frame.sort_unstable_by_key(|&(frame, _)| frame);
        for run in &trace.unlisted {
            for frame in run.start().0..run.end().0 {
                if is_cached.get(frame as usize) == Some(&true) {
                    let before = by_frame.partition_point(|&(of, _)| of < frame);
                    let near = before.checked_sub(1).and_then(|at| by_frame.get(at));
                    blocks.push(Self {
                        frame: Frame(frame),
                        order: Order::ZERO,
                        cpu: near.map_or(CpuId(0), |&(_, cpu)| cpu),
                    });
                }
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceOp;
    use framewright::{Mobility, Run};

    #[test]
    fn a_block_lies_with_the_cpu_that_took_it_first_and_the_rest_beside_what_is_near() {
        let alloc = |n: u8, cpu| {
            let order = Order::new(n).unwrap();
            TraceOp::alloc(false, order, Mobility::Movable, cpu, 255, 0)
        };
        let run = |start, frames| Run::new(Frame(start), frames).unwrap();
        let trace = Trace {
            nframes: 64,
            unlisted: vec![run(8, 8), run(40, 2)],
            // Of the order 2 at 8; of one on a free list; of two frames, of which one lay on a CPU's list; again of the first.
            ops: vec![
                alloc(2, 1),
                alloc(0, 0),
                alloc(1, 1),
                alloc(0, 0),
                alloc(0, 0),
            ],
            ..Trace::default()
        };
        let chosen = [8, 20, 14, 40, 8];
        let block = |frame, n, cpu| CachedBlock {
            frame: Frame(frame),
            order: Order::new(n).unwrap(),
            cpu: CpuId(cpu),
        };
        let all = CachedBlock::all(&trace, Some(&chosen));
        let expected = [
            block(8, 2, 1),
            block(14, 1, 1),
            block(40, 0, 0),
            block(12, 0, 1),
            block(13, 0, 1),
            block(41, 0, 0),
        ];
        assert_eq!(all, expected);
        // Without the choice nothing says which CPU.
        let all = CachedBlock::all(&trace, None);
        assert_eq!(all.len(), 10);
        assert!(
            all.iter()
                .all(|block| block.cpu == CpuId(0) && block.order == Order::ZERO)
        );
    }
}
