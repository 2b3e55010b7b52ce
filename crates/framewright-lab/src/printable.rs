//! What comes from outside, as messages and outputs show it: a name, a word, a piece of a line.
//!
//! A terminal obeys some characters and reorders text at others, so that a message would say what
//! its input wants; both are shown by their numbers. What else is there stands as it is.

use std::path::Path;

/// Whether a reader sees something else than what is there: control characters, and characters
/// without a form of their own (direction, joining, filling; Unicode's Cc, Cf, Zl, Zp and the rest of
/// its default ignorable ones).
const fn is_hidden(c: char) -> bool {
    c.is_ascii_control()
        || matches!(c,
            '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The text with what is hidden by its numbers, as `\n` or `\u{202e}`.
#[must_use]
pub fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    push(&mut shown, text);
    shown
}

/// A file's name. Bytes that are no text stand as the replacement character.
#[must_use]
pub fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

/// Bytes that may be text; those that are not are shown by their numbers.
#[must_use]
pub(crate) fn bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push(&mut shown, chunk.valid());
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

fn push(shown: &mut String, text: &str) {
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
}

/// A field of a CSV row: in quotes where it holds what separates fields (RFC 4180).
#[must_use]
pub(crate) fn csv_field(field: &str) -> String {
    let field = text(field);
    match field.contains([',', '"']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_obeyed_or_not_seen_is_shown_by_its_number() {
        assert_eq!(text("trace-3.txt, größer"), "trace-3.txt, größer");
        assert_eq!(
            text("a\u{202e}txt\u{2066}b\u{200b}\u{1b}[2J\n\u{7f}\u{9b}\u{feff}"),
            "a\\u{202e}txt\\u{2066}b\\u{200b}\\u{1b}[2J\\n\\u{7f}\\u{9b}\\u{feff}"
        );
        assert_eq!(bytes(b"a\xff\xe2\x80\xae"), "a\\xff\\u{202e}");
        assert_eq!(path(Path::new("x\u{202e}y")), "x\\u{202e}y");
    }

    #[test]
    fn a_field_cannot_end_itself() {
        assert_eq!(csv_field("fileA"), "fileA");
        assert_eq!(csv_field("a,b"), "\"a,b\"");
        assert_eq!(csv_field("a\"\nb"), "\"a\"\"\\nb\"");
    }
}
