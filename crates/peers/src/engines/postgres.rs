//! PostgreSQL with prepared statements, over one connection per thread. Several reads or blind updates become one
//! statement over an array. A transaction of several statements takes one round trip, including `BEGIN` and `COMMIT`
//! (pipelining). The peer runs only if a server is named.

use crate::peer::{self, Class, Facts, Fault, Peer, Session, Setting, in_groups, retry};
use crate::work::{Operation, Outcome, Table, Task, Work, gets_in_a_row};
use braid_bench::{Failure, Result};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, NoTls, Row, Statement};

/// A server, with tables in a schema that belongs to this process.
pub struct Postgres {
    url: String,
    class: Class,
    schema: String,
}

fn failed(error: Error) -> Failure {
    // The error's own text is short. The server's message is behind it.
    match error.as_db_error() {
        Some(said) => peer::failed("postgres", said.message()),
        None => peer::failed("postgres", error),
    }
}

fn fault(error: Error) -> Fault {
    use tokio_postgres::error::SqlState;
    match error.code() {
        Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE => Fault::Conflict,
        Some(code) if *code == SqlState::T_R_DEADLOCK_DETECTED => Fault::Conflict,
        _ => Fault::Failed(failed(error)),
    }
}

/// PostgreSQL's integers are signed. This conversion keeps the order of keys.
fn signed(key: u64) -> i64 {
    (key ^ (1 << 63)) as i64
}

/// A connection and its runtime, which the calling thread drives while it waits.
struct Client {
    runtime: Runtime,
    client: tokio_postgres::Client,
}

impl Client {
    fn connect(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| peer::failed("postgres", error))?;
        let connected = runtime.block_on(tokio_postgres::connect(url, NoTls));
        let (client, connection) = connected.map_err(failed)?;
        runtime.spawn(connection);
        Ok(Client { runtime, client })
    }

    fn batch(&self, sql: &str) -> Result<()> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(failed)
    }

    fn prepare(&self, sql: &str) -> Result<Statement> {
        self.runtime.block_on(self.client.prepare(sql)).map_err(failed)
    }
}

impl Postgres {
    fn connect(&self) -> Result<Client> {
        let client = Client::connect(&self.url)?;
        let synchronous = if self.class == Class::Sync { "on" } else { "off" };
        let schema = &self.schema;
        client.batch(&format!(
            "SET search_path = {schema}; SET synchronous_commit = {synchronous}; \
             SET default_transaction_isolation = 'serializable'"
        ))?;
        Ok(client)
    }
}

impl Peer for Postgres {
    const FACTS: Facts = Facts {
        name: "postgres",
        isolation: "serializable",
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
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // the number must only be unique
        let schema = format!("braid_peers_{}_{number}", std::process::id());
        let peer = Postgres { url, class: setting.class, schema };
        let (client, schema) = (Client::connect(&peer.url)?, &peer.schema);
        client.batch(&format!("CREATE SCHEMA {schema}"))?;
        // In class memory a log has no use.
        let logged = if setting.class == Class::Memory { "UNLOGGED" } else { "" };
        for table in Table::ALL {
            let name = table.name();
            client.batch(&format!(
                "CREATE {logged} TABLE {schema}.{name} (key BIGINT PRIMARY KEY, value BIGINT NOT NULL)"
            ))?;
        }
        Ok(peer)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let client = self.connect()?;
        let sql = format!("INSERT INTO {} SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[])", table.name());
        let statement = client.prepare(&sql)?;
        in_groups(rows, |group| {
            let keys: Vec<i64> = group.iter().map(|(key, _)| signed(*key)).collect();
            let values: Vec<i64> = group.iter().map(|(_, value)| *value as i64).collect();
            let values: [&(dyn ToSql + Sync); 2] = [&keys, &values];
            client.runtime.block_on(client.client.execute(&statement, &values)).map(drop).map_err(failed)
        })
    }

    fn settle(&self) -> Result<()> {
        let names = Table::ALL.map(Table::name).join(", ");
        self.connect()?.batch(&format!("VACUUM ANALYZE {names}"))
    }

    fn session(&self, _: Option<usize>) -> Result<Connected> {
        let client = self.connect()?;
        let mut tables = Vec::new();
        for table in Table::ALL {
            tables.push(Statements::prepare(&client, table.name())?);
        }
        let tables = tables.try_into().unwrap_or_else(|_| unreachable!("statements for each table"));
        let begin = client.prepare("BEGIN")?;
        let begin_read_only = client.prepare("BEGIN READ ONLY")?;
        let commit = client.prepare("COMMIT")?;
        Ok(Connected { client, tables, begin, begin_read_only, commit })
    }

    fn close(&self) -> Result<()> {
        self.connect()?.batch(&format!("DROP SCHEMA {} CASCADE", self.schema))
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
    fn prepare(client: &Client, name: &str) -> Result<Self> {
        let prepare = |sql: &str| client.prepare(&sql.replace("TABLE", name));
        Ok(Statements {
            get: prepare("SELECT value FROM TABLE WHERE key = $1")?,
            // Returns one row for each requested key, because keys can repeat.
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
    /// Indexed by table.
    tables: [Statements; 5],
    begin: Statement,
    begin_read_only: Statement,
    commit: Statement,
}

/// A statement with its values.
struct Request<'s> {
    statement: &'s Statement,
    values: Values,
    /// True if the request reads one key: it then returns one row, or none if the record does not exist.
    is_one_read: bool,
}

enum Values {
    None,
    One(i64),
    Two(i64, i64),
    Many(Vec<i64>),
    Pairs(Vec<i64>, Vec<i64>),
}

impl Request<'_> {
    /// Sends the statement when it is first polled.
    async fn send(&self, client: &tokio_postgres::Client) -> std::result::Result<Vec<Row>, Error> {
        let one: &[&(dyn ToSql + Sync)] = match &self.values {
            Values::None => &[],
            Values::One(a) => &[a],
            Values::Two(a, b) => &[a, b],
            Values::Many(a) => &[a],
            Values::Pairs(a, b) => &[a, b],
        };
        client.query(self.statement, one).await
    }
}

/// Waits for all futures, after polling them in their order. Statements are sent when they are first polled.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut answers: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, answer) in futures.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

impl Session for Connected {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            let mut requests = self.requests(work, task);
            // A single statement is a transaction by itself.
            if requests.len() > 1 {
                let begin = if work.only_reads(task) { &self.begin_read_only } else { &self.begin };
                let plain = |statement| Request { statement, values: Values::None, is_one_read: false };
                requests.insert(0, plain(begin));
                requests.push(plain(&self.commit));
            }
            let Client { runtime, client } = &self.client;
            let answers = runtime.block_on(together(requests.iter().map(|request| request.send(client))));
            let mut outcome = Outcome::default();
            for (request, answer) in requests.iter().zip(answers) {
                // Statements after a failed one fail as well, and COMMIT then rolls back.
                let rows = answer.map_err(fault)?;
                match rows.as_slice() {
                    [] if request.is_one_read => outcome.saw(None),
                    rows => rows.iter().for_each(|row| outcome.saw(value_of(row))),
                }
            }
            Ok(outcome)
        })
    }
}

fn value_of(row: &Row) -> Option<u64> {
    row.get::<_, Option<i64>>(0).map(|value| value as u64)
}

impl Connected {
    /// Returns the requests of a task. Adjacent operations of one kind become one statement if the kind has a form over
    /// arrays.
    fn requests(&self, work: &Work, task: &Task) -> Vec<Request<'_>> {
        let mut requests = Vec::new();
        let mut operations = work.operations(task).peekable();
        while let Some(operation) = operations.next() {
            let (Operation::Get(table, _)
            | Operation::Update(table, ..)
            | Operation::Add(table, ..)
            | Operation::Insert(table, ..)
            | Operation::Scan(table, ..)) = operation;
            let statements = &self.tables[table.index()];
            let mut is_one_read = matches!(operation, Operation::Add(..));
            let (statement, values) = match operation {
                Operation::Get(table, key) => {
                    let mut keys = Vec::new();
                    gets_in_a_row(&mut operations, (table, key), |key| keys.push(signed(key)));
                    is_one_read = keys.len() == 1;
                    match is_one_read {
                        true => (&statements.get, Values::One(signed(key))),
                        false => (&statements.get_many, Values::Many(keys)),
                    }
                }
                Operation::Update(table, key, value) => {
                    let (mut keys, mut values) = (vec![signed(key)], vec![value as i64]);
                    // If a key repeats, its last value counts, so it begins a new statement.
                    while let Some(Operation::Update(_, key, value)) = operations.next_if(|next| {
                        matches!(next, Operation::Update(other, key, _) if *other == table && !keys.contains(&signed(*key)))
                    }) {
                        keys.push(signed(key));
                        values.push(value as i64);
                    }
                    (&statements.update_many, Values::Pairs(keys, values))
                }
                Operation::Add(_, key, delta) => (&statements.add, Values::Two(signed(key), delta as i64)),
                Operation::Insert(_, key, value) => {
                    (&statements.insert, Values::Two(signed(key), value as i64))
                }
                Operation::Scan(_, from, rows) => (&statements.scan, Values::Two(signed(from), rows as i64)),
            };
            requests.push(Request { statement, values, is_one_read });
        }
        requests
    }
}
