//! Which objects are alive, kept in one place so that a free of what is not there means the same to every reader
//! and writer.

use framewright::Order;
use std::collections::BTreeMap;
use std::fmt;

/// Which of a trace's objects are alive, and how much of each.
///
/// This is what stands behind a [`super::Trace`]'s promise that a free refers to something that
/// is allocated: every reader and writer asks it. One byte an object, and an entry for each run
/// of frames freed out of a larger object.
#[derive(Debug, Clone, Default)]
pub struct Liveness {
    /// Per object its order, or [`DEAD`].
    state: Vec<u8>,
    /// What was freed of objects that are still partly alive: (object, first offset) to the
    /// offset behind the last one. Runs of one object neither overlap nor touch.
    freed: BTreeMap<(u32, u32), u32>,
}

/// No order is this large ([`Order::MAX`] is 20).
const DEAD: u8 = u8::MAX;

/// Why a free cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFree {
    /// There is no such object yet.
    Unknown {
        /// The object named.
        object: u32,
    },
    /// It would be older than the first object.
    BeforeFirst {
        /// How many objects before the newest it would be.
        back: u64,
    },
    /// It was freed before, as a whole or in parts.
    Dead {
        /// The object named.
        object: u32,
    },
    /// It has another order.
    Order {
        /// The object named.
        object: u32,
        /// The order it was allocated with.
        allocated: Order,
        /// The order it was to be freed with.
        freed: Order,
    },
    /// Parts of it were freed before, and it was to be freed as a whole.
    Partly {
        /// The object named.
        object: u32,
    },
    /// The part is not aligned to its order, or reaches past the end of the object.
    Outside {
        /// The object named.
        object: u32,
        /// The part's first frame in the object.
        offset: u64,
        /// The part's order.
        order: Order,
    },
    /// Some of the part was freed before.
    PartTwice {
        /// The object named.
        object: u32,
        /// The part's first frame in the object.
        offset: u32,
    },
}

impl fmt::Display for BadFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { object } => {
                write!(f, "free of object {object}, which is not allocated yet")
            }
            Self::BeforeFirst { back } => write!(
                f,
                "free of the object {back} before the newest, which is older than the first"
            ),
            Self::Dead { object } => write!(f, "free of object {object}, which was freed before"),
            Self::Order {
                object,
                allocated,
                freed,
            } => write!(
                f,
                "free of object {object} with {freed}, which was allocated with {allocated}"
            ),
            Self::Partly { object } => write!(
                f,
                "free of the whole object {object}, of which parts were freed before"
            ),
            Self::Outside {
                object,
                offset,
                order,
            } => write!(
                f,
                "free of a part of object {object} at offset {offset} with {order}, which is not \
                 a block inside it"
            ),
            Self::PartTwice { object, offset } => write!(
                f,
                "free of a part of object {object} at offset {offset}, which was freed before"
            ),
        }
    }
}

impl std::error::Error for BadFree {}

impl Liveness {
    /// `objects` objects of order 0, all alive.
    #[must_use]
    pub fn new(objects: u32) -> Self {
        Self {
            state: vec![0; objects as usize],
            freed: BTreeMap::new(),
        }
    }

    /// The number of objects that there are or were; the next one gets this number.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.state.len()
    }

    /// The next object, of `order`.
    pub fn alloc(&mut self, order: Order) {
        self.state.push(order.get());
    }

    /// The order of an object of which at least a part is alive.
    #[must_use]
    pub fn order(&self, object: u32) -> Option<Order> {
        Order::new(*self.state.get(object as usize)?)
    }

    /// Whether all of the block of `order` at `offset` of an object is alive.
    #[must_use]
    pub fn has_block(&self, object: u32, offset: u32, order: Order) -> bool {
        let Some(whole) = self.order(object) else {
            return false;
        };
        let (start, frames) = (u64::from(offset), order.frames());
        if !start.is_multiple_of(frames) || start + frames > whole.frames() {
            return false;
        }
        // Both are inside an object of at most 2^20 frames.
        let end = offset + frames as u32;
        let freed = self.freed.range(..(object, end)).next_back();
        freed.is_none_or(|(&(of, _), &to)| of != object || to <= offset)
    }

    /// Frees a whole object.
    ///
    /// # Errors
    /// If it is not wholly alive, or has another order; nothing has changed then.
    pub fn free(&mut self, object: u32, order: Order) -> Result<(), BadFree> {
        let allocated = self.alive(object)?;
        if allocated != order {
            return Err(BadFree::Order {
                object,
                allocated,
                freed: order,
            });
        }
        if !self.freed.is_empty() && self.first_freed(object).is_some() {
            return Err(BadFree::Partly { object });
        }
        self.state[object as usize] = DEAD;
        Ok(())
    }

    /// Frees 2^order frames at `offset` of an object; the object is dead with its last frame.
    ///
    /// # Errors
    /// If the part is not a block inside the object, or any of it is not alive; nothing has
    /// changed then.
    pub fn free_part(&mut self, object: u32, offset: u64, order: Order) -> Result<(), BadFree> {
        let frames = self.alive(object)?.frames();
        let outside = BadFree::Outside {
            object,
            offset,
            order,
        };
        if !offset.is_multiple_of(order.frames()) || offset >= frames || order.frames() > frames {
            return Err(outside);
        }
        // Objects have at most 2^20 frames, and an aligned block that starts inside ends inside.
        let (Ok(mut start), Ok(mut end)) = (
            u32::try_from(offset),
            u32::try_from(offset + order.frames()),
        ) else {
            return Err(outside);
        };
        let twice = BadFree::PartTwice {
            object,
            offset: start,
        };
        let before = self.freed.range(..=(object, start)).next_back();
        let before = before.filter(|((o, _), _)| *o == object);
        let before = before.map(|(&(_, from), &to)| (from, to));
        let after = self.freed.range((object, start)..).next();
        let after = after.filter(|((o, _), _)| *o == object);
        let after = after.map(|(&(_, from), &to)| (from, to));
        if before.is_some_and(|(_, to)| to > start) || after.is_some_and(|(from, _)| from < end) {
            return Err(twice);
        }
        if let Some((from, to)) = after
            && from == end
        {
            self.freed.remove(&(object, from));
            end = to;
        }
        if let Some((from, to)) = before
            && to == start
        {
            self.freed.remove(&(object, from));
            start = from;
        }
        if u64::from(end - start) == frames {
            self.state[object as usize] = DEAD;
        } else {
            self.freed.insert((object, start), end);
        }
        Ok(())
    }

    fn alive(&self, object: u32) -> Result<Order, BadFree> {
        match self.state.get(object as usize) {
            None => Err(BadFree::Unknown { object }),
            Some(&state) => Order::new(state).ok_or(BadFree::Dead { object }),
        }
    }

    fn first_freed(&self, object: u32) -> Option<u32> {
        let (&(found, offset), _) = self.freed.range((object, 0)..).next()?;
        (found == object).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    #[test]
    fn an_object_freed_in_parts_is_dead_with_its_last_frame() {
        let mut live = Liveness::new(1);
        live.alloc(order(3));
        live.alloc(order(1));
        assert_eq!(live.free_part(1, 4, order(1)), Ok(()));
        assert_eq!(live.free_part(1, 0, order(2)), Ok(()));
        assert_eq!(live.free(1, order(3)), Err(BadFree::Partly { object: 1 }));
        assert_eq!(live.free(2, order(1)), Ok(()));
        assert_eq!(live.order(1), Some(order(3)));
        assert_eq!(live.free_part(1, 7, order(0)), Ok(()));
        assert_eq!(live.free_part(1, 6, order(0)), Ok(()));
        assert_eq!(live.order(1), None);
        assert!(live.freed.is_empty());
        assert_eq!(live.free(1, order(3)), Err(BadFree::Dead { object: 1 }));
    }

    #[test]
    fn what_cannot_be_freed_is_refused_and_changes_nothing() {
        let mut live = Liveness::new(2);
        live.alloc(order(2));
        live.free_part(2, 1, order(0)).unwrap();
        let before = format!("{live:?}");
        assert_eq!(live.free(3, order(0)), Err(BadFree::Unknown { object: 3 }));
        for (offset, n) in [(1, 1), (4, 0), (0, 3), (u64::MAX, 0)] {
            assert!(matches!(
                live.free_part(2, offset, order(n)),
                Err(BadFree::Outside { .. })
            ));
        }
        for (offset, n) in [(1, 0), (0, 1), (0, 2)] {
            assert!(matches!(
                live.free_part(2, offset, order(n)),
                Err(BadFree::PartTwice { .. })
            ));
        }
        assert!(matches!(
            live.free(0, order(1)),
            Err(BadFree::Order { object: 0, .. })
        ));
        assert_eq!(format!("{live:?}"), before);
    }

    /// Against a bitmap of every frame, in every order of frees of a small object.
    #[test]
    fn parts_agree_with_a_bitmap_of_frames() {
        for seed in 0..200u32 {
            let mut live = Liveness::new(0);
            live.alloc(order(3));
            live.alloc(order(3));
            let mut alive = [[true; 8]; 2];
            let mut random = seed.wrapping_mul(2_654_435_761) | 1;
            for _ in 0..40 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let object = random >> 31;
                let n = (random >> 24) as u8 % 4;
                let offset = (random >> 16) as usize % 8;
                let len_frames = 1 << n;
                let frames = &mut alive[object as usize];
                let fits = offset.is_multiple_of(len_frames) && offset + len_frames <= 8;
                let may = fits && frames[offset..offset + len_frames].iter().all(|&a| a);
                assert_eq!(live.has_block(object, offset as u32, order(n)), may);
                let freed = live.free_part(object, offset as u64, order(n));
                assert_eq!(freed.is_ok(), may);
                if may {
                    frames[offset..offset + len_frames].fill(false);
                }
                let any = frames.iter().any(|&a| a);
                assert_eq!(live.order(object).is_some(), any);
            }
        }
    }
}
