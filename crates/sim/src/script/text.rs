//! Scripts as text. `crates/sim/specs/README.md` describes the form.

use super::expression::{Expression, Operator, Scope};
use super::program::{
    Action, Busy, Expectation, Fold, PlaceExpression, RangeExpression, Script, State, Statement, Step,
    Transaction, key_of,
};
use super::tokens::{Reason, Token, tokens};
use crate::isolation::Isolation;
use std::fmt;

/// The reason why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The text's name.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault at that place.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.name, self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// The maximum number of transactions of a script.
pub const TRANSACTIONS_MAX: usize = 4;
const TABLES_MAX: usize = 4;
const FILLER_MAX: u32 = 200;
/// The number of phases of a commit, beyond the phase that it begins with.
const PHASES_MAX: u32 = 4;

/// Reads a script.
pub fn parse(name: &str, source: &str) -> Result<Script, ParseError> {
    let mut parser = Parser::new(name);
    let mut last = 0;
    for (at, line) in source.lines().enumerate() {
        last = at + 1;
        parser.line(line).map_err(|reason| ParseError { name: name.into(), line: last, reason })?;
    }
    parser.finish().map_err(|reason| ParseError { name: name.into(), line: last, reason })
}

struct Parser {
    script: Script,
    /// The variables of the transaction that is being read.
    variables: Vec<String>,
}

impl Parser {
    fn new(name: &str) -> Parser {
        let script = Script {
            name: name.into(),
            expectations: Vec::new(),
            tables: Vec::new(),
            rows: State::new(),
            filler: 0,
            phases: 0,
            transactions: Vec::new(),
        };
        Parser { script, variables: Vec::new() }
    }

    fn line(&mut self, line: &str) -> Result<(), Reason> {
        let tokens = tokens(line)?;
        let mut rest = Rest { parser: self, tokens: &tokens, of_rows: false };
        match rest.peek() {
            None => return Ok(()),
            Some(Token::Word("expect")) => rest.expect_line()?,
            Some(Token::Word("row")) => rest.row_line()?,
            Some(Token::Word("filler")) => {
                let rows = rest.limited_line("rows between two keys", FILLER_MAX)?;
                rest.parser.script.filler = rows;
            }
            Some(Token::Word("phases")) => {
                let phases = rest.limited_line("phases of a commit", PHASES_MAX)?;
                rest.parser.script.phases = phases;
            }
            Some(Token::Word("transaction")) => rest.transaction_line()?,
            Some(_) => rest.step_line(line)?,
        }
        rest.end()
    }

    fn finish(mut self) -> Result<Script, Reason> {
        self.finish_transaction()?;
        if self.script.transactions.is_empty() {
            return Err("there is no transaction".into());
        }
        Ok(self.script)
    }

    fn finish_transaction(&mut self) -> Result<(), Reason> {
        let Some(transaction) = self.script.transactions.last_mut() else { return Ok(()) };
        let last = transaction.steps.last().and_then(|step| step.statements.last());
        let ends = last.is_some_and(ends_always);
        if !ends {
            return Err(format!("transaction {} does not end in `commit` or `abort`", transaction.name));
        }
        let mut actions = transaction.steps.iter().flat_map(|step| &step.statements);
        if transaction.is_read_only && actions.any(|statement| statement.action.writes()) {
            return Err(format!("transaction {} is read-only, and writes", transaction.name));
        }
        transaction.variables = self.variables.len();
        self.variables.clear();
        Ok(())
    }
}

fn ends_always(statement: &Statement) -> bool {
    statement.condition.is_none() && matches!(statement.action, Action::Commit | Action::Abort)
}

/// The rest of a line.
struct Rest<'p, 't> {
    parser: &'p mut Parser,
    tokens: &'t [Token<'t>],
    /// True if `key` and `value` mean those of the current row.
    of_rows: bool,
}

// ---- lines
impl Rest<'_, '_> {
    fn expect_line(&mut self) -> Result<(), Reason> {
        self.take();
        let scheme = self.word("the name of a scheme")?;
        let names = Isolation::EXPECTED.map(Isolation::name);
        if !names.contains(&scheme) {
            return Err(format!("unknown scheme {scheme:?}: expected one of {}", names.join(", ")));
        }
        let expectation = match self.word("`anomaly` or `none`")? {
            "anomaly" => Expectation::Anomaly,
            "none" => Expectation::None,
            other => return Err(format!("`{other}` where `anomaly` or `none` is expected")),
        };
        if self.parser.script.expectations.iter().any(|(name, _)| name == scheme) {
            return Err(format!("there is an expectation for {scheme} already"));
        }
        self.parser.script.expectations.push((scheme.into(), expectation));
        Ok(())
    }

    fn row_line(&mut self) -> Result<(), Reason> {
        self.take();
        let place = self.place()?;
        self.symbol("=")?;
        let (value, scope) = (self.expression()?, Scope::new(0));
        let place = (place.table, key_of(place.key.value(&scope)));
        match self.parser.script.rows.insert(place, value.value(&scope)) {
            None => Ok(()),
            Some(_) => Err("there is such a row already".into()),
        }
    }

    fn limited_line(&mut self, of: &str, max: u32) -> Result<u32, Reason> {
        self.take();
        let Some(Token::Number(number)) = self.take() else {
            return Err(format!("the number of {of} is missing"));
        };
        let number = u32::try_from(number).ok().filter(|number| *number <= max);
        number.ok_or_else(|| format!("more than {max} {of}"))
    }

    fn transaction_line(&mut self) -> Result<(), Reason> {
        self.take();
        self.parser.finish_transaction()?;
        let name = self.word("the transaction's name")?.to_string();
        let is_read_only = self.take_if(Token::Word("readonly"));
        let all = &mut self.parser.script.transactions;
        if all.len() == TRANSACTIONS_MAX {
            return Err(format!("more than {TRANSACTIONS_MAX} transactions"));
        }
        if all.iter().any(|other| other.name == name) {
            return Err(format!("there is a transaction {name} already"));
        }
        all.push(Transaction { name, is_read_only, steps: Vec::new(), variables: 0 });
        Ok(())
    }

    fn step_line(&mut self, line: &str) -> Result<(), Reason> {
        let Some(open) = self.parser.script.transactions.last() else {
            return Err("a statement outside of any transaction".into());
        };
        if open.steps.iter().any(|step| step.statements.last().is_some_and(ends_always)) {
            return Err("a statement after the transaction's end".into());
        }
        let mut statements = vec![self.statement()?];
        while self.take_if(Token::Symbol(";")) {
            if statements.last().is_some_and(ends_always) {
                return Err("a statement after the transaction's end".into());
            }
            statements.push(self.statement()?);
        }
        let text = line.split('#').next().unwrap_or_default().trim().to_string();
        let transaction = self.parser.script.transactions.last_mut().expect("looked at above");
        transaction.steps.push(Step { text, statements });
        Ok(())
    }
}

/// The statements that set a variable.
const READINGS: &str = "`get`, `peek`, `lock`, `count`, `sum`, `first` or `last`";

// ---- statements
impl Rest<'_, '_> {
    fn statement(&mut self) -> Result<Statement, Reason> {
        let mut condition = None;
        if self.take_if(Token::Word("if")) {
            condition = Some(self.expression()?);
            self.keyword("then")?;
        }
        Ok(Statement { condition, action: self.action()? })
    }

    fn action(&mut self) -> Result<Action, Reason> {
        let word = self.word("a statement")?;
        Ok(match word {
            "begin" => Action::Begin,
            "savepoint" => Action::Savepoint,
            "rollback" => Action::Rollback,
            "commit" => Action::Commit,
            "abort" => Action::Abort,
            "get" | "peek" | "lock" => self.reading_one(word, None)?,
            "scan" => Action::Scan { into: None, range: self.range()?, filter: None },
            "put" => self.write(Action::Put)?,
            "insert" => match self.write(Action::Insert)? {
                Action::Insert(place, value) if self.take_if(Token::Word("else")) => {
                    self.keyword("abort")?;
                    Action::InsertOrGiveUp(place, value)
                }
                insert => insert,
            },
            "update" => self.write(Action::Update)?,
            "delete" => Action::Delete(self.place()?),
            "add" => {
                let place = self.place()?;
                self.keyword("by")?;
                Action::Add(place, self.expression()?)
            }
            "increase" => {
                let place = self.place()?;
                self.keyword("by")?;
                Action::Increase(place, self.expression()?)
            }
            "look" => Action::Look(self.place()?),
            "refuse" => Action::Refuse(self.place()?),
            "set" => {
                let range = self.range()?;
                self.keyword("to")?;
                let value = Some(self.expression_of_rows()?);
                Action::Change { range, filter: self.filter()?, value }
            }
            "remove" => Action::Change { range: self.range()?, filter: self.filter()?, value: None },
            variable if self.take_if(Token::Symbol("=")) => self.reading(variable)?,
            other => return Err(format!("there is no statement `{other}`")),
        })
    }

    fn reading(&mut self, variable: &str) -> Result<Action, Reason> {
        let fold = match self.word(READINGS)? {
            word @ ("get" | "peek" | "lock") => return self.reading_one(word, Some(variable)),
            "count" => Fold::Count,
            "sum" => Fold::Sum,
            "first" => Fold::First,
            "last" => Fold::Last,
            other => return Err(format!("`{other}` where {READINGS} is expected")),
        };
        let (range, filter) = (self.range()?, self.filter()?);
        Ok(Action::Scan { into: Some((self.define(variable)?, fold)), range, filter })
    }

    fn reading_one(&mut self, word: &str, variable: Option<&str>) -> Result<Action, Reason> {
        let place = self.place()?;
        let into = variable.map(|variable| self.define(variable)).transpose()?;
        Ok(match word {
            "get" => Action::Get { into, place },
            "peek" => Action::Peek { into, place },
            _ if self.take_if(Token::Word("nowait")) => Action::Lock { into, place, busy: Busy::Fail },
            _ if self.take_if(Token::Word("skip")) => Action::Lock { into, place, busy: Busy::Skip },
            _ => Action::Lock { into, place, busy: Busy::Wait },
        })
    }

    fn write(&mut self, make: fn(PlaceExpression, Expression) -> Action) -> Result<Action, Reason> {
        let place = self.place()?;
        self.symbol("=")?;
        Ok(make(place, self.expression()?))
    }

    fn define(&mut self, variable: &str) -> Result<usize, Reason> {
        if matches!(variable, "key" | "value") {
            return Err(format!("`{variable}` is the row at hand, and no variable"));
        }
        let variables = &mut self.parser.variables;
        Ok(variables.iter().position(|name| name == variable).unwrap_or_else(|| {
            variables.push(variable.into());
            variables.len() - 1
        }))
    }

    fn table(&mut self) -> Result<u8, Reason> {
        let name = self.word("a table's name")?;
        let tables = &mut self.parser.script.tables;
        let at = tables.iter().position(|table| table == name).unwrap_or_else(|| {
            tables.push(name.into());
            tables.len() - 1
        });
        if at < TABLES_MAX { Ok(at as u8) } else { Err(format!("more than {TABLES_MAX} tables")) }
    }

    fn place(&mut self) -> Result<PlaceExpression, Reason> {
        let table = self.table()?;
        self.symbol("[")?;
        let key = self.expression()?;
        self.symbol("]")?;
        Ok(PlaceExpression { table, key })
    }

    fn range(&mut self) -> Result<RangeExpression, Reason> {
        let table = self.table()?;
        self.symbol("[")?;
        let from = self.expression()?;
        self.symbol("..")?;
        let to = self.expression()?;
        self.symbol("]")?;
        Ok(RangeExpression { table, from, to })
    }

    fn filter(&mut self) -> Result<Option<Expression>, Reason> {
        if !self.take_if(Token::Word("where")) {
            return Ok(None);
        }
        self.expression_of_rows().map(Some)
    }
}

/// The operators by precedence, lowest first.
const OPERATORS: [&[(Token<'static>, Operator)]; 4] = [
    &[(Token::Word("and"), Operator::And)],
    &[
        (Token::Symbol("=="), Operator::Equal),
        (Token::Symbol("!="), Operator::Unequal),
        (Token::Symbol("<"), Operator::Less),
        (Token::Symbol("<="), Operator::LessOrEqual),
        (Token::Symbol(">"), Operator::Greater),
        (Token::Symbol(">="), Operator::GreaterOrEqual),
    ],
    &[(Token::Symbol("+"), Operator::Plus), (Token::Symbol("-"), Operator::Minus)],
    &[(Token::Symbol("*"), Operator::Times), (Token::Symbol("%"), Operator::Modulo)],
];

// ---- expressions
impl<'t> Rest<'_, 't> {
    fn expression_of_rows(&mut self) -> Result<Expression, Reason> {
        self.of_rows = true;
        let expression = self.expression();
        self.of_rows = false;
        expression
    }

    fn expression(&mut self) -> Result<Expression, Reason> {
        self.binary(0)
    }

    fn binary(&mut self, level: usize) -> Result<Expression, Reason> {
        let Some(operators) = OPERATORS.get(level) else { return self.atom() };
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(token, _)| self.peek() == Some(*token)) {
            self.take();
            left = Expression::Binary(Box::new(left), *operator, Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expression, Reason> {
        match self.take() {
            Some(Token::Number(number)) => Ok(Expression::Number(number)),
            Some(Token::Word("key")) if self.of_rows => Ok(Expression::Key),
            Some(Token::Word("value")) if self.of_rows => Ok(Expression::Value),
            Some(Token::Word(name)) => {
                let known = self.parser.variables.iter().position(|variable| variable == name);
                known.map(Expression::Variable).ok_or_else(|| format!("`{name}` has no value here"))
            }
            Some(Token::Symbol("-")) => {
                let zero = Box::new(Expression::Number(0));
                Ok(Expression::Binary(zero, Operator::Minus, Box::new(self.atom()?)))
            }
            Some(Token::Symbol("(")) => {
                let inner = self.expression()?;
                self.symbol(")")?;
                Ok(inner)
            }
            other => Err(instead(other, "a value")),
        }
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.first().copied()
    }

    fn take(&mut self) -> Option<Token<'t>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn take_if(&mut self, token: Token<'_>) -> bool {
        let is_there = self.peek() == Some(token);
        if is_there {
            self.take();
        }
        is_there
    }

    fn word(&mut self, what: &str) -> Result<&'t str, Reason> {
        match self.take() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(instead(other, what)),
        }
    }

    fn keyword(&mut self, word: &str) -> Result<(), Reason> {
        match self.take() {
            Some(Token::Word(found)) if found == word => Ok(()),
            other => Err(instead(other, &format!("`{word}`"))),
        }
    }

    fn symbol(&mut self, symbol: &str) -> Result<(), Reason> {
        match self.take() {
            Some(Token::Symbol(found)) if found == symbol => Ok(()),
            other => Err(instead(other, &format!("`{symbol}`"))),
        }
    }

    fn end(&mut self) -> Result<(), Reason> {
        match self.take() {
            None => Ok(()),
            other => Err(instead(other, "the end of the line")),
        }
    }
}

fn instead(found: Option<Token<'_>>, expected: &str) -> Reason {
    match found {
        Some(token) => format!("{token} where {expected} is expected"),
        None => format!("the line ends where {expected} is expected"),
    }
}
