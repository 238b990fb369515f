//! Redis or Valkey, over one connection per thread. A transaction is a single command, or one round trip with
//! everything from `MULTI` to `EXEC`. The peer runs only if a server is named.

use crate::peer::{self, Class, Facts, Peer, Session, Setting, in_groups};
use crate::work::{Operation, Outcome, Table, Task, Work, gets_in_a_row};
use braid_bench::{Failure, Result};
use redis::{Client, Cmd, Connection, RedisError, Value, cmd, pipe};

/// A server, and the number of a database that was empty.
pub struct Redis {
    client: Client,
    database: u32,
}

fn failed(error: RedisError) -> Failure {
    peer::failed("redis", error)
}

/// A key that marks a database as in use by this program.
const CLAIM: &str = "braid-peers";

/// Encodes the table and the key.
fn key_of(table: Table, key: u64) -> [u8; 9] {
    let mut bytes = [table.index() as u8; 9];
    bytes[1..].copy_from_slice(&key.to_be_bytes());
    bytes
}

impl Redis {
    fn connect(&self) -> Result<Connection> {
        let mut connection = self.client.get_connection().map_err(failed)?;
        select(&mut connection, self.database).map_err(failed)?;
        Ok(connection)
    }
}

fn select(connection: &mut Connection, database: u32) -> redis::RedisResult<()> {
    cmd("SELECT").arg(database).exec(connection)
}

/// Claims an empty database for this process. Returns an error if there is none, or no server.
fn claim(connection: &mut Connection) -> redis::RedisResult<u32> {
    for database in 0.. {
        // Beyond the last database this is an error, which says so.
        select(connection, database)?;
        let is_ours: bool = cmd("SETNX").arg(CLAIM).arg(std::process::id()).query(connection)?;
        if is_ours {
            let keys: u64 = cmd("DBSIZE").query(connection)?;
            if keys == 1 {
                return Ok(database);
            }
            cmd("DEL").arg(CLAIM).exec(connection)?;
        }
    }
    unreachable!("a server has an end of databases");
}

impl Peer for Redis {
    const FACTS: Facts = Facts {
        name: "redis",
        isolation: "serializable, one thread",
        transactional: true,
        ordered: false,
        // The server's own settings decide what survives a crash.
        classes: &[Class::Memory],
        multiplexes: false,
        server: true,
    };

    type Session<'a> = Connected;

    fn open(setting: &Setting) -> Result<Self> {
        let Some(url) = &setting.redis else {
            return Err(Failure::new("no Redis server is named: give --redis URL"));
        };
        let client = Client::open(url.as_str()).map_err(failed)?;
        let database = claim(&mut client.get_connection().map_err(failed)?).map_err(failed)?;
        Ok(Redis { client, database })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let mut connection = self.connect()?;
        in_groups(rows, |group| {
            let mut command = cmd("MSET");
            for (key, value) in group {
                command.arg(&key_of(table, *key)).arg(*value as i64);
            }
            command.exec(&mut connection).map_err(failed)
        })
    }

    fn session(&self, _: Option<usize>) -> Result<Connected> {
        Ok(Connected(self.connect()?))
    }

    fn close(&self) -> Result<()> {
        cmd("FLUSHDB").exec(&mut self.connect()?).map_err(failed)
    }
}

/// One thread's connection.
pub struct Connected(Connection);

impl Session for Connected {
    /// Nothing is retried, because a transaction has the server to itself.
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        let mut commands = commands(work, task)?;
        let mut outcome = Outcome::default();
        let answer = match commands.len() {
            1 => commands.remove(0).query(&mut self.0),
            _ => {
                let mut all = pipe();
                all.atomic();
                for command in commands {
                    all.add_command(command);
                }
                all.query::<Vec<Value>>(&mut self.0).map(Value::Array)
            }
        };
        see(&answer.map_err(failed)?, &mut outcome)?;
        Ok(outcome)
    }
}

/// Returns the commands of a task. Adjacent operations of one kind become one command.
fn commands(work: &Work, task: &Task) -> Result<Vec<Cmd>> {
    let mut commands = Vec::new();
    let mut operations = work.operations(task).peekable();
    while let Some(operation) = operations.next() {
        commands.push(match operation {
            Operation::Get(table, key) => {
                let mut command = cmd("MGET");
                gets_in_a_row(&mut operations, (table, key), |key| {
                    command.arg(&key_of(table, key));
                });
                command
            }
            Operation::Update(table, key, value) | Operation::Insert(table, key, value) => {
                // If a key repeats, its last value stays.
                let mut command = cmd("MSET");
                command.arg(&key_of(table, key)).arg(value as i64);
                while let Some(Operation::Update(table, key, value) | Operation::Insert(table, key, value)) =
                    operations.next_if(|next| matches!(next, Operation::Update(..) | Operation::Insert(..)))
                {
                    command.arg(&key_of(table, key)).arg(value as i64);
                }
                command
            }
            Operation::Add(table, key, delta) => {
                let mut command = cmd("INCRBY");
                command.arg(&key_of(table, key)).arg(delta as i64);
                command
            }
            Operation::Scan(..) => return Err(peer::failed("redis", "keys have no order")),
        });
    }
    Ok(commands)
}

/// Records the values in an answer, in their order.
fn see(answer: &Value, outcome: &mut Outcome) -> Result<()> {
    match answer {
        Value::Array(answers) => answers.iter().try_for_each(|answer| see(answer, outcome))?,
        Value::Int(value) => outcome.saw(Some(*value as u64)),
        Value::BulkString(digits) => {
            let value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
            let value = value.ok_or_else(|| peer::failed("redis", "a value is not a number"))?;
            outcome.saw(Some(value as u64));
        }
        Value::Nil => outcome.saw(None),
        Value::Okay => {}
        other => return Err(peer::failed("redis", format!("an answer was not expected: {other:?}"))),
    }
    Ok(())
}
