//! A program of the second version opens a database that the first version has written. A field is added, another has
//! a new type, and a table has a new name. Rows are upgraded when they are read, and rewritten while the database is
//! in use.
//!
//! `cargo run --example migration --features derive`

use braiddb::{Database, Options, Result, Table};

/// The program as it was.
mod before {
    use braiddb::{Database, Result, Table, Value};

    /// A customer.
    #[derive(Value)]
    #[braid(name = "customer")]
    pub struct Customer {
        /// First and last name.
        pub name: String,
        /// In whole units.
        pub balance: u32,
    }

    /// Writes a few customers.
    pub fn write(db: &Database, count: u64) -> Result<()> {
        let customers: Table<u64, Customer> = db.table("customer")?;
        for number in 0..count {
            let customer = Customer { name: format!("customer {number}"), balance: number as u32 };
            db.transact(|tx| tx.put(customers, number, &customer))?;
        }
        Ok(())
    }
}

/// The program as it is now.
mod now {
    use super::before;
    use braiddb::Value;

    /// A customer.
    #[derive(Value, Debug, PartialEq)]
    #[braid(name = "customer", version = 2, previous = before::Customer)]
    pub struct Customer {
        /// First and last name.
        pub name: String,
        /// In hundredths, and signed: there are debts now, and halves.
        pub balance: i64,
        /// Customers of the first version have no email addresses.
        pub emails: Vec<String>,
    }

    impl From<before::Customer> for Customer {
        fn from(old: before::Customer) -> Customer {
            Customer { name: old.name, balance: i64::from(old.balance) * 100, emails: Vec::new() }
        }
    }
}

/// Runs the example.
pub fn main() -> Result<()> {
    const COUNT: u64 = 1000;
    let directory = std::env::temp_dir().join(format!("braid-migration-{}", std::process::id()));
    before::write(&Database::open(&directory, Options::default())?, COUNT)?;

    // A copy, in case the program of the first version is needed again. Once the second version has opened the
    // database, the first version is refused.
    let db = Database::open(&directory, Options::default())?;
    let copy = directory.with_extension("copy");
    db.backup(&copy)?;

    db.rename_table("customer", "customers")?;
    let customers: Table<u64, now::Customer> = db.table("customers")?;
    // The table is usable at once: old rows are upgraded when they are read.
    let third = db.transact(|tx| tx.get(customers, 3))?;
    assert_eq!(third, Some(now::Customer { name: "customer 3".into(), balance: 300, emails: Vec::new() }));

    // Rewrites a few hundred rows per transaction. The call may be interrupted and repeated.
    let rewritten = db.migrate(customers)?;
    println!("{rewritten} rows rewritten");
    assert_eq!(rewritten, COUNT);
    drop(db);

    before::write(&Database::open(&copy, Options::default())?, COUNT)?;
    for made in [directory, copy] {
        std::fs::remove_dir_all(made).map_err(braiddb::Error::user)?;
    }
    Ok(())
}
