//! The kernel's events as they come: bytes of a pipe that never waits in, events out, a bounded piece at a time.

use crate::record::RecordError;
use crate::trace::{Input, TextReader, TraceEvent};
use std::io::{self, Cursor, Read};

/// The most that one look takes from a pipe. At ten looks a second it is some 35,000 events a second, which cost less than
/// a tenth of a CPU; what comes faster is overwritten and counted as lost.
const LOOK_BYTES_MAX: usize = 512 << 10;
/// The longest line that is waited for to end.
const LINE_BYTES_MAX: usize = 64 << 10;
/// What the kernel gives at a time is a page at most.
const PIECE_BYTES: usize = 16 << 10;

/// A pipe of events, and the piece of a line that it has given last.
#[derive(Debug)]
pub(crate) struct EventPipe<R> {
    from: R,
    waiting: Vec<u8>,
    reader: Option<TextReader>,
    unread: u64,
}

impl<R: Read> EventPipe<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            waiting: Vec::new(),
            reader: None,
            unread: 0,
        }
    }

    /// Lines that could not be read.
    pub(crate) const fn unread(&self) -> u64 {
        self.unread
    }

    /// Gives what is there, at most so much that a look stays short. Each event comes with its task's name, where the
    /// kernel knows it still.
    pub(crate) fn look(
        &mut self,
        mut take: impl FnMut(&TraceEvent, Option<&[u8]>),
    ) -> Result<(), RecordError> {
        self.fill()?;
        let Some(end) = memchr::memrchr(b'\n', &self.waiting) else {
            if self.waiting.len() > LINE_BYTES_MAX {
                self.waiting.clear();
                self.unread += 1;
            }
            return Ok(());
        };
        let rest = self.waiting.split_off(end + 1);
        let lines = std::mem::replace(&mut self.waiting, rest);
        let reader = self.read(lines)?;
        let mut unread = 0;
        loop {
            match reader.next_event() {
                Ok(Some(event)) => {
                    let name = reader.take_asked().comm;
                    let name = name.and_then(|place| reader.names().comms().get(place as usize));
                    take(&event, name);
                }
                Ok(None) => break,
                // It is one line; the next ones can be read.
                Err(_) => unread += 1,
            }
        }
        self.unread += unread;
        Ok(())
    }

    fn fill(&mut self) -> Result<(), RecordError> {
        let limit = self.waiting.len() + LOOK_BYTES_MAX;
        while self.waiting.len() < limit {
            let have = self.waiting.len();
            self.waiting.resize(have + PIECE_BYTES, 0);
            let got = self.from.read(&mut self.waiting[have..]);
            self.waiting.truncate(have + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(RecordError::File(format!("the kernel's events: {error}")));
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, lines: Vec<u8>) -> Result<&mut TextReader, RecordError> {
        let input = |bytes: Vec<u8>| {
            Input::from_reader("the kernel's events", Cursor::new(bytes))
                .map_err(|e| RecordError::Trace(e.to_string()))
        };
        match self.reader.take() {
            Some(mut reader) => {
                reader.go_on(input(lines)?);
                Ok(self.reader.insert(reader))
            }
            None => {
                // It says which text follows where the first line is no event.
                let text = [b"# tracer: nop\n", &lines[..]].concat();
                Ok(self.reader.insert(TextReader::new(input(text)?)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::EventKind;
    use framewright::Mobility;
    use std::collections::VecDeque;

    /// A kernel whose text comes in these pieces; where one is empty a reader would have to wait.
    struct FakePipe(VecDeque<Vec<u8>>);

    impl Read for FakePipe {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front() {
                Some(mut piece) if !piece.is_empty() => {
                    let take = piece.len().min(out.len());
                    out[..take].copy_from_slice(&piece[..take]);
                    if take < piece.len() {
                        self.0.push_front(piece.split_off(take));
                    }
                    Ok(take)
                }
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    fn pipe(pieces: &[&str]) -> EventPipe<FakePipe> {
        let pieces = pieces.iter().map(|piece| piece.as_bytes().to_vec());
        EventPipe::new(FakePipe(pieces.collect()))
    }

    fn seen(pipe: &mut EventPipe<FakePipe>) -> Vec<(EventKind, Option<String>)> {
        let mut all = Vec::new();
        pipe.look(|event, name| {
            let name = name.map(|name| String::from_utf8_lossy(name).into_owned());
            all.push((event.kind, name));
        })
        .unwrap();
        all
    }

    #[test]
    fn events_come_once_their_lines_have_ended_and_lines_teach_the_next_ones() {
        let line = "     cc1-7       [001] .....    17.000001: ";
        let request = "mm_page_alloc: page=00000000aa pfn=0x80 order=3 migratetype=2 gfp_flags=GFP_HIGHUSER_MOVABLE\n";
        let fallback = "mm_page_alloc_extfrag: page=0 pfn=0x1 alloc_order=0 alloc_migratetype=2 fallback_migratetype=0\n";
        let mut pipe = pipe(&[
            "CPU:0 [LOST 12 EVENTS]\n",
            line,
            "",
            request,
            "garbage\n",
            "",
            &format!("    <...>-8       [001] .....    17.000002: {fallback}"),
        ]);
        let lost = seen(&mut pipe);
        assert_eq!(
            lost.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
            [EventKind::Lost(12)]
        );
        let request = seen(&mut pipe);
        assert!(matches!(request[0].0, EventKind::Alloc { .. }));
        assert_eq!(
            (request.len(), request[0].1.as_deref(), pipe.unread()),
            (1, Some("cc1"), 1)
        );
        // The request has shown that 2 is movable on this kernel, and that stays known in the next piece.
        let wanted = Mobility::Movable;
        let taken = Mobility::Unmovable;
        assert_eq!(
            seen(&mut pipe),
            [(EventKind::Extfrag { wanted, taken }, None)]
        );
        assert_eq!(seen(&mut pipe), []);
    }

    #[test]
    fn tp1_a_look_is_bounded_and_the_rest_comes_with_the_next_ones() {
        let line =
            "     cc1-7       [001] .....    17.000001: mm_page_free: page=0 pfn=0x80 order=0\n";
        let lines = 3 * LOOK_BYTES_MAX / line.len();
        let text = line.repeat(lines);
        let mut pipe = pipe(&[&text]);
        let first = seen(&mut pipe).len();
        assert!(first > 0 && first <= (LOOK_BYTES_MAX + PIECE_BYTES) / line.len());
        let mut all = first;
        for _ in 0..4 {
            all += seen(&mut pipe).len();
        }
        assert_eq!((all, pipe.unread()), (lines, 0));
    }

    #[test]
    fn a_line_that_never_ends_is_dropped_and_counted() {
        let mut pipe = pipe(&[&"x".repeat(LINE_BYTES_MAX + 1), "", "y"]);
        assert_eq!(seen(&mut pipe), []);
        assert_eq!(pipe.unread(), 1);
        assert!(pipe.waiting.is_empty());
    }
}
