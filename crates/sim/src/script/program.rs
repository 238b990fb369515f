//! A script: initial rows, and transactions as data. [`Cursor`] says what a transaction does next, given what
//! it has seen so far; the engine and the model are both driven by it, so they run the same program.

use super::expression::{Expression, Scope};
use std::collections::BTreeMap;
use std::fmt;

/// A table's number, and a key in it.
pub type Place = (u8, u32);

/// What is stored where.
pub type State = BTreeMap<Place, i64>;

/// Initial rows and the transactions that meet over them.
#[derive(Clone, Debug)]
pub struct Script {
    /// For reports: a file's name, or the seed that made it.
    pub name: String,
    /// What is expected under which scheme.
    pub expectations: Vec<(String, Expectation)>,
    /// The tables' names; their numbers are their places here.
    pub tables: Vec<String>,
    /// The rows to begin with.
    pub rows: State,
    /// Rows that no script sees, between each two keys, so that keys lie in different index nodes.
    pub filler: u32,
    /// Steps into which each commit is also parted, after the one that begins it; see [`Move::Phase`].
    ///
    /// [`Move::Phase`]: super::Move::Phase
    pub phases: u32,
    /// The transactions, 1 to 4.
    pub transactions: Vec<Transaction>,
}

/// As text that reads as the same script (expectations and comments left out).
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

/// What must come of a script's interleavings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Some interleaving is not serializable: the scheme allows the anomaly.
    Anomaly,
    /// Every interleaving is serializable.
    None,
}

/// One transaction: steps, the last of which is the commit or the abort.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// For reports.
    pub name: String,
    /// Declared before its first step.
    pub is_read_only: bool,
    /// What the scheduler deals in, one by one.
    pub steps: Vec<Step>,
    /// How many variables it has.
    pub variables: usize,
}

/// A line of a script: statements between which no other transaction moves.
#[derive(Clone, Debug)]
pub struct Step {
    /// As it was written.
    pub text: String,
    /// In order.
    pub statements: Vec<Statement>,
}

/// One action, perhaps on a condition.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Done only where this is not 0.
    pub condition: Option<Expression>,
    /// What is done.
    pub action: Action,
}

/// A key in the making.
#[derive(Clone, Debug)]
pub struct PlaceExpression {
    /// The table.
    pub table: u8,
    /// The key; see [`key_of`].
    pub key: Expression,
}

/// A range of keys in the making, the end excluded.
#[derive(Clone, Debug)]
pub struct RangeExpression {
    /// The table.
    pub table: u8,
    /// The first key.
    pub from: Expression,
    /// The key after the last.
    pub to: Expression,
}

/// What a scan's rows come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// How many.
    Count,
    /// The sum of the values.
    Sum,
    /// The smallest key, or 0.
    First,
    /// The greatest key, or 0.
    Last,
}

/// What a lock does about a row that another transaction has locked or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It waits.
    Wait,
    /// It is refused, and the transaction goes on.
    Fail,
    /// It takes the row for one that is not there.
    Skip,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Nothing: a step that only begins the transaction.
    Begin,
    /// Reads a value into a variable; 0 where there is none.
    Get {
        /// The variable, if the value is used.
        into: Option<usize>,
        /// Where.
        place: PlaceExpression,
    },
    /// The same, but the transaction is not ordered by it.
    Peek {
        /// The variable, if the value is used.
        into: Option<usize>,
        /// Where.
        place: PlaceExpression,
    },
    /// Reads a value into a variable and locks its row; 0 where there is none, or none to be had.
    Lock {
        /// The variable, if the value is used.
        into: Option<usize>,
        /// Where.
        place: PlaceExpression,
        /// If it is another's.
        busy: Busy,
    },
    /// Reads a range. All of its rows are observed; `filter` chooses which of them are folded.
    Scan {
        /// The variable and what goes into it.
        into: Option<(usize, Fold)>,
        /// Where.
        range: RangeExpression,
        /// Over `key` and `value`.
        filter: Option<Expression>,
    },
    /// Sets a value.
    Put(PlaceExpression, Expression),
    /// Adds a row; that there was one is observed.
    Insert(PlaceExpression, Expression),
    /// Adds a row; where there was one, the transaction gives up with that error.
    InsertOrGiveUp(PlaceExpression, Expression),
    /// Replaces a value; whether there was one is observed.
    Update(PlaceExpression, Expression),
    /// Removes a row; whether there was one is observed.
    Delete(PlaceExpression),
    /// Reads a value and, where there is one, adds to it.
    Add(PlaceExpression, Expression),
    /// Adds to a value, or makes it, when the transaction commits.
    Increase(PlaceExpression, Expression),
    /// Looks at a value when the transaction commits, and leaves it. It is observed then.
    Look(PlaceExpression),
    /// Looks at a row when the transaction commits, and fails the commit.
    Refuse(PlaceExpression),
    /// Reads a range and replaces, or where `value` is `None` removes, the rows that `filter` chooses.
    Change {
        /// Where.
        range: RangeExpression,
        /// Over `key` and `value`.
        filter: Option<Expression>,
        /// Over `key` and `value`.
        value: Option<Expression>,
    },
    /// Makes a savepoint.
    Savepoint,
    /// Goes back to the last savepoint that was made.
    Rollback,
    /// The end: commit.
    Commit,
    /// The end: undo everything.
    Abort,
}

impl Action {
    /// May it change something, or keep others from it?
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

/// A resolved operation: what a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The value there.
    Get(Place),
    /// The same, untracked.
    Peek(Place),
    /// The value there, and nobody else may change it.
    Lock(Place, Busy),
    /// The rows of this table from one key up to, not including, another.
    Scan(u8, u32, u32),
    /// Set.
    Put(Place, i64),
    /// Add.
    Insert(Place, i64),
    /// Replace.
    Update(Place, i64),
    /// Remove.
    Delete(Place),
    /// Add to the value, or make it, at the commit.
    Increase(Place, i64),
    /// Look at the value at the commit.
    Look(Place),
    /// Look at the value at the commit, and fail.
    Refuse(Place),
    /// Make a savepoint.
    Savepoint,
    /// Undo what was written since the last one. If there is none, nothing.
    Rollback,
}

/// What an operation has shown to its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Of a get, a peek, or a lock.
    Value(Option<i64>),
    /// Of a lock: it is another's. Of a rollback: other operations are half-way.
    Refused,
    /// Of a scan.
    Rows(Vec<(u32, i64)>),
    /// Of a put or an insert that did what it was asked, of what is left for the commit, and of savepoints.
    Done,
    /// Of an insert: there was a row.
    Exists,
    /// Of an update or a delete: was there a row?
    Found(bool),
}

/// The key that a number names: those out of range all meet at the ends.
pub fn key_of(number: i64) -> u32 {
    number.clamp(0, i64::from(u32::MAX)) as u32
}

/// What a transaction does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A new step begins.
    Step,
    /// This is to be done, and what it has shown to be given to [`Cursor::see`].
    Operation(Operation),
    /// It commits.
    Commit,
    /// It gives up.
    Abort,
}

/// Where a transaction is in its script.
///
/// Invariant: it is a function of the script and of what was seen: equal observations lead to equal operations.
#[derive(Debug)]
pub struct Cursor<'s> {
    transaction: &'s Transaction,
    scope: Scope,
    step: usize,
    /// The next statement of the step; `None`: the step has not been announced.
    statement: Option<usize>,
    /// What is to be seen next belongs to this statement, not to a write that follows from it.
    read: Option<&'s Action>,
    /// Writes that follow from what the last statement has read, last first.
    writes: Vec<Operation>,
    /// It gives up now, on grounds of what it has seen last.
    gives_up: bool,
}

impl<'s> Cursor<'s> {
    /// Before the first step.
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

    /// Goes on to the next thing to do.
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

    /// Takes note of what the operation has shown.
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
