//! A table of results in groups of rows, as text for a terminal and as HTML for a page.

use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;

/// The table.
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// True if the next row begins a group.
    begins: bool,
}

struct Column {
    name: String,
    is_number: bool,
}

struct Row {
    cells: Vec<String>,
    begins_group: bool,
}

impl Grid {
    /// Makes a table without rows. Each column has a name, and is numeric if the second value is true.
    pub(crate) fn new<'a>(columns: impl Iterator<Item = (&'a str, bool)>) -> Grid {
        let columns = columns.map(|(name, is_number)| Column { name: name.to_owned(), is_number }).collect();
        Grid { columns, rows: Vec::new(), begins: false }
    }

    /// Separates the next row from the previous one.
    pub(crate) fn begin_group(&mut self) {
        self.begins = true;
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn push(&mut self, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.collect();
        assert_eq!(cells.len(), self.columns.len(), "there is a cell for each column");
        let begins_group = std::mem::take(&mut self.begins) && !self.rows.is_empty();
        self.rows.push(Row { cells, begins_group });
    }

    /// Formats the table for a terminal, with an empty line between groups.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.columns.iter().map(|column| &column.name));
        for row in &self.rows {
            if row.begins_group {
                table.add_row(row.cells.iter().map(|_| ""));
            }
            table.add_row(&row.cells);
        }
        for (index, _) in self.columns.iter().enumerate().filter(|(_, column)| column.is_number) {
            let drawn = table.column_mut(index).expect("a header for each column has been set");
            drawn.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }

    /// Formats the table for a page. Numbers and the first rows of groups are marked.
    pub(crate) fn html(&self) -> String {
        let mut html = String::from("<table>\n<thead><tr>");
        for column in &self.columns {
            let class = if column.is_number { " class=\"n\"" } else { "" };
            let _ = write!(html, "<th{class}>{}</th>", escaped(&column.name));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            html += if row.begins_group { "<tr class=\"g\">" } else { "<tr>" };
            for (column, cell) in self.columns.iter().zip(&row.cells) {
                let class = if column.is_number { " class=\"n\"" } else { "" };
                let _ = write!(html, "<td{class}>{}</td>", escaped(cell));
            }
            html += "</tr>\n";
        }
        html + "</tbody>\n</table>\n"
    }
}

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_both_forms() {
        // Proves that nothing is lost, that numbers are marked as numbers, and that markup in a cell stays text.
        let mut grid = Grid::new([("mode", false), ("k txn/s", true)].into_iter());
        grid.push(["naive", "12.5"].into_iter().map(String::from));
        grid.begin_group();
        grid.push(["<b>", "7"].into_iter().map(String::from));
        let (text, html) = (grid.text(), grid.html());
        for cell in ["mode", "k txn/s", "naive", "12.5", "7"] {
            assert!(text.contains(cell) && html.contains(cell), "{cell}");
        }
        assert!(html.contains("<td class=\"n\">12.5</td>") && html.contains("<td>&lt;b&gt;</td>"));
        assert_eq!(html.matches("<tr class=\"g\">").count(), 1);
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
