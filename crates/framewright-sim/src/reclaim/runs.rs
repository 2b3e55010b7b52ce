//! The pages that clients drop when a run is taken, and the run itself.

use super::op::{USER, mood};
use super::world::{POISON, ReclaimModel, World};
use crate::difference::differ;
use crate::frame::ModelFrame as FrameState;
use framewright::Mobility;
use framewright::reclaim::Discard;

impl World<'_, '_> {
    /// A client drops clean contents: every third of its blocks, by their stamps. The engine frees
    /// them before it calls any other client.
    pub(super) fn discard(&self, client: usize, blocks: &mut [Discard]) {
        let is = self.enter(client, false);
        let mut model = self.model();
        for block in &mut *blocks {
            let at = model.frames.offset(block.frame);
            let must = FrameState::First(block.order, Mobility::Movable);
            if block.is_dropped || model.frames.state(at) != must {
                let state = model.frames.state(at);
                model.say(differ!(
                    "R2: {block:?} is to be dropped, which is {state:?}"
                ));
            }
            let Some(object) = model.objects.get(&at).copied() else {
                continue;
            };
            let is_clean = object.stamp.is_multiple_of(3);
            let is_free = !object.held && object.pinned.is_none();
            let knows = usize::from(object.owner) == client && is & mood::FORGETS == 0;
            if !(is_clean && is_free && knows) || is & mood::REFUSES != 0 {
                continue;
            }
            let contents = model.check_contents(at, &object);
            model.say(contents);
            model.objects.remove(&at);
            let frames = block.order.frames();
            if let Err(error) = model.frames.free(at, block.order) {
                model.say(differ!("{error:?} after {block:?}"));
            }
            model.ram[at..at + frames as usize].fill(POISON);
            model.freed += frames;
            model.calls.dropped += frames;
            block.is_dropped = true;
        }
        drop(model);
        if is & mood::EXCHANGES != 0 {
            blocks.reverse();
        }
        self.leave();
    }
}

impl ReclaimModel {
    /// Records a run that was taken: as the fewest aligned blocks, each of which is a user's.
    pub(super) fn own_run(&mut self, at: usize, frames: usize) {
        let mobility = Mobility::Unmovable;
        self.frames.alloc_run(at, frames, mobility);
        let blocks = self.frames.covering(at, frames);
        for (at, order) in blocks.into_iter().flatten() {
            self.allocated[mobility.index()] += order.frames();
            self.put(at, order, mobility, USER);
        }
    }
}
