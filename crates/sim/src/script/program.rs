//! A script: initial rows, and transactions as data. [`Cursor`] says what a transaction does next, given what it has
//! seen so far. It drives both the engine and the model, so they run the same program.

use super::expression::{Expression, Scope};
use std::collections::BTreeMap;
use std::fmt;

/// A table's number, and a key in it.
pub type Place = (u8, u32);

/// The values by place.
pub type State = BTreeMap<Place, i64>;

/// Initial rows and the transactions that meet over them.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name for reports: a file's name, or the seed that made it.
    pub name: String,
    /// The expectation for each scheme.
    pub expectations: Vec<(String, Expectation)>,
    /// The tables' names. A table's number is its index here.
    pub tables: Vec<String>,
    /// The rows to begin with.
    pub rows: State,
    /// The number of rows between each two keys that no script sees. They put the keys into different index nodes.
    pub filler: u32,
    /// The number of additional steps of each commit, after the step that begins it. See [`Move::Phase`].
    ///
    /// [`Move::Phase`]: super::Move::Phase
    pub phases: u32,
    /// The transactions, 1 to 4.
    pub transactions: Vec<Transaction>,
}

/// Writes text that reads as the same script, without expectations and comments.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((table, key), value) in &self.rows {
            writeln!(f, "row {}[{key}] = {value}", self.tables[*table as usize])?;
        }
        if self.filler > 0 {
            writeln!(f, "filler {}", self.filler)?;
        }
        if self.phases > 0 {
            writeln!(f, "phases {}", self.phases)?;
        }
        for transaction in &self.transactions {
            let readonly = if transaction.is_read_only { " readonly" } else { "" };
            writeln!(f, "transaction {}{readonly}", transaction.name)?;
            for step in &transaction.steps {
                writeln!(f, "  {}", step.text)?;
            }
        }
        Ok(())
    }
}

/// The condition that a script's interleavings must meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Some interleaving is not serializable: the scheme allows the anomaly.
    Anomaly,
    /// Every interleaving is serializable.
    None,
}

/// One transaction: steps, of which the last is the commit or the abort.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The name for reports.
    pub name: String,
    /// If true, the transaction is declared a reader before its first step.
    pub is_read_only: bool,
    /// The steps, which the schedule interleaves.
    pub steps: Vec<Step>,
    /// The number of its variables.
    pub variables: usize,
}

/// A line of a script: statements between which no other transaction moves.
#[derive(Clone, Debug)]
pub struct Step {
    /// The text as it was written.
    pub text: String,
    /// The statements in order.
    pub statements: Vec<Statement>,
}

/// One action, with an optional condition.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The action is performed only if this is not 0.
    pub condition: Option<Expression>,
    /// The action.
    pub action: Action,
}

/// A place whose key is computed.
#[derive(Clone, Debug)]
pub struct PlaceExpression {
    /// The table.
    pub table: u8,
    /// The key; see [`key_of`].
    pub key: Expression,
}

/// A range of keys that is computed, without its end.
#[derive(Clone, Debug)]
pub struct RangeExpression {
    /// The table.
    pub table: u8,
    /// The first key.
    pub from: Expression,
    /// The key after the last.
    pub to: Expression,
}

/// How a scan's rows are folded into a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The number of rows.
    Count,
    /// The sum of the values.
    Sum,
    /// The smallest key, or 0.
    First,
    /// The greatest key, or 0.
    Last,
}

/// The behavior of a lock if another transaction has locked or written the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It waits.
    Wait,
    /// It is refused, and the transaction continues.
    Fail,
    /// It treats the row as missing.
    Skip,
}

/// The action of a statement.
#[derive(Clone, Debug)]
pub enum Action {
    /// Does nothing: a step that only begins the transaction.
    Begin,
    /// Reads a value into a variable, or 0 if there is none.
    Get {
        /// The variable, if the value is used.
        into: Option<usize>,
        /// The place.
        place: PlaceExpression,
    },
    /// Like `Get`, but the read is untracked and does not order the transaction.
    Peek {
        /// The variable, if the value is used.
        into: Option<usize>,
        /// The place.
        place: PlaceExpression,
    },
    /// Reads a value into a variable and locks its row. The variable gets 0 if there is no row or the lock is not
    /// granted.
    Lock {
        /// The variable, if the value is used.
        into: Option<usize>,
        /// The place.
        place: PlaceExpression,
        /// The behavior if another transaction has the row.
        busy: Busy,
    },
    /// Reads a range. All of its rows are observed. `filter` chooses the rows to fold.
    Scan {
        /// The variable and the fold whose result goes into it.
        into: Option<(usize, Fold)>,
        /// The range.
        range: RangeExpression,
        /// An expression over `key` and `value`.
        filter: Option<Expression>,
    },
    /// Sets a value.
    Put(PlaceExpression, Expression),
    /// Inserts a row. If there was one already, this is observed.
    Insert(PlaceExpression, Expression),
    /// Inserts a row. If there was one already, the transaction ends with this error.
    InsertOrGiveUp(PlaceExpression, Expression),
    /// Replaces a value. Whether there was one is observed.
    Update(PlaceExpression, Expression),
    /// Deletes a row. Whether there was one is observed.
    Delete(PlaceExpression),
    /// Reads a value and adds to it, if there is one.
    Add(PlaceExpression, Expression),
    /// Adds to a value, or inserts it, when the transaction commits.
    Increase(PlaceExpression, Expression),
    /// Looks at a value when the transaction commits, and leaves it unchanged. It is observed at that time.
    Look(PlaceExpression),
    /// Looks at a row when the transaction commits, and fails the commit.
    Refuse(PlaceExpression),
    /// Reads a range and replaces the rows that `filter` chooses, or deletes them if `value` is `None`.
    Change {
        /// The range.
        range: RangeExpression,
        /// An expression over `key` and `value`.
        filter: Option<Expression>,
        /// An expression over `key` and `value`.
        value: Option<Expression>,
    },
    /// Makes a savepoint.
    Savepoint,
    /// Rolls back to the last savepoint.
    Rollback,
    /// Commits.
    Commit,
    /// Aborts.
    Abort,
}

impl Action {
    /// Returns true if the action may change something or keep other transactions from it.
    pub fn writes(&self) -> bool {
        match self {
            Action::Begin | Action::Commit | Action::Abort => false,
            Action::Savepoint | Action::Rollback => false,
            Action::Get { .. } | Action::Peek { .. } | Action::Scan { .. } => false,
            Action::Lock { .. } => true,
            Action::Put(..) | Action::Insert(..) | Action::InsertOrGiveUp(..) | Action::Update(..) => true,
            Action::Delete(_) | Action::Add(..) | Action::Increase(..) | Action::Change { .. } => true,
            Action::Look(_) | Action::Refuse(_) => true, // the row is locked
        }
    }
}

/// A resolved operation, as a store performs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the value.
    Get(Place),
    /// Read the value, untracked.
    Peek(Place),
    /// Read the value and lock the row against changes by other transactions.
    Lock(Place, Busy),
    /// Read the rows of this table from one key up to, but not including, another.
    Scan(u8, u32, u32),
    /// Set the value.
    Put(Place, i64),
    /// Insert a row.
    Insert(Place, i64),
    /// Replace the value.
    Update(Place, i64),
    /// Delete the row.
    Delete(Place),
    /// Add to the value, or insert it, at the commit.
    Increase(Place, i64),
    /// Look at the value at the commit.
    Look(Place),
    /// Look at the value at the commit, and fail.
    Refuse(Place),
    /// Make a savepoint.
    Savepoint,
    /// Undo what was written since the last savepoint. Does nothing if there is none.
    Rollback,
}

/// The result of an operation, as its transaction sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Result of a get, a peek or a lock.
    Value(Option<i64>),
    /// Of a lock: another transaction has the row. Of a rollback: other operations are in flight.
    Refused,
    /// Result of a scan.
    Rows(Vec<(u32, i64)>),
    /// Result of a successful put or insert, of an update left for the commit, and of savepoints.
    Done,
    /// Of an insert: there was a row already.
    Exists,
    /// Of an update or a delete: true if there was a row.
    Found(bool),
}

/// Returns the key for a number. Numbers out of range give the first or the last key.
pub fn key_of(number: i64) -> u32 {
    number.clamp(0, i64::from(u32::MAX)) as u32
}

/// The next step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A new step begins.
    Step,
    /// Perform this operation and give its result to [`Cursor::see`].
    Operation(Operation),
    /// The transaction commits.
    Commit,
    /// The transaction aborts.
    Abort,
}

/// The position of a transaction in its script.
///
/// Invariant: the position is a function of the script and of what was seen. Equal observations lead to equal
/// operations.
#[derive(Debug)]
pub struct Cursor<'s> {
    transaction: &'s Transaction,
    scope: Scope,
    step: usize,
    /// The next statement of the step. `None` if the step has not been announced.
    statement: Option<usize>,
    /// The action whose result is seen next. `None` if the next result is that of a write that follows from it.
    read: Option<&'s Action>,
    /// Writes that follow from what the last statement has read, in reverse order.
    writes: Vec<Operation>,
    /// True if the transaction aborts now, because of what it has just seen.
    gives_up: bool,
}

impl<'s> Cursor<'s> {
    /// Makes a cursor before the first step.
    pub fn new(transaction: &'s Transaction) -> Cursor<'s> {
        let scope = Scope::new(transaction.variables);
        Cursor {
            transaction,
            scope,
            step: 0,
            statement: None,
            read: None,
            writes: Vec::new(),
            gives_up: false,
        }
    }

    /// Advances to the next turn.
    pub fn advance(&mut self) -> Turn {
        if self.gives_up {
            return Turn::Abort;
        }
        if let Some(write) = self.writes.pop() {
            return Turn::Operation(write);
        }
        loop {
            let step = &self.transaction.steps[self.step];
            let Some(at) = self.statement else {
                self.statement = Some(0);
                return Turn::Step;
            };
            let Some(Statement { condition, action }) = step.statements.get(at) else {
                (self.step, self.statement) = (self.step + 1, None);
                continue;
            };
            self.statement = Some(at + 1);
            if condition.as_ref().is_some_and(|condition| condition.value(&self.scope) == 0) {
                continue;
            }
            match action {
                Action::Begin => {}
                Action::Commit => return Turn::Commit,
                Action::Abort => return Turn::Abort,
                action => {
                    self.read = Some(action);
                    return Turn::Operation(self.operation(action));
                }
            }
        }
    }

    /// Takes the result of the operation.
    pub fn see(&mut self, seen: &Seen) {
        match (self.read.take(), seen) {
            (
                Some(
                    Action::Get { into: Some(variable), .. }
                    | Action::Peek { into: Some(variable), .. }
                    | Action::Lock { into: Some(variable), .. },
                ),
                Seen::Value(_) | Seen::Refused,
            ) => {
                let value = if let Seen::Value(Some(value)) = seen { *value } else { 0 };
                self.scope.set(*variable, value);
            }
            (Some(Action::Scan { into: Some((variable, fold)), filter, .. }), Seen::Rows(rows)) => {
                let folded = self.fold(*fold, filter.as_ref(), rows);
                self.scope.set(*variable, folded);
            }
            (Some(Action::InsertOrGiveUp(..)), Seen::Exists) => self.gives_up = true,
            (Some(Action::Add(place, by)), Seen::Value(Some(value))) => {
                let sum = value.wrapping_add(by.value(&self.scope));
                self.writes.push(Operation::Update(self.place(place), sum));
            }
            (Some(Action::Change { range, filter, value }), Seen::Rows(rows)) => {
                for row in rows.iter().rev() {
                    self.scope.row(*row);
                    if !self.chooses(filter.as_ref()) {
                        continue;
                    }
                    let place = (range.table, row.0);
                    self.writes.push(match value {
                        Some(value) => Operation::Update(place, value.value(&self.scope)),
                        None => Operation::Delete(place),
                    });
                }
            }
            _ => {} // nothing follows from it
        }
    }

    fn operation(&self, action: &Action) -> Operation {
        let value = |value: &Expression| value.value(&self.scope);
        match action {
            Action::Get { place, .. } | Action::Add(place, _) => Operation::Get(self.place(place)),
            Action::Peek { place, .. } => Operation::Peek(self.place(place)),
            Action::Lock { place, busy, .. } => Operation::Lock(self.place(place), *busy),
            Action::Scan { range, .. } | Action::Change { range, .. } => {
                Operation::Scan(range.table, key_of(value(&range.from)), key_of(value(&range.to)))
            }
            Action::Put(place, expression) => Operation::Put(self.place(place), value(expression)),
            Action::Insert(place, expression) | Action::InsertOrGiveUp(place, expression) => {
                Operation::Insert(self.place(place), value(expression))
            }
            Action::Update(place, expression) => Operation::Update(self.place(place), value(expression)),
            Action::Delete(place) => Operation::Delete(self.place(place)),
            Action::Increase(place, by) => Operation::Increase(self.place(place), value(by)),
            Action::Look(place) => Operation::Look(self.place(place)),
            Action::Refuse(place) => Operation::Refuse(self.place(place)),
            Action::Savepoint => Operation::Savepoint,
            Action::Rollback => Operation::Rollback,
            Action::Begin | Action::Commit | Action::Abort => unreachable!("handled by `advance`"),
        }
    }

    fn place(&self, place: &PlaceExpression) -> Place {
        (place.table, key_of(place.key.value(&self.scope)))
    }

    fn chooses(&self, filter: Option<&Expression>) -> bool {
        filter.is_none_or(|filter| filter.value(&self.scope) != 0)
    }

    fn fold(&mut self, fold: Fold, filter: Option<&Expression>, rows: &[(u32, i64)]) -> i64 {
        let mut folded = 0i64;
        let mut is_first = true;
        for row in rows {
            self.scope.row(*row);
            if !self.chooses(filter) {
                continue;
            }
            match fold {
                Fold::Count => folded += 1,
                Fold::Sum => folded = folded.wrapping_add(row.1),
                Fold::First if !is_first => {}
                Fold::First | Fold::Last => folded = i64::from(row.0),
            }
            is_first = false;
        }
        folded
    }
}
