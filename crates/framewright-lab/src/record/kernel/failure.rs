//! The second instance of a flight recorder, which sees failures alone and tells when to stop.

use super::{Instance, Tracefs};
use crate::record::RecordError;
use crate::trace::{EndingFailure, Input, TextReader};
use framewright::Order;
use std::fmt;

/// Looks for the failure that ends a recording, in an instance that traces failures alone. So a look costs by what has
/// failed since the last one, and flags are read by their names, whose numbers differ between kernels.
#[derive(Debug)]
pub(crate) struct FailureWatch<'t> {
    instance: Instance<'t>,
    ends: EndingFailure,
    /// Failures that earlier looks have seen.
    seen: u64,
}

impl<'t> FailureWatch<'t> {
    pub(crate) fn new(tracefs: &'t Tracefs, ends: EndingFailure) -> Result<Self, RecordError> {
        let instance = Instance::make_for_failures(tracefs, ends.order())?;
        Ok(Self {
            instance,
            ends,
            seen: 0,
        })
    }

    /// Looks from here on. What fails before the recording has begun would end it without being in it.
    pub(crate) fn start(&self) -> Result<(), RecordError> {
        self.instance.set_tracing(true)
    }

    /// The order of a failure that ends the recording and its time in nanoseconds, if there was one.
    pub(crate) fn look(&mut self) -> Result<Option<(Order, u64)>, RecordError> {
        let fill = self.instance.fill()?;
        let failed = fill.events + fill.overwritten;
        if failed == self.seen {
            return Ok(None);
        }
        self.seen = failed;
        let text = Input::from_reader("the kernel's failures", self.instance.text()?);
        let trace = |error: &dyn fmt::Display| RecordError::Trace(error.to_string());
        let mut reader = TextReader::new(text.map_err(|e| trace(&e))?);
        while let Some(event) = reader.next_event().map_err(|e| trace(&e))? {
            if let Some(order) = self.ends.order_of(&event) {
                return Ok(Some((order, event.time_ns)));
            }
        }
        Ok(None)
    }
}

/// Refuses to wait for an order that this kernel does not have: it turns such requests down without an event.
pub(crate) fn check_order(ends: EndingFailure, buddyinfo: &str) -> Result<(), RecordError> {
    let zone = buddyinfo
        .lines()
        .next()
        .and_then(|line| line.split_once("zone"));
    // The zone's name, and a column an order.
    let orders = zone.map_or(0, |(_, words)| words.split_whitespace().skip(1).count());
    match ends.order() {
        Some(order) if orders > 0 && order.index() >= orders => Err(RecordError::Options(format!(
            "--until-failure {}: this kernel has orders 0 to {}, expected one of them",
            order.get(),
            orders - 1
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_the_kernel_does_not_have_is_not_waited_for() {
        let text = "Node 0, zone      DMA      0      0      1      2\n";
        let check = |order| check_order(EndingFailure::OfOrder(Order::new(order).unwrap()), text);
        check(3).unwrap();
        let error = check(4).unwrap_err().to_string();
        assert_eq!(
            error,
            "--until-failure 4: this kernel has orders 0 to 3, expected one of them"
        );
        check_order(EndingFailure::Reported, text).unwrap();
        check_order(EndingFailure::OfOrder(Order::MAX), "").unwrap();
    }
}
