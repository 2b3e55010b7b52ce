//! The reader of `*.linux_ref.csv`, which comes from outside: every number is held to what memory of that size can
//! have.

use crate::printable;
use crate::trace::TraceDigest;
use crate::trace::reduce::ReferenceRow;

/// Reads a `*.linux_ref.csv`: what the recording kernel itself made of memory, once a second. A first line that says
/// which trace it belongs to ([`TraceDigest::of_text`]) is passed over. The trace's memory has `frames` frames, and a
/// row that has more of them is refused.
///
/// # Errors
/// `LINE: what is wrong, what was expected`; lines count from 1.
pub fn read_reference(text: &str, frames: u64) -> Result<Vec<ReferenceRow>, String> {
    let mut lines = text.lines().zip(1u64..).peekable();
    lines.next_if(|(line, _)| line.starts_with(TraceDigest::MARK));
    let (header, number) = lines.next().unwrap_or(("", 1));
    let header = header.trim_end();
    if header != ReferenceRow::HEADER {
        return Err(format!(
            "{}: the header is '{}', expected '{}'",
            number,
            shown(header),
            ReferenceRow::HEADER
        ));
    }
    let mut rows: Vec<ReferenceRow> = Vec::new();
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let row = row(line.trim_end()).and_then(|row| within(row, frames));
        let row = row.map_err(|what| format!("{number}: {what}"))?;
        if rows.last().is_some_and(|last| last.ms >= row.ms) {
            return Err(format!(
                "{number}: time {} ms is not after that of the row above",
                row.ms
            ));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: &str) -> Result<ReferenceRow, String> {
    let columns = ReferenceRow::HEADER.split(',').count();
    let found = line.split(',').count();
    if found != columns {
        return Err(format!("{found} columns, expected {columns}"));
    }
    let fields: Vec<&str> = line.split(',').collect();
    let whole = |i: usize| {
        let field = fields[i];
        field
            .parse::<u64>()
            .map_err(|_| format!("'{}' is not a whole number", shown(field)))
    };
    let share = |i: usize| {
        let field = fields[i];
        let value = field
            .parse::<f64>()
            .ok()
            .filter(|value| (0.0..=1.0).contains(value));
        value.ok_or_else(|| format!("'{}' is not a share, expected 0 to 1", shown(field)))
    };
    Ok(ReferenceRow {
        event: whole(0)?,
        ms: whole(1)?,
        free_frames: whole(2)?,
        free_2m: whole(3)?,
        free_4m: whole(4)?,
        unusable_o3: share(5)?,
        unusable_o9: share(6)?,
        blocks_mixed: whole(7)?,
        blocks_unmov_any: whole(8)?,
        movable_frames_in_mixed: whole(9)?,
        extfrag_so_far: whole(10)?,
    })
}

/// The row, if no number of it is more than memory of this many frames can have.
fn within(row: ReferenceRow, frames: u64) -> Result<ReferenceRow, String> {
    let figures = [
        ("free_frames", row.free_frames, 1),
        ("free_2m", row.free_2m, 512),
        ("free_4m", row.free_4m, 1024),
        ("blocks_mixed", row.blocks_mixed, 2),
        ("blocks_unmov_any", row.blocks_unmov_any, 1),
        ("movable_frames_in_mixed", row.movable_frames_in_mixed, 1),
    ];
    let too_many = figures
        .into_iter()
        .find(|&(_, found, of)| found > frames / of);
    match too_many {
        None => Ok(row),
        Some((name, found, of)) => Err(format!(
            "{name} is {found}, but the trace's memory of {frames} frames has at most {}",
            frames / of
        )),
    }
}

/// As much of a field as a message needs (P7).
fn shown(field: &str) -> String {
    let head: String = field.chars().take(100).collect();
    printable::text(&head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let row = ReferenceRow {
            ms: 1,
            free_frames: 7,
            unusable_o9: 0.5,
            ..Default::default()
        };
        let later = ReferenceRow {
            ms: 1001,
            blocks_mixed: 3,
            ..row
        };
        let mut text = Vec::new();
        ReferenceRow::write_csv(&[row, later], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(read_reference(&text, 7), Ok(vec![row, later]));
        let refused = read_reference(&text, 6).unwrap_err();
        let said = "2: free_frames is 7, but the trace's memory of 6 frames has at most 6";
        assert_eq!(refused, said);
    }

    #[test]
    fn bad_rows_are_named_by_line() {
        let read = |rows: &str| {
            read_reference(&format!("{}\n{rows}", ReferenceRow::HEADER), 4096).unwrap_err()
        };
        assert!(
            read_reference("a,b\n", 4096)
                .unwrap_err()
                .starts_with("1: the header is 'a,b'")
        );
        assert_eq!(read("1,2,3"), "2: 3 columns, expected 11");
        assert_eq!(
            read("0,1,x,0,0,0,0,0,0,0,0"),
            "2: 'x' is not a whole number"
        );
        assert_eq!(
            read("0,1,0,0,0,1.5,0,0,0,0,0"),
            "2: '1.5' is not a share, expected 0 to 1"
        );
        assert_eq!(
            read("0,5,0,0,0,0,0,0,0,0,0\n0,5,0,0,0,0,0,0,0,0,0"),
            "3: time 5 ms is not after that of the row above"
        );
        assert_eq!(
            read("0,1,4096,8,4,0,0,2048,8,4096,0\n0,5,9,9,0,0,0,0,0,0,0"),
            "3: free_2m is 9, but the trace's memory of 4096 frames has at most 8"
        );
    }
}
