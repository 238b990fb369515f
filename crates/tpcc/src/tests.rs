//! Compares the transactions with results that are computed without them, and checks the conditions.

mod planted;

use super::inputs::{Input, NewOrder, Query2, StockLevel};
use super::keys::{District, item_of_stock, order_of, stock};
use super::rows::{Customer, Stock, Text, zeroed};
use super::*;
use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::suspend::{Never, OnMiss};
use braiddb::worker::WorkerOptions;
use braiddb::{Durability, Error, Front, HStore, IndexKind, Options, Plain, Serializable, Table};
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const SEED: u64 = 3;
const FUTURE_BYTES_MAX: usize = 4096;
/// The number of transactions open at a time when they are interleaved.
const BATCH: usize = 8;

fn small(mix: Mix) -> Settings {
    Settings { mix, ..Settings::new(Scale::small(2)) }
}

/// Options with the kind of index whose ranges the benchmark's runs do not test, and with a hash table in front of it.
fn options() -> Options {
    Options { workers: 0, index: IndexKind::BTree, front: Front::Hash, ..Options::default() }
}

/// Makes a filled database in memory.
fn loaded<C: Scheme>(settings: Settings, seed: u64, threads: usize) -> Result<(Database<C>, Tpcc)> {
    let db = Database::in_memory_with(options(), Arc::new(SystemClock::default()))?;
    let suite = Tpcc::load(&db, settings, seed, threads, &|_, _| {})?;
    Ok((db, suite))
}

/// Runs a transaction by itself.
fn alone<C: Scheme, R>(db: &Database<C>, body: impl AsyncFnMut(&Txn<C>) -> Result<R>) -> Result<R> {
    db.worker_with(Never, WorkerOptions { batch: 1.into(), ..WorkerOptions::default() }).run(body)
}

/// Returns what a terminal would show.
async fn output(suite: &Tpcc, tx: &Txn, input: &Input, many: bool) -> Result<u64> {
    let (tables, scale) = (&suite.tables, &suite.settings.scale);
    match input {
        Input::NewOrder(input) => new_order::new_order(tables, tx, input, many).await,
        Input::Payment(input) => payment::payment(tables, tx, input).await,
        Input::OrderStatus(input) => order_status::order_status(tables, tx, input).await,
        Input::Delivery(input) => delivery::delivery(tables, tx, input, scale.districts as u8).await,
        Input::StockLevel(input) => stock_level::stock_level(tables, tx, input, many).await,
        Input::Query2(input) => query2::query2(tables, scale, tx, input, many).await,
    }
}

/// Runs this many transactions on each worker, interleaved.
fn run<C: Scheme>(db: &Database<C>, suite: &Tpcc, workers: usize, transactions: usize, seed: u64) {
    let work = |place: usize| {
        let mut source = suite.inputs((place, workers), seed);
        let inputs = std::iter::repeat_with(|| source.next()).take(transactions);
        let mut worker =
            db.worker_with(OnMiss, WorkerOptions { batch: BATCH.into(), ..WorkerOptions::default() });
        worker.set_retries_max(1_000_000);
        worker.run_each(
            inputs,
            async |tx: &Txn<C>, input| suite.transaction(tx, input, false).await,
            |result| match result {
                Ok(_) => {}
                Err(Error::User(error)) if error.is::<UnusedItem>() => {}
                Err(error) => panic!("{error}"),
            },
        );
    };
    std::thread::scope(|scope| {
        (0..workers).for_each(|place| {
            scope.spawn(move || work(place));
        });
    });
}

/// Reads all rows of a table.
fn rows<C: Scheme, T>(db: &Database<C>, table: Table<u64, Plain<T>>) -> BTreeMap<u64, T>
where
    T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static,
{
    alone(db, async |tx: &Txn<C>| {
        let (mut rows, mut all) = (tx.scan_all(table), BTreeMap::new());
        while let Some((key, row)) = rows.next().await? {
            all.insert(key, *row);
        }
        Ok(all)
    })
    .unwrap()
}

/// The rows of a table as bytes, to compare databases.
fn bytes<C: Scheme, T>(db: &Database<C>, table: Table<u64, Plain<T>>) -> Vec<(u64, Vec<u8>)>
where
    T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static,
{
    rows(db, table).into_iter().map(|(key, row)| (key, row.as_bytes().to_vec())).collect()
}

/// Returns all tables that transactions change.
fn contents<C: Scheme>(db: &Database<C>, tables: &Tables) -> Vec<Vec<(u64, Vec<u8>)>> {
    vec![
        bytes(db, tables.warehouses),
        bytes(db, tables.districts),
        bytes(db, tables.customers),
        bytes(db, tables.history),
        bytes(db, tables.orders),
        bytes(db, tables.lines),
        bytes(db, tables.stocks),
    ]
}

/// The numbers of the conditions that do not hold, and the details.
fn violated<C: Scheme>(db: &Database<C>, suite: &Tpcc) -> (Vec<usize>, Vec<String>) {
    let violations = suite.violations(db, 2).unwrap();
    assert_eq!(violations.len(), CONDITIONS.len());
    let violated =
        violations.into_iter().zip(1..).filter_map(|(violation, number)| Some((number, violation?)));
    violated.unzip()
}

#[test]
fn what_is_loaded_has_its_size_and_holds_the_conditions() {
    // Proves the numbers of rows of clause 4.3.3 at a smaller scale, the values of some columns, and all conditions.
    let (db, suite) = loaded::<Serializable>(small(Mix::Full), SEED, 2).unwrap();
    let tables = &suite.tables;
    assert_eq!(rows(&db, tables.items).len(), 200);
    assert_eq!(rows(&db, tables.stocks).len(), 400);
    assert_eq!(rows(&db, tables.districts).len(), 20);
    let customers = rows(&db, tables.customers);
    assert_eq!(customers.len(), 1200);
    assert_eq!(rows(&db, tables.history).len(), 1200);
    let bad = customers.values().filter(|row| row.credit == *b"BC").count();
    assert!((70..180).contains(&bad), "{bad} of 1200 have bad credit");
    let orders = rows(&db, tables.orders);
    assert_eq!(orders.len(), 1200);
    assert_eq!(orders.values().filter(|order| order.carrier == 0).count(), 20 * 18);
    let lines = rows(&db, tables.lines);
    assert!(lines.values().all(|line| (line.delivered == 0) == (line.amount > 0)));
    let of_one: BTreeSet<u16> =
        orders.range(District::new(2, 3).orders()).map(|(_, order)| order.customer).collect();
    assert!(of_one.into_iter().eq(1..=60), "each customer has one order");
    assert_eq!(violated(&db, &suite).0, [0; 0]);
}

#[test]
fn loading_twice_gives_the_same() {
    // Proves that the loaded rows depend only on the seed, not on the number of threads.
    let (one, suite) = loaded::<Serializable>(small(Mix::Full), SEED, 1).unwrap();
    let (two, other) = loaded::<braiddb::Snapshot>(small(Mix::Full), SEED, 3).unwrap();
    assert_eq!(contents(&one, &suite.tables), contents(&two, &other.tables));
}

#[test]
fn what_is_opened_again_is_what_was_closed() {
    // Proves that closing and opening changes no row with columns, and that transactions continue with the rebuilt
    // indexes.
    let storage = Arc::new(MemoryStorage::new(1 << 30));
    let open = || {
        let options = Options { durability: Durability::Async, ..options() };
        let clock = Arc::new(SystemClock::default());
        Database::<Serializable>::open_with(storage.clone(), options, clock, &mut |_| {}).unwrap()
    };
    let db = open();
    let suite = Tpcc::load(&db, small(Mix::Full), SEED, 2, &|_, _| {}).unwrap();
    run(&db, &suite, 2, 400, SEED);
    let before = contents(&db, &suite.tables);
    db.close().unwrap();
    let db = open();
    let suite = suite.of(&db).unwrap();
    assert_eq!(contents(&db, &suite.tables), before);
    run(&db, &suite, 2, 400, SEED + 1);
    assert_eq!(violated(&db, &suite).0, [0; 0]);
}

#[test]
fn one_order_of_a_hundred_leaves_nothing() {
    // Proves that an order with an item that does not exist ends with its own error and changes no row.
    let (db, suite) = loaded::<Serializable>(small(Mix::NewOrder), SEED, 2).unwrap();
    let mut source = suite.inputs((0, 1), SEED);
    let mut inputs = std::iter::repeat_with(|| source.next());
    let input = inputs.find(|input| input.rolls_back()).unwrap();
    let before = contents(&db, &suite.tables);
    for many in [false, true] {
        let result = alone(&db, async |tx: &Txn| suite.transaction(tx, &input, many).await);
        let Err(Error::User(error)) = result else { panic!("{result:?}") };
        assert!(error.is::<UnusedItem>(), "{error}");
    }
    assert_eq!(contents(&db, &suite.tables), before);
}

/// Returns the first name and the number of the customer in the middle.
async fn by_last_name(
    suite: &Tpcc,
    tx: &Txn,
    district: District,
    last: &Text<16>,
) -> Result<Option<([u8; 16], u16)>> {
    let found = suite.tables.customer_by_last_name(tx, district, last).await?;
    Ok(found.map(|(number, row)| (*row.first.padded(), number)))
}

#[test]
fn the_middle_customer_is_found_by_name() {
    // Proves clause 2.5.2.2 for any number of customers with one name, with equal first names among them, against
    // sorting.
    let (db, suite) = loaded::<Serializable>(small(Mix::Payment), SEED, 2).unwrap();
    let (tables, mut rng) = (&suite.tables, Rng::new(SEED));
    let last = Text::new(b"BRAID");
    for count in (0..=40).chain([63, 64, 65, 200]) {
        // A separate district, beyond the districts that were loaded.
        let district = District::new(3 + count, 1);
        let mut sorted = Vec::new();
        alone(&db, async |tx: &Txn| {
            for number in 1..=count {
                let first = Text::new(&vec![b'A' + rng.below(3) as u8; 1 + rng.below(5) as usize]);
                let row = Customer { first, last, ..zeroed() };
                tx.insert(tables.customers, district.customer(number), &row).await?;
                sorted.push((*first.padded(), number));
            }
            Ok(())
        })
        .unwrap();
        sorted.sort_unstable();
        let expected = sorted.get(usize::from(count).div_ceil(2).wrapping_sub(1)).copied();
        let found = alone(&db, async |tx: &Txn| by_last_name(&suite, tx, district, &last).await);
        assert_eq!(found.unwrap(), expected, "{count} customers");
    }
}

#[test]
fn every_loaded_name_is_found() {
    // Proves the same for the loaded customers, and that every requested name exists.
    let (db, suite) = loaded::<Serializable>(small(Mix::Payment), SEED, 2).unwrap();
    let customers = rows(&db, suite.tables.customers);
    let mut shared = 0;
    for district in suite.settings.scale.districts() {
        for name in 0..suite.settings.scale.names() as u16 {
            let last = random::last_name(name);
            let all = district.customer(1)..=district.customer(60);
            let same = customers.range(all).filter(|(_, row)| row.last == last);
            let mut sorted: Vec<_> =
                same.map(|(key, row)| (*row.first.padded(), (key & 4095) as u16)).collect();
            sorted.sort_unstable();
            shared += usize::from(sorted.len() > 1);
            let found = alone(&db, async |tx: &Txn| by_last_name(&suite, tx, district, &last).await);
            assert_eq!(found.unwrap(), Some(sorted[sorted.len().div_ceil(2) - 1]));
        }
    }
    assert!(shared > 100, "{shared} names are shared");
}

#[test]
fn the_newest_order_is_found() {
    // Proves, after a run, that a customer's newest order is the order with the greatest number.
    let (db, suite) = loaded::<Serializable>(small(Mix::NewOrder), SEED, 2).unwrap();
    run(&db, &suite, 2, 500, SEED);
    let mut newest = BTreeMap::new();
    for (key, order) in rows(&db, suite.tables.orders) {
        let found = (order_of(key), order.customer, order.lines, order.entered);
        newest.insert((key >> 32, order.customer), found);
    }
    assert_eq!(newest.len(), 1200);
    for district in suite.settings.scale.districts() {
        for customer in 1..=60 {
            let found = alone(&db, async |tx: &Txn| {
                let found = suite.tables.newest_order(tx, district, customer).await?;
                Ok(found.map(|(number, order)| (number, order.customer, order.lines, order.entered)))
            });
            assert_eq!(found.unwrap(), newest.get(&(district.key(), customer)).copied());
        }
    }
}

#[test]
fn stock_level_is_what_counting_gives() {
    // Proves the number of items for every district and threshold, with and without multi-gets, against brute force.
    let (db, suite) = loaded::<Serializable>(small(Mix::Full), SEED, 2).unwrap();
    run(&db, &suite, 2, 500, SEED);
    let (stocks, lines) = (rows(&db, suite.tables.stocks), rows(&db, suite.tables.lines));
    let districts = rows(&db, suite.tables.districts);
    let mut total = 0;
    for district in suite.settings.scale.districts() {
        let next = districts[&district.key()].next_order;
        let items: BTreeSet<u32> =
            lines.range(district.lines(next - 20..=next - 1)).map(|(_, line)| line.item).collect();
        for threshold in 10..=20 {
            let is_low = |item: &&u32| stocks[&stock(district.warehouse(), **item)].quantity < threshold;
            let expected = items.iter().filter(is_low).count() as u64;
            total += expected;
            for many in [false, true] {
                let input = Input::StockLevel(StockLevel { district, threshold });
                let found = alone(&db, async |tx: &Txn| output(&suite, tx, &input, many).await);
                assert_eq!(found.unwrap(), expected, "{input:?}");
            }
        }
    }
    assert!(total > 100);
}

#[test]
fn stock_level_by_columns() {
    // Proves that every layout gives the result of the rows, also after writes that the columns do not contain.
    let (db, suite) = loaded::<Serializable>(small(Mix::Full), SEED, 2).unwrap();
    let layouts = [Layout::Records, Layout::Nsm, Layout::Pax, Layout::Dsm, Layout::Lines];
    let levels = layouts.map(|layout| StockLevels::new(&suite, &db, layout).unwrap());
    for _ in 0..2 {
        for district in suite.settings.scale.districts() {
            let input = Input::StockLevel(StockLevel { district, threshold: 15 });
            let tx = db.begin().unwrap();
            tx.declare_read_only();
            let found = levels.each_ref().map(|levels| levels.run(&tx, &input).unwrap());
            assert_eq!(found, [found[0]; 5], "{input:?}");
        }
        run(&db, &suite, 2, 500, SEED);
    }
}

/// Returns the stocks after Q2* of a region.
fn after_query2(suite: &Tpcc, mut stocks: BTreeMap<u64, Stock>, region: u32) -> BTreeMap<u64, i32> {
    let scale = &suite.settings.scale;
    for supplier in 0..scale.suppliers {
        if regions::NATIONS[supplier as usize % regions::NATIONS.len()].1 != region {
            continue;
        }
        let supplied = |key: u64| (key >> 24) as u32 * item_of_stock(key) % scale.supplied_by() == supplier;
        let least = stocks.iter_mut().filter(|(key, _)| supplied(**key)).min_by_key(|(_, row)| row.quantity);
        if let Some((_, row)) = least.filter(|(_, row)| row.quantity < query2::LEFT_MIN) {
            row.quantity += query2::ADDED;
        }
    }
    stocks.into_iter().map(|(key, row)| (key, row.quantity)).collect()
}

#[test]
fn query2_fills_up_what_looking_at_all_stocks_finds() {
    // Proves which stocks Q2* changes, for each region, with and without multi-gets, against brute force.
    let (db, suite) = loaded::<Serializable>(small(Mix::NewOrder), SEED, 2).unwrap();
    let quantities = |stocks: &BTreeMap<u64, Stock>| -> BTreeMap<u64, i32> {
        stocks.iter().map(|(key, row)| (*key, row.quantity)).collect()
    };
    let mut changed = 0;
    for region in (0..5).chain(0..5) {
        for many in [false, true] {
            run(&db, &suite, 1, 50, SEED);
            let before = rows(&db, suite.tables.stocks);
            let expected = after_query2(&suite, before.clone(), region);
            changed += usize::from(quantities(&before) != expected);
            let input = Input::Query2(Query2 { region });
            alone(&db, async |tx: &Txn| suite.transaction(tx, &input, many).await).unwrap();
            assert_eq!(quantities(&rows(&db, suite.tables.stocks)), expected, "region {region}");
        }
    }
    assert!(changed > 5, "{changed}");
}

#[test]
fn multi_gets_change_nothing_but_speed() {
    // Proves that the same inputs in the same order give the same outputs and the same database with and without
    // multi-gets. The inputs include rollbacks, and orders that take twice from one stock.
    let scale = Scale { items: 20, suppliers: 2, ..Scale::small(2) };
    let settings = Settings { mix: Mix::Hybrid, remote_items: 20, ..Settings::new(scale) };
    let (plain_db, plain) = loaded::<Serializable>(settings, SEED, 2).unwrap();
    let (many_db, many) = loaded::<Serializable>(settings, SEED, 2).unwrap();
    let mut source = plain.inputs((0, 1), SEED);
    let inputs: Vec<Input> = (0..2000).map(|_| source.next()).collect();
    assert!(inputs.iter().any(|input| matches!(input, Input::NewOrder(NewOrder { repeats: 1.., .. }))));
    assert!(inputs.iter().any(|input| input.rolls_back()));
    let outputs = |db: &Database, suite: &Tpcc, is_many: bool| {
        let mut outputs = Vec::new();
        let options = WorkerOptions { batch: 1.into(), ..WorkerOptions::default() };
        db.worker_with(OnMiss, options).run_each(
            &inputs,
            async |tx: &Txn, input| output(suite, tx, input, is_many).await,
            |result| outputs.push(result.map_err(|error| error.to_string())),
        );
        outputs
    };
    assert_eq!(outputs(&plain_db, &plain, false), outputs(&many_db, &many, true));
    assert_eq!(contents(&plain_db, &plain.tables), contents(&many_db, &many.tables));
    assert_eq!(violated(&many_db, &many).0, [0; 0]);
}

#[test]
fn interpreted_transactions_are_the_same() {
    // Proves that NewOrder and Payment by names show and write the same as the compiled forms, rollbacks included, and
    // that the conditions hold afterwards.
    let (compiled, suite) = loaded::<Serializable>(small(Mix::Narrow), SEED, 2).unwrap();
    let (interpreted, by_names) = loaded::<Serializable>(small(Mix::Narrow), SEED, 2).unwrap();
    let by_names = by_names.with(Settings { interpreted: true, ..small(Mix::Narrow) });
    let mut source = suite.inputs((0, 1), SEED);
    let mut rolled_back = 0;
    for i in 0..1500 {
        let input = source.next();
        let shown = alone(&compiled, async |tx: &Txn| output(&suite, tx, &input, false).await);
        let also = alone(&interpreted, async |tx: &Txn| match &input {
            Input::NewOrder(input) => interpreted::new_order(&by_names.catalog, tx, input).await,
            Input::Payment(input) => {
                interpreted::payment(&by_names.catalog, &by_names.tables, tx, input).await
            }
            other => panic!("{other:?} is not in the mix"),
        });
        match (shown, also) {
            (Ok(shown), Ok(also)) => assert_eq!(shown, also, "{i}: {input:?}"),
            (Err(Error::User(one)), Err(Error::User(other))) => {
                assert!(one.is::<UnusedItem>() && other.is::<UnusedItem>(), "{one} {other}");
                rolled_back += 1;
            }
            (shown, also) => panic!("{i}: {input:?}: {shown:?} {also:?}"),
        }
    }
    assert!(rolled_back > 0, "one of a hundred orders is");
    assert!(contents(&compiled, &suite.tables) == contents(&interpreted, &by_names.tables));
    let _ = by_names.inputs((0, 1), SEED); // the history has rows of the first source
    run(&interpreted, &by_names, 2, 300, SEED);
    assert_eq!(violated(&interpreted, &by_names).0, [0; 0]);
}

#[test]
fn transactions_in_progress_are_short() {
    // Proves that the state that an open transaction of any kind keeps between its steps fits into few bytes.
    let (db, suite) = loaded::<Serializable>(small(Mix::Full), SEED, 1).unwrap();
    let input = suite.inputs((0, 1), SEED).next();
    let bytes = alone(&db, async |tx: &Txn| Ok(size_of_val(&suite.transaction(tx, &input, true))));
    assert!(bytes.as_ref().is_ok_and(|bytes| *bytes <= FUTURE_BYTES_MAX), "{bytes:?}");
}

/// Proves that transactions declare all the partitions that they need: on one worker no transaction aborts, although
/// transactions wait for each other. Also proves that the conditions hold when several workers run the transactions.
#[test]
fn transactions_declare_what_they_need() {
    let settings = Settings { remote_items: 10, remote_payments: 40, ..small(Mix::Full) };
    let (db, suite) = loaded::<HStore>(settings, SEED, 1).unwrap();
    run(&db, &suite, 1, 1000, SEED);
    assert_eq!(db.statistics().aborts_conflict, 0);
    run(&db, &suite, 2, 1000, SEED + 1);
    let hybrid = suite.with(Settings { mix: Mix::Hybrid, ..settings });
    run(&db, &hybrid, 2, 300, SEED + 2);
    let violations = hybrid.violations(&db, 2).unwrap();
    assert!(violations.iter().all(Option::is_none), "{violations:?}");
}
