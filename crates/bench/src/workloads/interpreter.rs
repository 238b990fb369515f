//! Interpreted procedures. Their statements refer to tables, columns and functions by name, and their values have types
//! known only at run time. An interpreter executes the statements at each call. Comparing a procedure with the same
//! transaction as a compiled closure shows what the engine's users save ("transaction compilation" in Sirin et al.,
//! VLDB Journal 30, 2021, section 6.1).
//!
//! Names are looked up at each use, as in a system that plans its statements when they are called.

use crate::engine::{Result, Scheme, Txn};
use braiddb::tools::RawTable;
use braiddb::{Error, Key};
use std::collections::HashMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    Long(u64),
    Text(String),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    Long,
    Text,
}

/// An expression, which has a value.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    /// The value of a variable or parameter.
    Variable(String),
    /// The result of a function of a value.
    Call { function: String, argument: Box<Expression> },
}

/// A step of a procedure.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// Sets a variable to a column of the row with this key.
    Select { table: String, column: String, key: Expression, into: String },
    /// Sets a column of the row with this key.
    Update { table: String, column: String, key: Expression, value: Expression },
}

/// A function of procedures.
pub(crate) type Function = fn(Datum) -> Result<Datum>;

/// A table of two columns, the first of which is the key.
struct Shape {
    rows: RawTable,
    key: Type,
    column: (String, Type),
}

/// The tables and functions that procedures can name.
#[derive(Default)]
pub(crate) struct Names {
    tables: HashMap<String, Shape>,
    functions: HashMap<String, Function>,
}

/// A procedure, ready to be called.
pub(crate) struct Procedure {
    pub(crate) names: Names,
    pub(crate) statements: Vec<Statement>,
}

/// The variables of a call.
type Variables = HashMap<String, Datum>;

impl Datum {
    fn is(&self, wanted: Type) -> bool {
        matches!((self, wanted), (Datum::Long(_), Type::Long) | (Datum::Text(_), Type::Text))
    }

    fn as_key(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Datum::Long(number) => number.encode(true, &mut bytes),
            Datum::Text(text) => text.encode(true, &mut bytes),
        }
        bytes
    }

    fn as_value(&self) -> Vec<u8> {
        match self {
            Datum::Long(number) => number.to_le_bytes().to_vec(),
            Datum::Text(text) => text.as_bytes().to_vec(),
        }
    }
}

impl Type {
    /// Reads a value of this type.
    fn read(self, bytes: &[u8]) -> Result<Datum> {
        let wrong = || Error::user(format!("{} bytes are no value of type {self:?}", bytes.len()));
        match self {
            Type::Long => Ok(Datum::Long(u64::from_le_bytes(bytes.try_into().map_err(|_| wrong())?))),
            Type::Text => String::from_utf8(bytes.to_vec()).map(Datum::Text).map_err(|_| wrong()),
        }
    }
}

impl Names {
    /// Adds a table with a column `key` and another column.
    pub(crate) fn table(&mut self, name: &str, rows: RawTable, key: Type, column: (&str, Type)) {
        self.tables.insert(name.into(), Shape { rows, key, column: (column.0.into(), column.1) });
    }

    /// Adds a function.
    pub(crate) fn function(&mut self, name: &str, function: Function) {
        self.functions.insert(name.into(), function);
    }

    /// Returns a table by its name, and the type of one of its columns.
    fn column(&self, table: &str, column: &str) -> Result<(&Shape, Type)> {
        let shape = self.tables.get(table).ok_or_else(|| unknown("table", table))?;
        if shape.column.0 != column {
            return Err(unknown("column", column));
        }
        Ok((shape, shape.column.1))
    }

    fn value(&self, expression: &Expression, variables: &Variables) -> Result<Datum> {
        match expression {
            Expression::Variable(name) => {
                variables.get(name).cloned().ok_or_else(|| unknown("variable", name))
            }
            Expression::Call { function, argument } => {
                let called = self.functions.get(function).ok_or_else(|| unknown("function", function))?;
                called(self.value(argument, variables)?)
            }
        }
    }

    async fn execute<C: Scheme>(
        &self,
        tx: &Txn<C>,
        statement: &Statement,
        variables: &mut Variables,
    ) -> Result<()> {
        match statement {
            Statement::Select { table, column, key, into } => {
                let (shape, kind) = self.column(table, column)?;
                let key = typed(self.value(key, variables)?, shape.key)?;
                let row = shape.rows.get(tx, &key.as_key()).await?.ok_or_else(|| no_row(table, &key))?;
                variables.insert(into.clone(), kind.read(row)?);
            }
            Statement::Update { table, column, key, value } => {
                let (shape, kind) = self.column(table, column)?;
                let key = typed(self.value(key, variables)?, shape.key)?;
                let value = typed(self.value(value, variables)?, kind)?;
                if !shape.rows.update(tx, &key.as_key(), &value.as_value()).await? {
                    return Err(no_row(table, &key));
                }
            }
        }
        Ok(())
    }
}

impl Procedure {
    /// Calls the procedure with these arguments, and returns its variables.
    pub(crate) async fn call<C: Scheme>(
        &self,
        tx: &Txn<C>,
        arguments: &[(&str, Datum)],
    ) -> Result<HashMap<String, Datum>> {
        let argument = |(name, value): &(&str, Datum)| ((*name).to_owned(), value.clone());
        let mut variables: Variables = arguments.iter().map(argument).collect();
        for statement in &self.statements {
            self.names.execute(tx, statement, &mut variables).await?;
        }
        Ok(variables)
    }
}

fn typed(value: Datum, wanted: Type) -> Result<Datum> {
    if value.is(wanted) {
        Ok(value)
    } else {
        Err(Error::user(format!("{value:?} is not of type {wanted:?}")))
    }
}

#[cold]
fn unknown(what: &str, name: &str) -> Error {
    Error::user(format!("a procedure names a {what} {name:?}, which there is not"))
}

#[cold]
fn no_row(table: &str, key: &Datum) -> Error {
    Error::user(format!("table {table} has no row {key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braiddb::{Database, Options, Table};

    fn variable(name: &str) -> Expression {
        Expression::Variable(name.into())
    }

    fn doubled(value: Datum) -> Result<Datum> {
        match value {
            Datum::Long(number) => Ok(Datum::Long(number * 2)),
            Datum::Text(text) => Ok(Datum::Text(text.repeat(2))),
        }
    }

    /// Runs a procedure that doubles a column. Returns its result for `key`, and the column afterwards.
    fn run(column: &str, function: &str, key: Datum) -> (Result<Datum>, String) {
        let db = Database::in_memory(Options { workers: 1, ..Options::default() }).unwrap();
        let table: Table<u64, str> = db.table("names").unwrap();
        db.run(async move |tx| tx.put(table, 7, "Ada").await).wait().unwrap();
        let mut names = Names::default();
        names.table("names", db.raw_table("names").unwrap(), Type::Long, ("name", Type::Text));
        names.function("doubled", doubled);
        let call = Expression::Call { function: function.into(), argument: Box::new(variable("found")) };
        let (table_name, column) = ("names".to_owned(), column.to_owned());
        let statements = vec![
            Statement::Select {
                table: table_name.clone(),
                column: column.clone(),
                key: variable("which"),
                into: "found".into(),
            },
            Statement::Update { table: table_name, column, key: variable("which"), value: call },
        ];
        let procedure = std::sync::Arc::new(Procedure { names, statements });
        let found = db
            .run(async move |tx| Ok(procedure.call(tx, &[("which", key.clone())]).await?["found"].clone()))
            .wait();
        let after = db.begin().unwrap().get(table, 7).unwrap().unwrap().to_owned();
        (found, after)
    }

    #[test]
    fn statements_read_and_write_columns_by_name() {
        // Proves that the procedure selects, computes and writes the row's value. Each kind of unknown name, wrong type
        // and missing row is an error that names it and does not change the row.
        let (found, after) = run("name", "doubled", Datum::Long(7));
        assert_eq!((found.unwrap(), &*after), (Datum::Text("Ada".into()), "AdaAda"));
        let wrong = [
            ("age", "doubled", Datum::Long(7), "column \"age\""),
            ("name", "halved", Datum::Long(7), "function \"halved\""),
            ("name", "doubled", Datum::Text("x".into()), "not of type Long"),
            ("name", "doubled", Datum::Long(8), "no row Long(8)"),
        ];
        for (column, function, key, says) in wrong {
            let (found, after) = run(column, function, key);
            let error = found.unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert_eq!(after, "Ada");
        }
    }
}
