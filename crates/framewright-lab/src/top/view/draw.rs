//! A view on a screen of any size. What colour says, a character or a word says too.

use super::rows::{
    ORDER_COLUMNS, ZONE_COLUMNS, chosen, gaps, is_words, label_line, last_lines, order_columns,
    order_rows, pageblock_lines, rate_rows, title, zone_rows,
};
use crate::top::state::TopState;
use crate::top::verdict::{TopStanding, TopVerdict};
use ratatui::Frame as Picture;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};

/// What the keys and the columns are.
const HELP: [&str; 17] = [
    "q, Esc, Ctrl-C  end        p  pause, and go on        h  this page",
    "0 to 9  ask about an order        up, down  the next one, also 10",
    "fragmented       enough is free, in pieces too small for the order",
    "below watermark  frames are free, but the kernel keeps them back",
    "exhausted        fewer frames are free than are asked for",
    "",
    "free      free blocks of just this order",
    "left      requests of it that could be served now, if none waits",
    "failed    requests that failed since the start; reported: the kernel prints",
    "          `page allocation failure` for them (no __GFP_NOWARN)",
    "unusable  the share of free memory that the order cannot use",
    "asked     requests served since the start; asked/s: in the last interval",
    "then      what the first one fails for that is not served",
    "! beside an order: nothing is left of it, or it has failed",
    "pageblocks: free, movable (all in use can move), unmovable (nothing in",
    "use can), mixed. fallback: a request served from a pageblock of another",
    "label. stall: a request that had to compact or reclaim first.",
];

const LOUD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);

/// From this width on, two panels stand beside one another.
const TWO_PANELS: u16 = 76;
/// The width of the right one.
const RIGHT: u16 = 36;
/// Rows of the panels: the orders and their head.
const PANELS: u16 = 12;

/// How a view is shown besides what is in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) is_paused: bool,
    pub(crate) is_help: bool,
}

/// Draws the view.
pub(crate) fn draw(picture: &mut Picture<'_>, state: &TopState, shown: Shown<'_>) {
    let area = picture.area();
    if area.height == 0 || area.width == 0 {
        return;
    }
    let verdict = TopVerdict::of(state);
    let verdict_rows = rows_of(&verdict.text, area.width).min(4);
    let [head, said, of_order, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(verdict_rows),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let title = title(state, shown.kernel, shown.is_paused);
    picture.render_widget(
        Paragraph::new(title).style(Style::new().add_modifier(Modifier::REVERSED)),
        head,
    );
    let style = match verdict.standing {
        TopStanding::Fails => LOUD,
        TopStanding::WouldFail => STRONG.fg(Color::Yellow),
        TopStanding::Served => STRONG,
    };
    picture.render_widget(
        Paragraph::new(verdict.text)
            .style(style)
            .wrap(Wrap { trim: true }),
        said,
    );
    picture.render_widget(Paragraph::new(chosen(state)), of_order);
    match shown.is_help {
        true => {
            let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
            picture.render_widget(Paragraph::new(lines), body);
        }
        false => draw_body(picture, state, body),
    }
    let keys = "q quit  p pause  0-9 order  h help";
    picture.render_widget(Paragraph::new(keys).style(QUIET), foot);
}

/// How many rows a sentence takes when it is broken between words.
fn rows_of(text: &str, width: u16) -> u16 {
    let (mut rows, mut used) = (1_u16, 0_usize);
    for word in text.split(' ') {
        let word = word.chars().count();
        if used > 0 && used + 1 + word > usize::from(width) {
            rows = rows.saturating_add(1);
            used = word;
        } else {
            used += word + usize::from(used > 0);
        }
    }
    rows
}

fn draw_body(picture: &mut Picture<'_>, state: &TopState, area: Rect) {
    let gaps = gaps(state);
    let gap_rows: u16 = gaps
        .iter()
        .map(|gap| rows_of(gap, area.width))
        .sum::<u16>()
        .min(3);
    // Where a screen has room for more than the last few lines.
    let labels = label_line(state).filter(|_| area.height >= PANELS + 10);
    let [panels, labels_area, gaps_area, last] = Layout::vertical([
        Constraint::Max(PANELS),
        Constraint::Max(u16::from(labels.is_some())),
        Constraint::Max(gap_rows),
        Constraint::Min(0),
    ])
    .areas(area);
    if area.width >= TWO_PANELS {
        let zones = zone_rows(state).len() as u16 + 1;
        let right = match area.width >= TWO_PANELS + 14 {
            true => RIGHT + 12,
            false => RIGHT,
        };
        let [left, _, right] = Layout::horizontal([
            Constraint::Min(0),
            Constraint::Length(2),
            Constraint::Length(right),
        ])
        .areas(panels);
        draw_orders(picture, state, left);
        let [zones_area, blocks_area, rates_area] = Layout::vertical([
            Constraint::Max(zones.min(4)),
            Constraint::Max(2),
            Constraint::Min(0),
        ])
        .areas(right);
        draw_zones(picture, state, zones_area);
        let lines: Vec<Line<'_>> = pageblock_lines(state).into_iter().map(Line::from).collect();
        picture.render_widget(Paragraph::new(lines), blocks_area);
        draw_rates(picture, state, rates_area);
    } else {
        draw_orders(picture, state, panels);
    }
    if let Some(labels) = labels {
        picture.render_widget(Paragraph::new(labels), labels_area);
    }
    let lines: Vec<Line<'_>> = gaps.into_iter().map(Line::from).collect();
    picture.render_widget(
        Paragraph::new(lines)
            .style(STRONG)
            .wrap(Wrap { trim: true }),
        gaps_area,
    );
    let mut lines = last_lines(state, usize::from(last.height));
    if lines.is_empty() && state.has_events {
        let line = "so far nothing has failed, fallen back, compacted or reclaimed";
        lines.push((line.to_owned(), false));
    }
    let lines = lines.into_iter().map(|(line, is_failure)| {
        let style = if is_failure { LOUD } else { Style::new() };
        Line::styled(line, style)
    });
    picture.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), last);
}

/// The orders, as many as there is room for: those around the chosen one.
fn draw_orders(picture: &mut Picture<'_>, state: &TopState, area: Rect) {
    let columns = order_columns(area.width);
    let room = usize::from(area.height.saturating_sub(1));
    let all = order_rows(state);
    let first = state
        .chosen
        .saturating_sub(room / 2)
        .min(all.len().saturating_sub(room));
    let rows = all.into_iter().enumerate().skip(first).take(room);
    let rows = rows.map(|(order, (cells, is_bad))| {
        let cells = cells.into_iter().take(columns).enumerate();
        let style = match is_bad {
            true => Style::new().fg(Color::Yellow),
            false => Style::new(),
        };
        let style = match order == state.chosen {
            true => style.add_modifier(Modifier::BOLD),
            false => style,
        };
        Row::new(cells.map(|(place, cell)| cell_of(cell, place == 0 || is_words(place))))
            .style(style)
    });
    let names = ORDER_COLUMNS.iter().take(columns).enumerate();
    let names =
        names.map(|(place, (name, _))| cell_of((*name).to_owned(), place == 0 || is_words(place)));
    let widths = ORDER_COLUMNS.iter().take(columns);
    let table = Table::new(rows, widths.map(|(_, width)| Constraint::Length(*width)))
        .header(Row::new(names).style(STRONG))
        .column_spacing(1);
    picture.render_widget(table, area);
}

fn draw_zones(picture: &mut Picture<'_>, state: &TopState, area: Rect) {
    // Where there is no room for all columns, the word goes and the marks stay.
    let columns = match area.width >= 47 {
        true => ZONE_COLUMNS.len(),
        false => ZONE_COLUMNS.len() - 1,
    };
    let head = ZONE_COLUMNS.iter().take(columns).enumerate();
    let head = head.map(|(place, (name, _))| cell_of((*name).to_owned(), place == 0));
    let rows = zone_rows(state).into_iter().map(|cells| {
        let is_low = cells[5] == "below min" || cells[5] == "below low";
        let mut cells = cells;
        if is_low {
            cells[1].insert(0, '!');
        }
        let cells = cells.into_iter().take(columns).enumerate();
        let row = Row::new(cells.map(|(place, cell)| cell_of(cell, matches!(place, 0 | 5))));
        match is_low {
            true => row.style(Style::new().fg(Color::Yellow)),
            false => row,
        }
    });
    let widths = ZONE_COLUMNS.iter().take(columns);
    let table = Table::new(rows, widths.map(|(_, width)| Constraint::Length(*width)))
        .header(Row::new(head).style(STRONG))
        .column_spacing(1);
    picture.render_widget(table, area);
}

fn draw_rates(picture: &mut Picture<'_>, state: &TopState, area: Rect) {
    let rows = rate_rows(state).into_iter().map(|[name, rate, total]| {
        Row::new([
            cell_of(name, true),
            cell_of(rate, false),
            cell_of(total, false),
        ])
    });
    let widths = [16, 9, 9].map(Constraint::Length);
    let table = Table::new(rows, widths).column_spacing(1);
    picture.render_widget(table, area);
}

fn cell_of<'a>(text: String, is_left: bool) -> Cell<'a> {
    let side = if is_left {
        Alignment::Left
    } else {
        Alignment::Right
    };
    Cell::from(Line::from(text).alignment(side))
}
