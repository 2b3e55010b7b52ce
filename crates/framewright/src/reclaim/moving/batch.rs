//! Moves that are offered to clients together, and what the clients answer.

use crate::reclaim::{Migrate, Move, MoveState};
use crate::units::{Frame, Order};

/// Moves offered to clients at a time: enough that a client's work for a whole batch costs each move little.
pub(super) const BATCH: usize = 64;
const _: () = assert!(BATCH <= 256, "a place in a batch is a byte");

/// Moves to be offered together.
///
/// It lies on the stack of a request that may come from deep in a kernel (1.5 KiB). What a client sees, and may change, is
/// as much again (see [`offer`](Self::offer)). So a batch has one owner, which fills it again for the next moves.
pub(super) struct MoveBatch {
    pub(super) moves: [Move; BATCH],
    pub(super) len: usize,
}

impl MoveBatch {
    pub(super) const EMPTY: Self = Self {
        moves: [Move {
            from: Frame(0),
            to: Frame(0),
            order: Order::ZERO,
            state: MoveState::Unknown,
        }; BATCH],
        len: 0,
    };

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn moves(&self) -> &[Move] {
        &self.moves[..self.len]
    }

    pub(super) fn add(&mut self, from: Frame, order: Order) {
        self.moves[self.len] = Move {
            from,
            to: from,
            order,
            state: MoveState::Unknown,
        };
        self.len += 1;
    }

    /// Keeps the moves for which `is_kept` is true, in their order, as if the others had never been
    /// in the batch.
    pub(super) fn keep(&mut self, mut is_kept: impl FnMut(&Move) -> bool) {
        let mut len = 0;
        for nth in 0..self.len {
            let of = self.moves[nth];
            if is_kept(&of) {
                self.moves[len] = Move {
                    to: of.from,
                    state: MoveState::Unknown,
                    ..of
                };
                len += 1;
            }
        }
        self.len = len;
    }

    /// Offers to each client the moves that no client before it knew. A client never sees the
    /// others' moves. Of those that it sees, it changes states, and may exchange targets. Its
    /// answer counts for the source beside which it stands (R8); a source that it took out stays,
    /// with its own target.
    pub(super) fn offer(&mut self, movers: &[&dyn Migrate]) {
        let mut places = [0u8; BATCH];
        let mut offered = Self::EMPTY;
        for mover in movers {
            offered.len = 0;
            for (nth, a_move) in self.moves().iter().enumerate() {
                if a_move.state == MoveState::Unknown {
                    places[offered.len] = nth as u8;
                    offered.moves[offered.len] = *a_move;
                    offered.len += 1;
                }
            }
            if offered.len == 0 {
                return;
            }
            let asked = AskedMoves {
                batch: self,
                places: &places[..offered.len],
                offered: &mut offered,
            };
            let len = asked.places.len();
            mover.migrate(&mut asked.offered.moves[..len]);
        }
    }
}

/// Moves that a client has been asked about. Dropping this takes its answers over, also if it unwound: what
/// it had said until then is true of those blocks (R2).
struct AskedMoves<'b> {
    batch: &'b mut MoveBatch,
    /// Where each of them stands in the batch.
    places: &'b [u8],
    offered: &'b mut MoveBatch,
}

impl Drop for AskedMoves<'_> {
    fn drop(&mut self) {
        let (moves, answers) = (&mut self.batch.moves, self.offered.moves());
        let (mut before, mut after) = (0u64, 0u64);
        for (nth, &place) in self.places.iter().enumerate() {
            let of = moves[usize::from(place)];
            before = before.wrapping_add(target_hash(of.to, of.order));
            let to = answer_for(answers, nth, |seen| seen.from == of.from).map(|seen| seen.to);
            after = after.wrapping_add(to.map_or(0, |to| target_hash(to, of.order)));
        }
        for (nth, &place) in self.places.iter().enumerate() {
            let of = &mut moves[usize::from(place)];
            let Some(seen) = answer_for(answers, nth, |seen| seen.from == of.from) else {
                continue;
            };
            of.state = seen.state;
            if before == after {
                of.to = seen.to;
            }
        }
    }
}

/// A client's answer for the `nth` thing that it was asked about: mostly at that place, else
/// wherever the client has left it. `None` if the client has removed it.
pub(super) fn answer_for<T>(answers: &[T], nth: usize, is_it: impl Fn(&T) -> bool) -> Option<&T> {
    let at_its_place = answers.get(nth).filter(|answer| is_it(answer));
    at_its_place.or_else(|| answers.iter().find(|answer| is_it(answer)))
}

/// The sum of these is equal for the same targets in another sequence, and hardly for other
/// targets: so targets that a client makes up are not freed.
const fn target_hash(to: Frame, order: Order) -> u64 {
    // SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
    let mut z = to.0 ^ (order.get() as u64) << 56;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
