//! Access to rows by the names of tables and columns. The names are looked up each time that they are used, and the
//! types of values are known only then. Transactions of this form show how much compiled access to rows saves (Bang et
//! al., "The full story of 1000 cores", VLDB Journal 2022, section 3.3).

use crate::columns::{Column, Columns, Datum};
use crate::rows;
use braiddb::tools::RawTable;
use braiddb::{ConcurrencyControl as Scheme, Database, Error, Key, Result, Txn};
use std::borrow::Cow;
use std::collections::HashMap;

/// A table as its catalog describes it.
#[derive(Debug)]
struct Shape {
    rows: RawTable,
    row_bytes: usize,
    columns: HashMap<String, Column>,
}

/// The tables that NewOrder and Payment use.
#[derive(Debug)]
pub(crate) struct Catalog {
    tables: HashMap<String, Shape>,
}

/// A row of a table that the catalog knows.
#[derive(Debug)]
pub(crate) struct NamedRow<'c, 't> {
    shape: &'c Shape,
    bytes: Cow<'t, [u8]>,
}

impl Catalog {
    /// Describes the tables of this database, which must exist.
    pub(crate) fn open<C: Scheme>(db: &Database<C>) -> Result<Catalog> {
        let mut catalog = Catalog { tables: HashMap::new() };
        catalog.add::<C, rows::Warehouse>(db, "warehouse")?;
        catalog.add::<C, rows::DistrictRow>(db, "district")?;
        catalog.add::<C, rows::Customer>(db, "customer")?;
        catalog.add::<C, rows::History>(db, "history")?;
        catalog.add::<C, rows::Order>(db, "order")?;
        catalog.add::<C, ()>(db, "new order")?;
        catalog.add::<C, rows::OrderLine>(db, "order line")?;
        catalog.add::<C, rows::Item>(db, "item")?;
        catalog.add::<C, rows::Stock>(db, "stock")?;
        Ok(catalog)
    }

    fn add<C: Scheme, R: Columns>(&mut self, db: &Database<C>, name: &str) -> Result<()> {
        let rows = db.raw_table(name).ok_or_else(|| unknown("table", name))?;
        let columns = R::columns().into_iter().collect();
        self.tables.insert(name.to_owned(), Shape { rows, row_bytes: size_of::<R>(), columns });
        Ok(())
    }

    fn shape(&self, table: &str) -> Result<&Shape> {
        self.tables.get(table).ok_or_else(|| unknown("table", table))
    }

    /// Returns the row with this key.
    pub(crate) async fn find<'c, 't, C: Scheme>(
        &'c self,
        tx: &'t Txn<C>,
        table: &str,
        key: u64,
    ) -> Result<Option<NamedRow<'c, 't>>> {
        let shape = self.shape(table)?;
        let bytes = shape.rows.get(tx, &encoded(key)).await?;
        Ok(bytes.map(|bytes| NamedRow { shape, bytes: Cow::Borrowed(bytes) }))
    }

    /// Returns the row with this key, which must exist.
    pub(crate) async fn get<'c, 't, C: Scheme>(
        &'c self,
        tx: &'t Txn<C>,
        table: &str,
        key: u64,
    ) -> Result<NamedRow<'c, 't>> {
        let row = self.find(tx, table, key).await?;
        row.ok_or_else(|| Error::user(format!("there is no {table} with key {key:#x}")))
    }

    /// Makes a row to be inserted, of zeros and empty texts.
    pub(crate) fn new_row<'t>(&self, table: &str) -> Result<NamedRow<'_, 't>> {
        let shape = self.shape(table)?;
        Ok(NamedRow { shape, bytes: Cow::Owned(vec![0; shape.row_bytes]) })
    }
}

impl NamedRow<'_, '_> {
    fn column(&self, name: &str) -> Result<Column> {
        self.shape.columns.get(name).copied().ok_or_else(|| unknown("column", name))
    }

    pub(crate) async fn insert<C: Scheme>(&self, tx: &Txn<C>, key: u64) -> Result<()> {
        self.shape.rows.insert(tx, &encoded(key), &self.bytes).await
    }

    pub(crate) async fn put<C: Scheme>(&self, tx: &Txn<C>, key: u64) -> Result<()> {
        self.shape.rows.put(tx, &encoded(key), &self.bytes).await
    }

    pub(crate) fn get(&self, column: &str) -> Result<Datum> {
        Ok(self.column(column)?.read(&self.bytes))
    }

    pub(crate) fn number(&self, column: &str) -> Result<i64> {
        match self.get(column)? {
            Datum::Number(number) => Ok(number),
            Datum::Text(_) => Err(Error::user(format!("column {column:?} is no number"))),
        }
    }

    pub(crate) fn text(&self, column: &str) -> Result<Vec<u8>> {
        match self.get(column)? {
            Datum::Text(text) => Ok(text),
            Datum::Number(_) => Err(Error::user(format!("column {column:?} is no text"))),
        }
    }

    pub(crate) fn set(&mut self, column: &str, value: impl Into<Datum>) -> Result<()> {
        let (place, value) = (self.column(column)?, value.into());
        match place.write(self.bytes.to_mut(), &value) {
            true => Ok(()),
            false => Err(Error::user(format!("column {column:?} does not hold {value:?}"))),
        }
    }

    pub(crate) fn add(&mut self, column: &str, number: i64) -> Result<()> {
        self.set(column, self.number(column)? + number)
    }
}

fn encoded(key: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode(true, &mut bytes);
    bytes
}

#[cold]
fn unknown(what: &str, name: &str) -> Error {
    Error::user(format!("the catalog has no {what} {name:?}"))
}
