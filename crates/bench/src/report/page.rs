//! A page of results: one self-contained HTML file with the machine, the command, charts, tables and notes, and a JSON
//! file with the same results.

use super::environment::Environment;
use super::grid::{Grid, escaped};
use super::text::{size, write};
use crate::{Failure, Result};
use std::fmt::Write as _;
use std::path::Path;

/// The page.
pub(crate) struct Page<'a> {
    /// The subject of the measurement, in a few words.
    pub(crate) title: &'a str,
    pub(crate) environment: &'a Environment,
    /// The contents, from top to bottom.
    pub(crate) parts: Vec<Part>,
}

/// A part of a page.
pub(crate) enum Part {
    /// A heading.
    Heading(&'static str),
    /// A chart as SVG text, drawn by `chart`.
    Chart(String),
    /// A table.
    Table(Grid),
    /// Lines of plain text.
    Notes(String),
}

const PAGE: &str = "index.html";
const JSON: &str = "results.json";

/// Charts are drawn as on paper: black on white, with gray lines. On a dark screen these colors are exchanged, and the
/// colors of series stay.
const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1c2330;--quiet:#5d6778;--rule:#dfe3ea;\
--stripe:#f4f6f9;--accent:#0b6b9e}\n\
@media (prefers-color-scheme:dark){:root{--paper:#12161c;--card:#1b2129;--ink:#e4e8ee;--quiet:#98a3b3;\
--rule:#333c48;--stripe:#202731;--accent:#6cc0ee}}\n\
*{box-sizing:border-box}\n\
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",\
Roboto,\"Helvetica Neue\",Arial,sans-serif}\n\
main{max-width:1320px;margin:0 auto;padding:2.5rem 1.25rem 4rem}\n\
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em}\n\
h2{font-size:1.2rem;margin:2.4rem 0 .8rem}\n\
.lead{color:var(--quiet);margin:0 0 1.4rem}\n\
.card{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:1rem;margin:1rem 0;\
overflow-x:auto}\n\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.5rem;margin:0}\n\
dt{color:var(--quiet)}dd{margin:0;overflow-wrap:break-word}\n\
code{font:.9em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\n\
table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}\n\
th{color:var(--quiet);font-weight:600;text-align:left;border-bottom:2px solid var(--rule)}\n\
th,td{padding:.3rem .4rem;white-space:nowrap}\n\
.n{text-align:right}\n\
tbody tr:nth-child(even){background:var(--stripe)}\n\
tbody tr:hover{background:color-mix(in srgb,var(--accent) 14%,var(--card))}\n\
tr.g td{border-top:2px solid var(--rule)}\n\
svg{display:block;width:100%;height:auto}\n\
svg text{fill:var(--ink)}\n\
svg [fill=\"#FFFFFF\"]{fill:var(--card)}\n\
svg [stroke=\"#000000\"]{stroke:var(--quiet)}\n\
svg [stroke=\"#E1E1E1\"]{stroke:var(--rule)}\n\
.notes{color:var(--quiet);white-space:pre-line;font-size:.92rem}\n\
a{color:var(--accent)}\n";

impl Page<'_> {
    /// Writes the page and the JSON into a directory, and makes the directory if necessary.
    pub(crate) fn write(&self, directory: &Path, json: &str) -> Result<()> {
        std::fs::create_dir_all(directory)
            .map_err(|e| Failure::new(format!("cannot make the directory {}: {e}", directory.display())))?;
        write(&directory.join(JSON), json)?;
        write(&directory.join(PAGE), &self.html())
    }

    /// Returns the whole file.
    pub(crate) fn html(&self) -> String {
        let title = escaped(self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title} - Braid</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"lead\">Measured with <code>braid bench</code>. \
             The same figures for programs: <a href=\"{JSON}\">{JSON}</a>.</p>\n"
        );
        self.surroundings(&mut html);
        for part in &self.parts {
            let _ = match part {
                Part::Heading(text) => writeln!(html, "<h2>{}</h2>", escaped(text)),
                Part::Chart(svg) => {
                    writeln!(html, "<figure class=\"card\" style=\"margin-inline:0\">{svg}</figure>")
                }
                Part::Table(grid) => writeln!(html, "<div class=\"card\">{}</div>", grid.html()),
                Part::Notes(text) => writeln!(html, "<p class=\"notes\">{}</p>", escaped(text.trim_end())),
            };
        }
        html + "</main>\n</body>\n</html>\n"
    }

    /// Writes where the results were made, and by which command.
    fn surroundings(&self, html: &mut String) {
        let e = self.environment;
        let bytes = |bytes: Option<u64>| bytes.map(size);
        let lines = [
            ("Command", Some(format!("<code>{}</code>", escaped(&e.command)))),
            ("Processor", e.cpu_model.as_deref().map(escaped)),
            ("Processors usable", Some(e.cpus.to_string())),
            ("Second-level cache", bytes(e.l2_bytes).map(|size| size + " a core")),
            ("Last-level cache", bytes(e.l3_bytes)),
            ("Memory", bytes(e.memory_bytes)),
            ("Huge pages", e.huge_pages.as_deref().map(escaped)),
            ("Kernel", e.kernel.as_deref().map(escaped)),
            ("Compiler", e.rustc.as_deref().map(escaped)),
            ("Commit", e.commit.as_deref().map(escaped)),
            ("Version", Some(escaped(e.version))),
        ];
        *html += "<div class=\"card\"><dl>\n";
        for (name, value) in lines.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{value}</dd>");
        }
        *html += "</dl></div>\n";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_holds_its_parts() {
        // Proves that the page contains every part, that text cannot become markup, and that the page loads nothing.
        let mut grid = Grid::new([("mode", false)].into_iter());
        grid.push(std::iter::once("naive".to_owned()));
        let environment = Environment::of_this_machine();
        let parts = vec![
            Part::Heading("Throughput"),
            Part::Chart("<svg></svg>".to_owned()),
            Part::Table(grid),
            Part::Notes("a < b".to_owned()),
        ];
        let html = Page { title: "a & b", environment: &environment, parts }.html();
        let command = escaped(&environment.command);
        let wanted =
            ["a &amp; b", "<h2>Throughput</h2>", "<svg></svg>", "<td>naive</td>", "a &lt; b", &command];
        for part in wanted {
            assert!(html.contains(part), "{part}");
        }
        for fetched in ["http:", "https:", "<script", "src=", "@import", "url("] {
            assert!(!html.contains(fetched), "{fetched}");
        }
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    }
}
