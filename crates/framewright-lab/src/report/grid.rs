//! A table before it has a form: what text and page show is the same, cell by cell.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// Whose figures a column or a line holds, where it is one of the three that every experiment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accent {
    /// The behaviour a document complains about.
    Before,
    /// What it proposes.
    Proposed,
    /// This project's.
    Framewright,
}

impl Accent {
    /// All three, in the order of the columns.
    pub const ALL: [Self; 3] = [Self::Before, Self::Proposed, Self::Framewright];

    /// The column's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Proposed => "proposed",
            Self::Framewright => "framewright",
        }
    }

    /// Which of the three a variant is; in the fifth document CMA is what it complains about.
    #[must_use]
    pub fn of(variant: &str) -> Option<Self> {
        match variant {
            "before" | "cma" => Some(Self::Before),
            "proposed" | "gcma" => Some(Self::Proposed),
            "framewright" => Some(Self::Framewright),
            _ => None,
        }
    }
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Its title; a line break is where a narrow form may break it.
    pub title: String,
    /// Whose figures it holds.
    pub accent: Option<Accent>,
    /// Whether a document's.
    pub is_published: bool,
}

/// A row of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridRow {
    /// What names it; of several cells an empty one stands for the one above.
    pub labels: Vec<String>,
    /// The unit of its figures; empty for counts that name themselves.
    pub unit: String,
    /// The figures, one a column.
    pub cells: Vec<String>,
}

/// Rows and columns of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// How many cells name a row.
    pub labels: usize,
    /// The columns behind the labels.
    pub headings: Vec<Heading>,
    /// The rows.
    pub rows: Vec<GridRow>,
}

impl Grid {
    /// As text in columns, figures to the right.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_style(TableComponent::HeaderLines, '-');
        // Never wrapped: a figure cut in two cannot be read, and a pager can scroll.
        table.set_content_arrangement(ContentArrangement::Disabled);
        let mut header = vec![Cell::new(""); self.labels];
        header.extend(self.headings.iter().map(|heading| right(&heading.title)));
        table.set_header(header);
        for row in &self.rows {
            let mut cells: Vec<Cell> = row.labels.iter().map(Cell::new).collect();
            cells.extend(row.cells.iter().map(|cell| right(cell)));
            table.add_row(cells);
        }
        table.to_string()
    }
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
