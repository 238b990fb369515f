//! `braid bench paper PAPER --figure N` and `--table N`: presets for figures and tables of papers, with the paper's
//! ratios beside Braid's.
//!
//! - `corobase`, `microarchitecture` and `cores` are tables of presets.
//! - `archetypes` names the kinds of systems that presets iterate over.
//! - `figure` defines presets and compares ratios.
//! - `outcome` shows the results of a preset's command lines.

mod archetypes;
mod cores;
mod corobase;
mod figure;
mod microarchitecture;
mod outcome;
#[cfg(test)]
mod tests;

use crate::command::{Paper, PaperArgs};
use crate::lines::{measured, parsed};
use crate::suite::outcome::Outcome;
use crate::{Failure, Result};
use figure::{Id, Preset, Publication};
use outcome::Results;

/// Runs the preset of a figure or table.
pub fn run(args: &PaperArgs) -> Result<()> {
    let publication = publication(args.paper);
    let preset = preset(publication, args)?;
    if args.commands {
        preset.lines(args).iter().for_each(|line| println!("braid {line}"));
        return Ok(());
    }
    println!("{}", Results::title(publication, preset));
    Results { publication, preset, outcomes: measure(preset, args)? }.show(args)
}

fn publication(paper: Paper) -> &'static Publication {
    match paper {
        Paper::Corobase => &corobase::COROBASE,
        Paper::Microarchitecture => &microarchitecture::MICROARCHITECTURE,
        Paper::Cores => &cores::CORES,
    }
}

fn preset(publication: &Publication, args: &PaperArgs) -> Result<&'static Preset> {
    let asked = args.figure.map(Id::Figure).or(args.table.map(Id::Table));
    if let Some(preset) = asked.and_then(|id| publication.preset(id)) {
        return Ok(preset);
    }
    let there: Vec<String> = publication.presets.iter().map(|preset| preset.id.to_string()).collect();
    let asked = asked.map_or("nothing".to_owned(), |id| id.to_string());
    Err(Failure::new(format!(
        "{asked} of {} has no preset: expected {}",
        publication.title,
        there.join(", ")
    )))
}

/// Runs the command lines of a preset, and merges results of the same benchmark.
fn measure(preset: &Preset, args: &PaperArgs) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in preset.lines(args) {
        println!("braid {line}");
        let found = measured(&parsed(&line)?)?;
        match outcomes.iter_mut().find(|outcome| outcome.name == found.name) {
            Some(outcome) => {
                outcome.rows.extend(found.rows);
                outcome.databases.extend(found.databases);
            }
            None => outcomes.push(found),
        }
    }
    Ok(outcomes)
}
