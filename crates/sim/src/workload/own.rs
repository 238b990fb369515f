//! A transaction sees its own writes at once, also in scans. Otherwise it sees what it saw first, and what it has
//! borrowed stays as it was. Each attempt carries a model of what it must see: all rows at its beginning, and its own
//! changes.

use super::{Made, Workload, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result, Table, Txn};
use std::collections::BTreeMap;
use std::rc::Rc;

type Rows = Table<String, [u8]>;
type Model = BTreeMap<String, Vec<u8>>;

struct Own {
    rows: Rows,
    ledger: Ledger,
    keys: Rc<[String]>,
}

const OPERATIONS_MAX: u64 = 12;
const VALUE_BYTES_MAX: u64 = 100;

/// The workload.
pub fn own<C: ConcurrencyControl>(database: &Database<C>, random: &mut Random, ledger: &Ledger) -> Made<C> {
    let rows: Rows = database.table("own")?;
    let keys: Rc<[String]> = keys().into();
    let tx = database.begin()?;
    for key in keys.iter().step_by(2) {
        tx.insert(rows, key, &value(random))?;
    }
    tx.commit()?;
    Ok(Box::new(Own { rows, ledger: ledger.clone(), keys }))
}

/// Returns short and long keys. They are prefixes of one another, or share two and a half slices.
fn keys() -> Vec<String> {
    let mut keys: Vec<String> =
        ["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\0"].map(String::from).into();
    keys.extend((0..10).map(|i| format!("a common beginning, key {i}")));
    keys.extend((0..10).map(|i| format!("key {i}")));
    keys
}

fn value(random: &mut Random) -> Vec<u8> {
    let bytes = random.below(VALUE_BYTES_MAX) as usize;
    vec![random.any() as u8; bytes]
}

impl<C: ConcurrencyControl> Workload<C> for Own {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, ledger, keys) = (self.rows, self.ledger.clone(), self.keys.clone());
        let (seed, operations) = (random.any(), random.between(1, OPERATIONS_MAX));
        let body =
            async move |tx: &Txn<C>| attempt(tx, rows, &keys, &ledger, Random::new(seed), operations).await;
        submitter.spawn(body, |()| ());
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let (mut rows, mut seen) = (observer.transaction().scan_prefix(self.rows, b""), 0);
        while let Some((key, value)) = rows.next()? {
            seen = digest(digest(seen, key.as_bytes()), value);
        }
        Ok(seen.into())
    }
}

async fn attempt<C: ConcurrencyControl>(
    tx: &Txn<C>,
    rows: Rows,
    keys: &[String],
    ledger: &Ledger,
    mut random: Random,
    operations: u64,
) -> Result<()> {
    let mut model = Model::new();
    let mut held: Vec<(&[u8], Vec<u8>)> = Vec::new();
    let mut scan = tx.scan_all(rows);
    while let Some((key, value)) = scan.next().await? {
        held.push((value, value.to_vec()));
        model.insert(key, value.to_vec());
    }
    drop(scan);
    for _ in 0..operations {
        change(tx, rows, random.one_of(keys), &mut model, ledger, &mut random).await?;
        let key = random.one_of(keys);
        let got = tx.get(rows, key).await?;
        ledger.check_open(got == model.get(key).map(Vec::as_slice), || {
            format!("under {key:?} is {got:?}, not {:?}", model.get(key))
        })?;
        held.extend(got.map(|got| (got, got.to_vec())));
        if random.chance(30) {
            compare(tx, rows, keys, &model, ledger, &mut random).await?;
        }
    }
    compare(tx, rows, keys, &model, ledger, &mut random).await?;
    for (borrowed, copy) in held {
        ledger.check(borrowed == copy, || format!("a borrowed value {copy:?} became {borrowed:?}"));
    }
    if random.chance(10) { Err(Error::user("changed its mind")) } else { Ok(()) }
}

/// Makes one write, in the transaction and in the model.
async fn change<C: ConcurrencyControl>(
    tx: &Txn<C>,
    rows: Rows,
    key: &String,
    model: &mut Model,
    ledger: &Ledger,
    random: &mut Random,
) -> Result<()> {
    let (value, existed) = (value(random), model.contains_key(key));
    let answered = match random.below(4) {
        0 => {
            tx.put(rows, key, &value).await?;
            model.insert(key.clone(), value);
            existed
        }
        1 => match tx.insert(rows, key, &value).await {
            Ok(()) => model.insert(key.clone(), value).is_some(),
            Err(Error::KeyExists) => true,
            Err(error) => return Err(error),
        },
        2 => {
            let was = tx.update(rows, key, &value).await?;
            if was {
                model.insert(key.clone(), value);
            }
            was
        }
        _ => {
            model.remove(key);
            tx.delete(rows, key).await?
        }
    };
    ledger.check_open(answered == existed, || {
        format!("a write under {key:?} found a row: {answered}, not {existed}")
    })
}

/// Compares a scan over some range, in some direction, with the model.
async fn compare<C: ConcurrencyControl>(
    tx: &Txn<C>,
    rows: Rows,
    keys: &[String],
    model: &Model,
    ledger: &Ledger,
    random: &mut Random,
) -> Result<()> {
    let (mut from, mut to) = (random.one_of(keys), random.one_of(keys));
    if from > to {
        (from, to) = (to, from);
    }
    let is_reverse = random.chance(50);
    let scan = tx.scan::<_, _, &String>(rows, from..=to);
    let mut scan = if is_reverse { scan.reverse() } else { scan };
    let mut got = Vec::new();
    while let Some((key, value)) = scan.next().await? {
        got.push((key, value.to_vec()));
    }
    let mut expected: Vec<_> =
        model.range(from.clone()..=to.clone()).map(|(key, value)| (key.clone(), value.clone())).collect();
    if is_reverse {
        expected.reverse();
    }
    ledger.check_open(got == expected, || format!("a scan returned {got:?}, not {expected:?}"))
}
