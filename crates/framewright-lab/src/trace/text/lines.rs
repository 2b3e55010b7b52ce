//! Lines out of one buffer, without an allocation a line: a text of gigabytes is read as fast as it comes.

use crate::trace::{Input, TraceError};

/// The longest line that is read, and the size of the one buffer: the kernel prints a line from
/// one page of at most 64 KiB, and reads are cheapest well above a pipe's 64 KiB.
pub(super) const LINE_BYTES_MAX: usize = 256 << 10;

/// One line of text.
#[derive(Debug, Clone, Copy)]
pub(in crate::trace) struct TextLine<'a> {
    /// Without its end, be it LF or CR LF.
    pub(in crate::trace) bytes: &'a [u8],
    /// Whether the end of the line was there; it is not where the input was cut off.
    pub(in crate::trace) is_ended: bool,
}

/// Cuts an input into lines inside one buffer, without copying or allocating per line.
#[derive(Debug)]
pub(in crate::trace) struct TextLines {
    input: Input,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// How far from `start` no line end was found.
    searched: usize,
    at_end: bool,
    number: u64,
}

impl TextLines {
    pub(in crate::trace) fn new(input: Input) -> Self {
        Self {
            input,
            buffer: vec![0; LINE_BYTES_MAX].into_boxed_slice(),
            start: 0,
            end: 0,
            searched: 0,
            at_end: false,
            number: 0,
        }
    }

    /// Goes on with another input, with the same buffer. What is left of the one before is dropped.
    pub(super) fn go_on(&mut self, input: Input) {
        self.input = input;
        self.start = 0;
        self.end = 0;
        self.searched = 0;
        self.at_end = false;
    }

    /// What error messages call the input.
    pub(in crate::trace) fn name(&self) -> &str {
        self.input.name()
    }

    /// The number of the line last returned, counted from 1.
    pub(in crate::trace) fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end. Reads on only when no whole line is in the buffer, so
    /// that a live pipe's lines come as they are written.
    ///
    /// # Errors
    /// If the input cannot be read, or a line is longer than the buffer; after an error there is
    /// no further line.
    pub(in crate::trace) fn next_line(&mut self) -> Result<Option<TextLine<'_>>, TraceError> {
        loop {
            let have = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &have[self.searched..]) {
                let from = self.start;
                let len_bytes = self.searched + at;
                self.start += len_bytes + 1;
                self.searched = 0;
                return Ok(Some(self.line(from, len_bytes, true)));
            }
            self.searched = have.len();
            if self.at_end {
                let from = self.start;
                let len_bytes = self.searched;
                self.start = self.end;
                self.searched = 0;
                return Ok((len_bytes > 0).then(|| self.line(from, len_bytes, false)));
            }
            self.refill()?;
        }
    }

    fn line(&mut self, from: usize, len_bytes: usize, is_ended: bool) -> TextLine<'_> {
        self.number += 1;
        let bytes = &self.buffer[from..from + len_bytes];
        TextLine {
            bytes: match bytes {
                [head @ .., b'\r'] if is_ended => head,
                _ => bytes,
            },
            is_ended,
        }
    }

    fn refill(&mut self) -> Result<(), TraceError> {
        if self.end - self.start == self.buffer.len() {
            let message =
                format!("the line is longer than {LINE_BYTES_MAX} bytes, expected a line of text");
            let error = TraceError::at_line(self.name(), self.number + 1, message);
            self.stop();
            return Err(error);
        }
        // What is left is the head of one line; moving it leaves the most room to read into, and
        // happens once for each line, however small the pieces are that arrive.
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.at_end = true,
            Ok(n) => self.end += n,
            Err(error) => {
                self.stop();
                return Err(error);
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.start = self.end;
        self.searched = 0;
        self.at_end = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};

    /// Gives its bytes a few at a time, as a pipe does.
    struct DrippedBytes(Cursor<Vec<u8>>, usize);

    impl Read for DrippedBytes {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let n = out.len().min(self.1);
            self.0.read(&mut out[..n])
        }
    }

    fn lines(text: &[u8], piece_bytes: usize) -> Vec<(Vec<u8>, bool)> {
        let input =
            Input::from_reader("t", DrippedBytes(Cursor::new(text.to_vec()), piece_bytes)).unwrap();
        let mut lines = TextLines::new(input);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push((line.bytes.to_vec(), line.is_ended));
        }
        all
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let text = b"one\n\ntwo\r\n\xff\xfe three\nfour";
        let whole = lines(text, usize::MAX);
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[2], (b"two".to_vec(), true));
        assert_eq!(whole[4], (b"four".to_vec(), false));
        for piece_bytes in 1..9 {
            assert_eq!(lines(text, piece_bytes), whole);
        }
        assert!(lines(b"", 1).is_empty());
    }

    #[test]
    fn lines_survive_the_move_to_the_front_of_the_buffer() {
        let mut text = Vec::new();
        for i in 0..60_000 {
            text.extend_from_slice(format!("line {i}\n").as_bytes());
        }
        assert!(text.len() > 2 * LINE_BYTES_MAX);
        let all = lines(&text, 10_007);
        assert_eq!(all.len(), 60_000);
        assert!(
            all.iter()
                .enumerate()
                .all(|(i, l)| l.0 == format!("line {i}").as_bytes() && l.1)
        );
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_an_error_that_names_it() {
        let mut text = b"short\n".to_vec();
        text.resize(text.len() + LINE_BYTES_MAX + 1, b'x');
        let input = Input::from_reader("t", Cursor::new(text)).unwrap();
        let mut lines = TextLines::new(input);
        assert!(lines.next_line().unwrap().is_some());
        let error = lines.next_line().unwrap_err();
        assert_eq!(
            error.to_string(),
            "t:2: the line is longer than 262144 bytes, expected a line of text"
        );
        assert!(lines.next_line().unwrap().is_none());
    }
}
