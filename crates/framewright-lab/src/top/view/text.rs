//! One view as plain text, for scripts and pipes.

use super::rows::{
    ORDER_COLUMNS, ZONE_COLUMNS, chosen, gaps, is_words, label_line, last_lines, order_columns,
    order_rows, pageblock_lines, rate_rows, title, zone_rows,
};
use crate::top::state::TopState;
use crate::top::verdict::TopVerdict;

/// Lines of events in a view.
const LINES: usize = 20;

/// The view, as wide as it is asked for at most where that is possible.
pub(crate) fn plain_text(state: &TopState, kernel: &str, width: u16) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n\n",
        TopVerdict::of(state).text,
        chosen(state),
        title(state, kernel, false)
    );
    let columns = order_columns(width);
    let shown = &ORDER_COLUMNS[..columns];
    let names = shown.map_cells(|(name, _)| (*name).to_owned());
    text += &row(&names, shown);
    for (cells, _) in order_rows(state) {
        text += &row(&cells[..columns], shown);
    }
    text.push('\n');
    let names = ZONE_COLUMNS.map(|(name, _)| name.to_owned());
    text += &row(&names, &ZONE_COLUMNS);
    for cells in zone_rows(state) {
        text += &row(&cells, &ZONE_COLUMNS);
    }
    let mut lines = pageblock_lines(state);
    lines.extend(label_line(state));
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        text += &(line + "\n");
    }
    text.push('\n');
    for [name, rate, total] in rate_rows(state) {
        text += &format!("{name:<16} {rate:>8} {total:>8}\n");
    }
    let lines = last_lines(state, LINES);
    if !lines.is_empty() {
        text.push('\n');
    }
    for (line, _) in lines {
        text += &(line + "\n");
    }
    let gaps = gaps(state);
    if !gaps.is_empty() {
        text.push('\n');
    }
    for gap in gaps {
        text += &(gap + "\n");
    }
    text
}

trait MapCells<T> {
    fn map_cells(&self, cell: impl Fn(&T) -> String) -> Vec<String>;
}

impl<T> MapCells<T> for [T] {
    fn map_cells(&self, cell: impl Fn(&T) -> String) -> Vec<String> {
        self.iter().map(cell).collect()
    }
}

/// A row of a table: numbers end at the right of their columns, names and words begin at the left.
fn row(cells: &[String], columns: &[(&str, u16)]) -> String {
    let of_orders = columns[0].0 == ORDER_COLUMNS[0].0;
    let cells = cells.iter().zip(columns).enumerate();
    let cells = cells.map(|(place, (cell, &(name, width)))| {
        let width = usize::from(width);
        match place == 0 || name.is_empty() || of_orders && is_words(place) {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        }
    });
    let cells: Vec<String> = cells.collect();
    cells.join(" ").trim_end().to_owned() + "\n"
}
