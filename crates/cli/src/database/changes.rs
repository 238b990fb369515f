//! `braid changes`: prints committed transactions, as far back as the log goes.

use super::open::{Failure, read};
use super::text::Column;
use braid_bench::text::printable_json;
use braiddb::TableInfo;
use braiddb::changes::{Change, ChangeKind, ChangePosition, ChangedTable, ChangedTransaction};
use clap::Args;
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Arguments of `braid changes`.
#[derive(Args, Debug)]
pub struct ChangesArgs {
    /// The database's directory; it is only read, and no process may have it open
    path: PathBuf,
    /// The position to start from, as printed after a transaction [default: the oldest in the log]
    #[arg(long)]
    from: Option<ChangePosition>,
    /// Maximum number of transactions
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// Print a JSON object per transaction
    #[arg(long)]
    json: bool,
}

/// The columns of tables, by table number. They format keys and values.
#[derive(Default)]
struct Columns(HashMap<u32, (Column, Column)>);

impl Columns {
    fn of(&mut self, change: &Change<'_>) -> &(Column, Column) {
        if change.kind == ChangeKind::Described {
            self.0.remove(&change.table.number); // the table may have other types now
        }
        self.0.entry(change.table.number).or_insert_with(|| {
            let ChangedTable { name, key_type, value_type, definitions, .. } = &**change.table;
            let mut info = TableInfo::new(name, key_type, value_type);
            info.definitions.clone_from(definitions);
            (Column::keys(key_type), Column::values(&info))
        })
    }
}

/// Runs `braid changes`.
pub fn changes(args: &ChangesArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let from = match args.from {
        Some(position) => position,
        None => db.oldest_change_position()?,
    };
    let (mut reader, mut columns) = (db.changes(from)?, Columns::default());
    let mut to = BufWriter::new(io::stdout().lock());
    for _ in 0..args.limit {
        let Some(transaction) = reader.wait_next()? else { break };
        write(&transaction, &mut columns, args.json, &mut to)?;
    }
    to.flush()?;
    drop(reader);
    Ok(db.close()?)
}

fn write(
    transaction: &ChangedTransaction,
    columns: &mut Columns,
    as_json: bool,
    to: &mut dyn Write,
) -> Result<(), Failure> {
    let changes: Vec<String> = transaction.changes().map(|change| json_of(&change, columns)).collect();
    let position = transaction.position();
    if as_json {
        let timestamp = json!(transaction.commit_timestamp());
        let changes = changes.join(",");
        let line =
            format!(r#"{{"position":"{position}","commit_timestamp":{timestamp},"changes":[{changes}]}}"#);
        return Ok(writeln!(to, "{line}")?);
    }
    changes.iter().try_for_each(|change| writeln!(to, "{change}"))?;
    Ok(writeln!(to, "position {position}")?)
}

/// A change as a JSON object: a row in the format of `braid scan`, or only the key if the row was deleted.
fn json_of(change: &Change<'_>, columns: &mut Columns) -> String {
    let ChangedTable { name, key_type, value_type, definitions, .. } = &**change.table;
    let (keys, values) = columns.of(change);
    let mut line = format!(r#"{{"table":{}"#, json!(name));
    match change.kind {
        ChangeKind::Put { key, value } => {
            line.push_str(r#","key":"#);
            keys.write_json(key, &mut line);
            line.push_str(r#","value":"#);
            values.write_json(value, &mut line);
        }
        ChangeKind::Delete { key } => {
            line.push_str(r#","key":"#);
            keys.write_json(key, &mut line);
            line.push_str(r#","deleted":true"#);
        }
        ChangeKind::Described => {
            line.push_str(&format!(
                r#","number":{},"key_type":{},"value_type":{},"definitions":{}"#,
                change.table.number,
                json!(key_type),
                json!(value_type),
                json!(definitions)
            ));
        }
        ChangeKind::Cleared => line.push_str(r#","cleared":true"#),
        ChangeKind::Dropped => line.push_str(r#","dropped":true"#),
        _ => line.push_str(r#","unknown":true"#),
    }
    line.push('}');
    printable_json(&line).into_owned()
}
