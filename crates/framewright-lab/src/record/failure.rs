use super::{Instance, RecordError, Tracefs};
use crate::trace::{EndingFailure, Input, TextReader};
use framewright::Order;
use std::fmt;

/// Looks for the failure that ends a recording, in an instance that traces failures alone. So a look costs by what has
/// failed since the last one, and flags are read by their names, whose numbers differ between kernels.
#[derive(Debug)]
pub(super) struct FailureWatch<'t> {
    instance: Instance<'t>,
    ends: EndingFailure,
    /// Failures that earlier looks have seen.
    seen: u64,
}

impl<'t> FailureWatch<'t> {
    pub(super) fn new(tracefs: &'t Tracefs, ends: EndingFailure) -> Result<Self, RecordError> {
        let instance = Instance::make_for_failures(tracefs)?;
        Ok(Self {
            instance,
            ends,
            seen: 0,
        })
    }

    /// The order of a failure that ends the recording, if there was one.
    pub(super) fn look(&mut self) -> Result<Option<Order>, RecordError> {
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
                return Ok(Some(order));
            }
        }
        Ok(None)
    }
}
