//! Events that a thread of their own reads ahead, so that one CPU reads text while another one makes objects of its events.

use super::{TextReader, WhoAsked};
use crate::trace::{TraceError, TraceEvent};
use std::sync::mpsc::{self, SyncSender};
use std::{mem, panic, thread};

/// An event, with what the text says beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadEvent {
    pub(crate) event: TraceEvent,
    pub(crate) asked: WhoAsked,
    /// The line it stands in, from 1; of pages, which record it is.
    pub(crate) line: u64,
}

/// Events of a batch: handing it over costs little for each.
const BATCH: usize = 1024;
/// Batches that wait. What is read ahead stays below a megabyte.
const AHEAD: usize = 8;

impl TextReader {
    /// Hands each event to `take`, in order, and gives the reader back behind the last one.
    ///
    /// Events reach `take` in batches, so those of a live pipe come late. If `take` fails, this does not wait for the
    /// thread that reads: it ends with the next batch that it has read, or with the process.
    ///
    /// # Errors
    /// What `take` says; else, as `fault`, what [`next_event`](Self::next_event) says of the first line that it refuses.
    pub(crate) fn read_ahead<E>(
        self,
        fault: impl FnOnce(TraceError) -> E,
        mut take: impl FnMut(&ReadEvent) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (to, batches) = mpsc::sync_channel(AHEAD);
        let reading = thread::spawn(move || self.send_all(&to));
        for batch in batches {
            batch.iter().try_for_each(&mut take)?;
        }
        let end = reading.join();
        end.unwrap_or_else(|panicked| panic::resume_unwind(panicked))
            .map_err(fault)
    }

    /// Reads to the end, or until the receiver is gone.
    fn send_all(mut self, to: &SyncSender<Vec<ReadEvent>>) -> Result<Self, TraceError> {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let read = self.next_event();
            if let Ok(Some(event)) = read {
                batch.push(ReadEvent {
                    event,
                    asked: self.take_asked(),
                    line: self.line_number(),
                });
                if batch.len() < BATCH {
                    continue;
                }
            }
            // What stands before a refused line comes before the refusal.
            let is_wanted = to.send(mem::take(&mut batch)).is_ok();
            match read {
                Ok(Some(_)) if is_wanted => batch.reserve(BATCH),
                Ok(_) => return Ok(self),
                Err(refused) => return Err(refused),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Input;
    use std::io::{self, Read};
    use std::sync::mpsc::Receiver;

    const EVENTS: u64 = 3 * BATCH as u64 + 7;

    fn text(events: u64) -> String {
        let line = |nth| {
            format!(
                "    cat-7 [000] ..... 1.{nth:06}: mm_page_free: page=00000000aa pfn={nth:#x} order=0\n"
            )
        };
        (0..events).map(line).collect()
    }

    fn reader(text: impl Read + Send + 'static) -> TextReader {
        TextReader::new(Input::from_reader("t", text).unwrap())
    }

    #[test]
    fn every_event_comes_in_order_as_one_by_one() {
        let text = text(EVENTS);
        let mut one_by_one = reader(io::Cursor::new(text.clone()));
        let mut count = 0;
        let ahead = reader(io::Cursor::new(text)).read_ahead(
            |fault| fault.to_string(),
            |read| {
                let event = one_by_one.next_event().unwrap().unwrap();
                assert_eq!((read.event, read.asked), (event, one_by_one.take_asked()));
                assert_eq!(read.line, one_by_one.line_number());
                count += 1;
                Ok(())
            },
        );
        assert_eq!(count, EVENTS);
        let ahead = ahead.unwrap();
        assert_eq!(one_by_one.next_event(), Ok(None));
        assert_eq!(ahead.counts(), one_by_one.counts());
        assert_eq!(ahead.names().comms().len(), 1);
    }

    #[test]
    fn what_stands_before_a_refused_line_is_taken_first() {
        let bad = text(EVENTS)
            + "    cat-7 [000] ..... 9.0: mm_page_free: page=00000000aa pfn=no order=0\n";
        let mut count = 0;
        let refused = reader(io::Cursor::new(bad)).read_ahead(
            |fault| fault.to_string(),
            |_| {
                count += 1;
                Ok(())
            },
        );
        assert_eq!(count, EVENTS);
        let refused = refused.unwrap_err();
        assert!(
            refused.starts_with(&format!("t:{}: ", EVENTS + 1)),
            "{refused}"
        );
    }

    /// Text, and then nothing for as long as the other end lives.
    struct Stalling(io::Cursor<String>, Receiver<()>);

    impl Read for Stalling {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            match self.0.read(to)? {
                0 => {
                    let _ = self.1.recv();
                    Ok(0)
                }
                read => Ok(read),
            }
        }
    }

    #[test]
    fn a_taker_that_fails_waits_for_nothing() {
        let (other_end, stalled) = mpsc::channel();
        let stalling = Stalling(io::Cursor::new(text(EVENTS)), stalled);
        let failed = reader(stalling).read_ahead(
            |fault| fault.to_string(),
            |read| match read.line {
                5 => Err("full".to_owned()),
                _ => Ok(()),
            },
        );
        assert_eq!(failed.unwrap_err(), "full");
        drop(other_end);
    }
}
