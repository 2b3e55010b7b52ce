//! Moves that are offered to clients together, and what the clients answer.

use crate::reclaim::{Migrate, Move, MoveState};
use crate::units::{Frame, Order};

/// Moves offered to clients at a time: enough that a client's work for a whole batch costs each move little.
pub(super) const BATCH: usize = 64;
const _: () = assert!(BATCH <= 64, "a place in a batch is a bit");

/// Moves to be offered together: of the engine's own, by ten bytes each.
///
/// It lies on the stack of a request that may come from deep in a kernel, beside [what a client sees](Self::offer). So a
/// batch has one owner, which fills it again for the next moves.
pub(super) struct MoveBatch {
    /// The first frame of the zone, from which a frame's number has 32 bits, as in a CPU's caches.
    base: Frame,
    from: [u32; BATCH],
    to: [u32; BATCH],
    orders: [Order; BATCH],
    states: [MoveState; BATCH],
    pub(super) len: usize,
}

impl MoveBatch {
    /// Room for moves in a zone whose first frame is `base`.
    #[inline(always)]
    pub(super) const fn new(base: Frame) -> Self {
        Self {
            base,
            from: [0; BATCH],
            to: [0; BATCH],
            orders: [Order::ZERO; BATCH],
            states: [MoveState::Unknown; BATCH],
            len: 0,
        }
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    const fn frame(&self, number: u32) -> Frame {
        Frame(self.base.0 + number as u64)
    }

    /// The number of a frame of the zone. `None` for one that cannot be in it.
    fn number(&self, frame: Frame) -> Option<u32> {
        u32::try_from(frame.0.checked_sub(self.base.0)?).ok()
    }

    #[inline(always)]
    pub(super) const fn get(&self, nth: usize) -> Move {
        Move {
            from: self.frame(self.from[nth]),
            to: self.frame(self.to[nth]),
            order: self.orders[nth],
            state: self.states[nth],
        }
    }

    pub(super) fn moves(&self) -> impl DoubleEndedIterator<Item = Move> + Clone {
        (0..self.len).map(|nth| self.get(nth))
    }

    /// Adds the block at frame `offset` of the zone.
    pub(super) fn add(&mut self, offset: usize, order: Order) {
        let number = offset as u32;
        (self.from[self.len], self.to[self.len]) = (number, number);
        self.orders[self.len] = order;
        self.states[self.len] = MoveState::Unknown;
        self.len += 1;
    }

    /// Sets the target of the `nth` move: the block at frame `offset` of the zone.
    pub(super) const fn set_target(&mut self, nth: usize, offset: u32) {
        self.to[nth] = offset;
    }

    /// Keeps the moves for which `is_kept` is true, in their order, as if the others had never been
    /// in the batch.
    pub(super) fn keep(&mut self, mut is_kept: impl FnMut(&Move) -> bool) {
        let before = self.len;
        self.len = 0;
        for nth in 0..before {
            if is_kept(&self.get(nth)) {
                self.add(self.from[nth] as usize, self.orders[nth]);
            }
        }
    }

    /// Offers to each client the moves that no client before it knew. A client never sees the
    /// others' moves. Of those that it sees, it changes states, and may exchange targets. Its
    /// answer counts for the source beside which it stands (R8); a source that it took out stays,
    /// with its own target.
    pub(super) fn offer(&mut self, movers: &[&dyn Migrate]) {
        let mut offered = [Move {
            from: Frame(0),
            to: Frame(0),
            order: Order::ZERO,
            state: MoveState::Unknown,
        }; BATCH];
        for mover in movers {
            let mut places = 0;
            let mut len = 0;
            for nth in 0..self.len {
                if self.states[nth] == MoveState::Unknown {
                    places |= 1 << nth;
                    offered[len] = self.get(nth);
                    len += 1;
                }
            }
            if len == 0 {
                return;
            }
            let asked = AskedMoves {
                batch: self,
                places,
                offered: &mut offered[..len],
            };
            mover.migrate(asked.offered);
        }
    }
}

/// Moves that a client has been asked about. Dropping this takes its answers over, also if it unwound: what
/// it had said until then is true of those blocks (R2).
struct AskedMoves<'b> {
    batch: &'b mut MoveBatch,
    /// Where they stand in the batch: a bit for each place.
    places: u64,
    /// What the client sees of them, and may change.
    offered: &'b mut [Move],
}

impl AskedMoves<'_> {
    /// The client's answer for the source that stands `nth` among those it was asked about, at that place of the batch.
    fn answer(&self, (nth, place): (usize, usize)) -> Option<&Move> {
        let from = self.batch.frame(self.batch.from[place]);
        answer_for(self.offered, nth, |seen| seen.from == from)
    }

    /// Whether the client has given the sources each other's targets: each target once, for a source of its order. So no target that
    /// a client makes up is freed, and none twice.
    fn is_exchange(&self) -> bool {
        let mut unused = self.places;
        bits(self.places).enumerate().all(|at| {
            let Some(seen) = self.answer(at) else {
                return false;
            };
            let (order, number) = (self.batch.orders[at.1], self.batch.number(seen.to));
            let is_it =
                |&of: &usize| self.batch.orders[of] == order && Some(self.batch.to[of]) == number;
            // Mostly it is the source's own.
            let own = Some(at.1).filter(|of| unused >> of & 1 != 0 && is_it(of));
            let of = own.or_else(|| bits(unused).find(is_it));
            unused &= !of.map_or(0, |of| 1 << of);
            of.is_some()
        })
    }
}

impl Drop for AskedMoves<'_> {
    fn drop(&mut self) {
        let mut are_changed = false;
        for at in bits(self.places).enumerate() {
            let own = self.batch.frame(self.batch.to[at.1]);
            let answer = self.answer(at).map(|seen| (seen.state, seen.to));
            if let Some((state, _)) = answer {
                self.batch.states[at.1] = state;
            }
            are_changed |= answer.is_none_or(|(_, to)| to != own);
        }
        if !are_changed || !self.is_exchange() {
            return;
        }
        for at in bits(self.places).enumerate() {
            let number = self.answer(at).and_then(|seen| self.batch.number(seen.to));
            self.batch.to[at.1] = number.unwrap_or(self.batch.to[at.1]);
        }
    }
}

/// The places of a word's bits, the lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let place = (word != 0).then_some(word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(place)
    })
}

/// A client's answer for the `nth` thing that it was asked about: mostly at that place, else
/// wherever the client has left it. `None` if the client has removed it.
pub(super) fn answer_for<T>(answers: &[T], nth: usize, is_it: impl Fn(&T) -> bool) -> Option<&T> {
    let at_its_place = answers.get(nth).filter(|answer| is_it(answer));
    at_its_place.or_else(|| answers.iter().find(|answer| is_it(answer)))
}
