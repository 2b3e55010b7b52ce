//! The column of what compaction moved. What moves together was allocated together and lies side by side, so a number is
//! kept as its difference from that of the entry before.

use super::varint;
use crate::trace::TraceMove;
use framewright::Order;

/// The most bytes of a move: five numbers.
pub(super) const MOVE_BYTES: u64 = 50;

/// Bits of an entry's third number: the order, then whether it is known where to, then the offset.
const ORDER_BITS: u32 = 4;
const IS_KNOWN: u64 = 1 << ORDER_BITS;
const OFFSET_BITS: u32 = ORDER_BITS + 1;

/// The numbers of the entry before.
#[derive(Default)]
struct LastMove {
    at: u32,
    object: u32,
    from: u32,
    to: u32,
}

/// Reads the column. Whether what it says can be is for [`MoveCheck`](crate::trace::in_memory::MoveCheck).
pub(super) fn parse(mut bytes: &[u8]) -> Result<Vec<TraceMove>, String> {
    let mut moves = Vec::new();
    let mut last = LastMove::default();
    while !bytes.is_empty() {
        let moved = last.take(&mut bytes).ok_or_else(|| {
            let nth = moves.len();
            format!("the column `moves` ends too early or is damaged at entry {nth}")
        })?;
        moves.push(moved);
    }
    Ok(moves)
}

impl LastMove {
    fn take(&mut self, bytes: &mut &[u8]) -> Option<TraceMove> {
        let passed = varint::take(bytes)?;
        self.at = u32::try_from(u64::from(self.at).checked_add(passed)?).ok()?;
        self.object = differing(self.object, bytes)?;
        let part = varint::take(bytes)?;
        self.from = differing(self.from, bytes)?;
        if part & IS_KNOWN != 0 {
            self.to = differing(self.to, bytes)?;
        }
        Some(TraceMove {
            at: self.at,
            object: self.object,
            offset: u32::try_from(part >> OFFSET_BITS).ok()?,
            order: Order::new((part & (IS_KNOWN - 1)) as u8)?,
            from: self.from,
            to: (part & IS_KNOWN != 0).then_some(self.to),
        })
    }
}

fn differing(from: u32, bytes: &mut &[u8]) -> Option<u32> {
    let by = varint::take_signed(bytes)?;
    u32::try_from(i64::from(from).checked_add(by)?).ok()
}

/// The column. That the moves can be has been checked.
pub(super) fn column(moves: &[TraceMove]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = LastMove::default();
    let put_differing = |bytes: &mut Vec<u8>, last: &mut u32, now: u32| {
        varint::put_signed(bytes, i64::from(now) - i64::from(*last));
        *last = now;
    };
    for moved in moves {
        varint::put(&mut bytes, u64::from(moved.at - last.at));
        last.at = moved.at;
        put_differing(&mut bytes, &mut last.object, moved.object);
        let is_known = if moved.to.is_some() { IS_KNOWN } else { 0 };
        let order = u64::from(moved.order.get());
        varint::put(
            &mut bytes,
            u64::from(moved.offset) << OFFSET_BITS | is_known | order,
        );
        put_differing(&mut bytes, &mut last.from, moved.from);
        if let Some(to) = moved.to {
            put_differing(&mut bytes, &mut last.to, to);
        }
    }
    bytes
}
