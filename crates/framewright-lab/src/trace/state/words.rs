//! What the readers of `/proc` have in common: a line in words, which knows its file and its number for errors.

use super::lead::LEAD_MARK;
use crate::printable;
use crate::trace::{TraceDigest, TraceError};

/// One line of a `/proc` file, for errors that say where.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcLine<'a> {
    pub(super) name: &'a str,
    pub(super) number: u64,
    pub(super) text: &'a str,
}

impl<'a> ProcLine<'a> {
    /// The lines of a text that are not blank, without a first one that says which trace the text belongs to and a
    /// second one that says how long before it that was; they count from 1.
    pub(super) fn all(name: &'a str, text: &'a str) -> impl Iterator<Item = Self> {
        let lines = (1..).zip(text.lines());
        let is_mark = |number, text: &str| match number {
            1 => text.starts_with(TraceDigest::MARK),
            _ => number == 2 && text.starts_with(LEAD_MARK),
        };
        lines
            .filter(move |&(number, text)| !text.trim().is_empty() && !is_mark(number, text))
            .map(move |(number, text)| Self { name, number, text })
    }

    pub(super) fn error(self, message: impl Into<String>) -> TraceError {
        TraceError::at_line(self.name, self.number, message)
    }

    pub(super) fn number(self, word: &str) -> Result<u64, TraceError> {
        let parsed = word.parse();
        parsed.map_err(|_| self.error(format!("'{}' is not a whole number", shown(word))))
    }

    /// `Node N, zone NAME` at the front: the node, the zone, the rest.
    pub(super) fn zone(self) -> Result<(u64, &'a str, &'a str), TraceError> {
        let parts = || {
            let (node, rest) = self.text.strip_prefix("Node")?.split_once(',')?;
            let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
            let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
            let (zone, rest) = rest.split_at(end);
            (!zone.is_empty()).then_some((node.trim(), zone, rest))
        };
        let Some((node, zone, rest)) = parts() else {
            let text = shown(self.text);
            return Err(self.error(format!("'{text}', expected 'Node N, zone NAME ...'")));
        };
        Ok((self.number(node)?, zone, rest))
    }
}

/// A word that may come from anywhere, short enough for a message.
pub(super) fn shown(word: &str) -> String {
    let head: String = word.chars().take(40).collect();
    printable::text(&head)
}
