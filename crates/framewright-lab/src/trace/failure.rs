//! Which failure a recording waits for, as the user writes it and as an event has it.

use super::{EventKind, RequestTraits, TraceEvent};
use framewright::Order;
use std::fmt;
use std::str::FromStr;

/// Which failing request ends a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndingFailure {
    /// One of this order.
    OfOrder(Order),
    /// One whose failure the kernel prints: it has no `__GFP_NOWARN`.
    Reported,
}

impl EndingFailure {
    /// The order that the request must have, if one is asked for.
    #[must_use]
    pub const fn order(self) -> Option<Order> {
        match self {
            Self::OfOrder(order) => Some(order),
            Self::Reported => None,
        }
    }

    /// The order of the request, if the event is such a failure.
    #[must_use]
    pub fn order_of(self, event: &TraceEvent) -> Option<Order> {
        let EventKind::Alloc {
            frame: None,
            order,
            gfp,
            ..
        } = event.kind
        else {
            return None;
        };
        let ends = match self {
            Self::OfOrder(wanted) => order == wanted,
            Self::Reported => RequestTraits::of(gfp).is_reported,
        };
        ends.then_some(order)
    }
}

impl FromStr for EndingFailure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected an order from 0 to {}, or reported",
                Order::MAX.get()
            )
        };
        if text == "reported" {
            return Ok(Self::Reported);
        }
        let order = text.parse().ok().and_then(Order::new);
        order.map(Self::OfOrder).ok_or_else(expected)
    }
}

impl fmt::Display for EndingFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfOrder(order) => write!(f, "of {order}"),
            Self::Reported => f.write_str("that the kernel reports"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Input, TextReader};

    /// The order of the first failure in the text that ends a recording.
    fn first(ends: EndingFailure, text: &str) -> Option<u8> {
        let input = Input::from_reader("test", std::io::Cursor::new(text.to_owned())).unwrap();
        let mut reader = TextReader::new(input);
        while let Some(event) = reader.next_event().unwrap() {
            if let Some(order) = ends.order_of(&event) {
                return Some(order.get());
            }
        }
        None
    }

    #[test]
    fn a_failure_ends_it_by_its_order_or_by_its_flags() {
        let line = |order, flags| {
            format!(
                "    cat-7 [000] ..... 1.000000: mm_page_alloc: page=(null) pfn=0xffffffffffffffff order={order} migratetype=0 gfp_flags={flags}\n"
            )
        };
        let served = "    cat-7 [000] ..... 1.000000: mm_page_alloc: page=00000000aa pfn=0x80 order=3 migratetype=0 gfp_flags=GFP_KERNEL\n";
        let quiet =
            served.to_owned() + &line(3, "GFP_KERNEL|__GFP_NOWARN") + &line(2, "GFP_NOWAIT");
        let order = |order| EndingFailure::OfOrder(Order::new(order).unwrap());
        assert_eq!(first(order(3), &quiet), Some(3));
        assert_eq!(first(order(1), &quiet), None);
        assert_eq!(first(order(3), served), None, "it was served");
        assert_eq!(first(EndingFailure::Reported, &quiet), None);
        let loud = quiet + &line(2, "GFP_ATOMIC|__GFP_COMP");
        assert_eq!(first(EndingFailure::Reported, &loud), Some(2));
    }

    #[test]
    fn what_ends_a_recording_is_an_order_or_a_word() {
        assert_eq!("reported".parse(), Ok(EndingFailure::Reported));
        let order = Order::new(3).unwrap();
        assert_eq!("3".parse(), Ok(EndingFailure::OfOrder(order)));
        for wrong in ["", "-1", "99", "three", "Reported"] {
            let error = wrong.parse::<EndingFailure>().unwrap_err();
            assert!(
                error.starts_with("expected an order from 0 to 20, or "),
                "{error}"
            );
        }
    }
}
