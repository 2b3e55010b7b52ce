//! Places in sources that are named by their text: a place moves with its code, and a name that no
//! longer fits is an error.
//!
//! White space and comments do not count, so that neither a formatter nor a better comment breaks a
//! name. Between `«` and `»` stands the part that is meant; without them all of it is.

use std::ops::Range;

/// A text with white space and comments left out, and where each byte of it stands.
struct BareText {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl BareText {
    fn of(text: &str) -> Self {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut line_start = 0;
        for line in text.split_inclusive('\n') {
            let mut in_string = false;
            let mut at = 0;
            let line_bytes = line.as_bytes();
            while at < line_bytes.len() {
                let byte = line_bytes[at];
                if !in_string && line_bytes[at..].starts_with(b"//") {
                    break;
                }
                let is_escape = in_string && byte == b'\\';
                if byte == b'"' && !line_bytes[..at].ends_with(b"'") {
                    in_string = !in_string;
                }
                for place in at..=at + usize::from(is_escape) {
                    if let Some(byte) = line_bytes.get(place).filter(|b| !b.is_ascii_whitespace()) {
                        bytes.push(*byte);
                        places.push(line_start + place);
                    }
                }
                at += 1 + usize::from(is_escape);
            }
            line_start += line.len();
        }
        Self { bytes, places }
    }

    /// The only occurrence of `wanted` in `part` of it.
    fn only(&self, wanted: &[u8], part: Range<usize>) -> Result<Range<usize>, String> {
        let mut found = self.bytes[part.clone()]
            .windows(wanted.len().max(1))
            .enumerate()
            .filter(|(_, window)| *window == wanted)
            .map(|(nth, _)| part.start + nth);
        let first = found.next().ok_or("is not there")?;
        match found.count() {
            0 => Ok(first..first + wanted.len()),
            more => Err(format!("is there {} times", more + 1)),
        }
    }

    /// From the first brace at or after `from` to the one that closes it.
    fn body(&self, from: usize) -> Result<Range<usize>, String> {
        let mut depth = 0;
        for (at, byte) in self.bytes.iter().enumerate().skip(from) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return Ok(from..at + 1),
                b'}' => depth -= 1,
                _ => {}
            }
        }
        Err("has no body".into())
    }
}

/// The place in `text` that `at` names, if it names exactly one. With `inside`, which must stand in
/// the text once, only what follows it in braces is looked at.
///
/// # Errors
/// What is wrong with the names, with the text that was looked for.
pub(crate) fn find(text: &str, at: &str, inside: Option<&str>) -> Result<Range<usize>, String> {
    let bare = BareText::of(text);
    let part = match inside {
        Some(inside) => {
            let wanted = BareText::of(inside).bytes;
            let found = bare.only(&wanted, 0..bare.bytes.len());
            let found = found.map_err(|error| format!("`{inside}` {error}"))?;
            // Braces in it are a pattern's, but for one that it ends with.
            let body = bare.body(found.end - 1);
            body.map_err(|error| format!("`{inside}` {error}"))?
        }
        None => 0..bare.bytes.len(),
    };
    let (before, rest) = at.split_once('«').unwrap_or(("", at));
    let (meant, after) = rest.split_once('»').unwrap_or((rest, ""));
    let [before, meant, after] = [before, meant, after].map(|text| BareText::of(text).bytes);
    if meant.is_empty() {
        return Err("the place has no text".into());
    }
    let (first, len) = (before.len(), meant.len());
    let wanted = [before, meant, after].concat();
    let found = bare.only(&wanted, part);
    let found = found.map_err(|error| {
        let place = inside.map_or(String::new(), |inside| format!(" in `{inside}`"));
        format!("`{}`{place} {error}", at.trim())
    })?;
    let start = found.start + first;
    Ok(bare.places[start]..bare.places[start + len - 1] + 1)
}

#[cfg(test)]
mod tests {
    use super::find;

    const TEXT: &str = "fn a() {\n    // not b(1);\n    b(1); // why\n    b(2);\n}\nfn c() {\n    b(1);\n    d(\n        \"//\",\n        3,\n    );\n}\n";

    fn found(at: &str, inside: Option<&str>) -> Result<&'static str, String> {
        find(TEXT, at, inside).map(|range| &TEXT[range])
    }

    #[test]
    fn a_place_is_named_by_its_text_without_white_space_and_comments() {
        assert_eq!(found("b(2);", None).unwrap(), "b(2);");
        assert_eq!(found("b(1); «b(2)»;", None).unwrap(), "b(2)");
        assert_eq!(found("d(\"//\", «3»,)", None).unwrap(), "3");
        assert_eq!(found("b(1);", Some("fn c()")).unwrap(), "b(1);");
    }

    #[test]
    fn a_name_that_fits_nothing_or_two_places_is_an_error() {
        assert_eq!(found("b(3)", None).unwrap_err(), "`b(3)` is not there");
        assert_eq!(
            found("b(1);", None).unwrap_err(),
            "`b(1);` is there 2 times"
        );
        let error = found("b(2)", Some("fn c()")).unwrap_err();
        assert_eq!(error, "`b(2)` in `fn c()` is not there");
        assert_eq!(found("b(1);", Some("fn c() {")).unwrap(), "b(1);");
        let error = found("b(2)", Some("fn e()")).unwrap_err();
        assert_eq!(error, "`fn e()` is not there");
        assert_eq!(found("b«»", None).unwrap_err(), "the place has no text");
    }
}
