//! PostgreSQL over a connection to each thread, with prepared statements: several reads or blind updates are one
//! statement over an array. Only where a server is named.

use crate::peer::{self, Class, Facts, Fault, Peer, Session, Setting, Tried, in_groups, retry};
use crate::work::{Operation, Outcome, Table, Task, Work};
use braid_bench::{Failure, Result};
use postgres::types::ToSql;
use postgres::{Client, Error, NoTls, Row, Statement, Transaction};
use std::sync::atomic::{AtomicU64, Ordering};

/// A server, with tables in a schema of this process.
pub struct Postgres {
    url: String,
    class: Class,
    schema: String,
}

fn failed(error: Error) -> Failure {
    // Its own text is short; what the server said is behind it.
    match error.as_db_error() {
        Some(said) => peer::failed("postgres", said.message()),
        None => peer::failed("postgres", error),
    }
}

fn fault(error: Error) -> Fault {
    use postgres::error::SqlState;
    match error.code() {
        Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE => Fault::Conflict,
        Some(code) if *code == SqlState::T_R_DEADLOCK_DETECTED => Fault::Conflict,
        _ => Fault::Failed(failed(error)),
    }
}

/// Its integers are signed: this keeps the order of keys.
fn signed(key: u64) -> i64 {
    (key ^ (1 << 63)) as i64
}

impl Postgres {
    fn connect(&self) -> Result<Client> {
        let mut client = Client::connect(&self.url, NoTls).map_err(failed)?;
        let synchronous = if self.class == Class::Sync { "on" } else { "off" };
        let schema = &self.schema;
        let set = format!(
            "SET search_path = {schema}; SET synchronous_commit = {synchronous}; \
             SET default_transaction_isolation = 'serializable'"
        );
        client.batch_execute(&set).map_err(failed)?;
        Ok(client)
    }
}

impl Peer for Postgres {
    const FACTS: Facts = Facts {
        name: "postgres",
        isolation: "serializable, loopback",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: true,
    };

    type Session<'a> = Connected;

    fn open(setting: &Setting) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some(url) = setting.postgres.clone() else {
            return Err(Failure::new("no PostgreSQL server is named: give --postgres URL"));
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // only uniqueness counts
        let schema = format!("braid_peers_{}_{number}", std::process::id());
        let peer = Postgres { url, class: setting.class, schema };
        let mut client = Client::connect(&peer.url, NoTls).map_err(failed)?;
        let schema = &peer.schema;
        client.batch_execute(&format!("CREATE SCHEMA {schema}")).map_err(failed)?;
        // Without a promise there is no use for a log.
        let logged = if setting.class == Class::Memory { "UNLOGGED" } else { "" };
        for table in Table::ALL {
            let name = table.name();
            let sql = format!(
                "CREATE {logged} TABLE {schema}.{name} (key BIGINT PRIMARY KEY, value BIGINT NOT NULL)"
            );
            client.batch_execute(&sql).map_err(failed)?;
        }
        Ok(peer)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let mut client = self.connect()?;
        let sql = format!("INSERT INTO {} SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[])", table.name());
        let statement = client.prepare(&sql).map_err(failed)?;
        in_groups(rows, |group| {
            let keys: Vec<i64> = group.iter().map(|(key, _)| signed(*key)).collect();
            let values: Vec<i64> = group.iter().map(|(_, value)| *value as i64).collect();
            client.execute(&statement, &[&keys, &values]).map(drop).map_err(failed)
        })
    }

    fn settle(&self) -> Result<()> {
        let mut client = self.connect()?;
        let names = Table::ALL.map(Table::name).join(", ");
        client.batch_execute(&format!("VACUUM ANALYZE {names}")).map_err(failed)
    }

    fn session(&self, _: Option<usize>) -> Result<Connected> {
        let mut client = self.connect()?;
        let mut statements = Vec::new();
        for table in Table::ALL {
            statements.push(Statements::prepare(&mut client, table.name()).map_err(failed)?);
        }
        let statements = statements.try_into().unwrap_or_else(|_| unreachable!("statements for each table"));
        Ok(Connected { client, statements, keys: Vec::new(), values: Vec::new() })
    }

    fn close(&self) -> Result<()> {
        self.connect()?.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).map_err(failed)
    }
}

/// The statements of a table.
struct Statements {
    get: Statement,
    get_many: Statement,
    update_many: Statement,
    add: Statement,
    insert: Statement,
    scan: Statement,
}

impl Statements {
    fn prepare(client: &mut Client, name: &str) -> std::result::Result<Self, Error> {
        let mut prepare = |sql: &str| client.prepare(&sql.replace("TABLE", name));
        Ok(Statements {
            get: prepare("SELECT value FROM TABLE WHERE key = $1")?,
            // One row for each key asked for, as keys may come twice.
            get_many: prepare(
                "SELECT r.value FROM unnest($1::BIGINT[]) AS k LEFT JOIN TABLE r ON r.key = k",
            )?,
            update_many: prepare(
                "UPDATE TABLE SET value = u.value FROM unnest($1::BIGINT[], $2::BIGINT[]) AS u (key, value) \
                 WHERE TABLE.key = u.key",
            )?,
            add: prepare("UPDATE TABLE SET value = value + $2 WHERE key = $1 RETURNING value")?,
            insert: prepare("INSERT INTO TABLE VALUES ($1, $2)")?,
            scan: prepare("SELECT value FROM TABLE WHERE key >= $1 ORDER BY key LIMIT $2")?,
        })
    }
}

/// One thread's connection.
pub struct Connected {
    client: Client,
    statements: [Statements; 5],
    /// For arrays.
    keys: Vec<i64>,
    values: Vec<i64>,
}

fn value_of(row: &Row) -> Option<u64> {
    row.get::<_, Option<i64>>(0).map(|value| value as u64)
}

impl Session for Connected {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            if work.is_single(task) {
                // One statement is a transaction by itself.
                let operation = work.operations(task).next();
                let mut outcome = Outcome::default();
                let run =
                    |statement: &Statement, with: &[&(dyn ToSql + Sync)]| self.client.query(statement, with);
                if let Some(operation) = operation {
                    perform_one(&self.statements, run, operation, &mut outcome)?;
                }
                return Ok(outcome);
            }
            let mut txn = match work.only_reads(task) {
                true => self.client.build_transaction().read_only(true).start().map_err(fault)?,
                false => self.client.transaction().map_err(fault)?,
            };
            let arrays = (&mut self.keys, &mut self.values);
            let outcome = perform(&mut txn, &self.statements, arrays, work, task)?;
            txn.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

/// Does what a task says: neighbours of one kind that have a form over arrays, in one statement.
fn perform(
    txn: &mut Transaction<'_>,
    statements: &[Statements; 5],
    (keys, values): (&mut Vec<i64>, &mut Vec<i64>),
    work: &Work,
    task: &Task,
) -> Tried<Outcome> {
    let mut outcome = Outcome::default();
    let mut operations = work.operations(task).peekable();
    while let Some(operation) = operations.next() {
        keys.clear();
        values.clear();
        match operation {
            Operation::Get(table, key) => {
                keys.push(signed(key));
                while let Some(Operation::Get(_, key)) =
                    operations.next_if(|next| matches!(next, Operation::Get(other, _) if *other == table))
                {
                    keys.push(signed(key));
                }
                let rows = txn.query(&statements[table.index()].get_many, &[&*keys]).map_err(fault)?;
                rows.iter().for_each(|row| outcome.saw(value_of(row)));
            }
            Operation::Update(table, key, value) => {
                keys.push(signed(key));
                values.push(value as i64);
                // Of a key that comes twice the last value counts: it begins a statement of its own.
                while let Some(Operation::Update(_, key, value)) = operations.next_if(|next| {
                    matches!(next, Operation::Update(other, key, _) if *other == table && !keys.contains(&signed(*key)))
                }) {
                    keys.push(signed(key));
                    values.push(value as i64);
                }
                txn.execute(&statements[table.index()].update_many, &[&*keys, &*values]).map_err(fault)?;
            }
            other => {
                let run = |statement: &Statement, with: &[&(dyn ToSql + Sync)]| txn.query(statement, with);
                perform_one(statements, run, other, &mut outcome)?;
            }
        }
    }
    Ok(outcome)
}

/// Does one operation by one statement.
fn perform_one(
    statements: &[Statements; 5],
    mut run: impl FnMut(&Statement, &[&(dyn ToSql + Sync)]) -> std::result::Result<Vec<Row>, Error>,
    operation: Operation,
    outcome: &mut Outcome,
) -> Tried<()> {
    match operation {
        Operation::Get(table, key) => {
            let rows = run(&statements[table.index()].get, &[&signed(key)]).map_err(fault)?;
            outcome.saw(rows.first().and_then(value_of));
        }
        Operation::Update(table, key, value) => {
            let (keys, values) = (vec![signed(key)], vec![value as i64]);
            run(&statements[table.index()].update_many, &[&keys, &values]).map_err(fault)?;
        }
        Operation::Add(table, key, delta) => {
            let with: [&(dyn ToSql + Sync); 2] = [&signed(key), &(delta as i64)];
            let rows = run(&statements[table.index()].add, &with).map_err(fault)?;
            outcome.saw(rows.first().and_then(value_of));
        }
        Operation::Insert(table, key, value) => {
            run(&statements[table.index()].insert, &[&signed(key), &(value as i64)]).map_err(fault)?;
        }
        Operation::Scan(table, from, rows) => {
            let with: [&(dyn ToSql + Sync); 2] = [&signed(from), &(rows as i64)];
            let rows = run(&statements[table.index()].scan, &with).map_err(fault)?;
            rows.iter().for_each(|row| outcome.saw(value_of(row)));
        }
    }
    Ok(())
}
