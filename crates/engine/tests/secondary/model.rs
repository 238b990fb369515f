//! Random transactions against a `BTreeMap`, in every way of running a transaction.

use super::*;
use braiddb::Error;
use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend};
use braiddb::worker::{Worker, WorkerOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;

#[derive(Clone, Debug)]
enum Act {
    Put,
    Insert,
    Update,
    Delete,
    /// Reads the row, and writes it.
    GetAndPut,
    GetForUpdateAndPut,
    GetForUpdateAndDelete,
    /// Compares everything.
    Compare,
    Range(u32, u32),
}

type Step = (Act, u32, Row);

#[derive(Clone, Copy, Debug)]
enum Way {
    Interleaved,
    Naive,
    Prefetching,
    Seeded,
    Interactive,
}

/// Returns true if another row has the number that this row would have.
fn holder(rows: &Rows, id: &Id, row: &Row) -> bool {
    row.number > 0 && rows.iter().any(|(other, there)| other != id && there.number == row.number)
}

async fn write<C: ConcurrencyControl>(tx: &Txn<C>, t: Tables, rows: &mut Rows, step: &Step) -> Result<()> {
    let (act, n, row) = step;
    let id = id(*n);
    let there = rows.contains_key(&id);
    let writes = match act {
        Act::Insert => !there,
        Act::Update => there,
        _ => true,
    };
    let result = match act {
        Act::Insert => tx.insert(t.rows, &id, row).await,
        Act::Update => tx.update(t.rows, &id, row).await.map(|found| assert_eq!(found, there)),
        _ => tx.put(t.rows, &id, row).await,
    };
    match result {
        Ok(()) if writes => {
            assert!(!holder(rows, &id, row), "{id:?} {row:?}");
            rows.insert(id, *row);
        }
        Ok(()) => assert!(matches!(act, Act::Update)),
        Err(Error::KeyExists) => assert!(there && matches!(act, Act::Insert)),
        Err(Error::UniqueViolation { index }) => {
            assert_eq!(index, "by number");
            assert!(writes && holder(rows, &id, row), "{id:?} {row:?}");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn step<C: ConcurrencyControl>(tx: &Txn<C>, t: Tables, rows: &mut Rows, step: &Step) -> Result<()> {
    let id = id(step.1);
    let expected = rows.get(&id).copied();
    match &step.0 {
        Act::GetAndPut => assert_eq!(tx.get(t.rows, &id).await?.copied(), expected),
        Act::GetForUpdateAndPut | Act::GetForUpdateAndDelete => {
            assert_eq!(tx.get_for_update(t.rows, &id).await?.copied(), expected);
        }
        _ => {}
    }
    match &step.0 {
        Act::Delete | Act::GetForUpdateAndDelete => {
            assert_eq!(tx.delete(t.rows, &id).await?, rows.remove(&id).is_some());
        }
        Act::Compare => check_indexes(tx, t, rows).await?,
        Act::Range(from, to) => {
            let (mut found, mut keys) = (tx.scan_by(t.by_color, *from..=*to).limit(3), vec![]);
            while let Some((color, id, row)) = found.next().await? {
                assert_eq!(color, row.color);
                keys.push((color, id));
            }
            let expected = indexed(rows, |_, row| (*from..=*to).contains(&row.color).then_some(row.color));
            assert!(keys.into_iter().eq(expected.into_iter().map(|(color, id, _)| (color, id)).take(3)));
        }
        _ => write(tx, t, rows, step).await?,
    }
    Ok(())
}

async fn plan<C: ConcurrencyControl>(
    tx: &Txn<C>,
    t: Tables,
    rows: &RefCell<Rows>,
    steps: &[Step],
    commits: bool,
) -> Result<()> {
    let mut after = rows.borrow().clone();
    for one in steps {
        step(tx, t, &mut after, one).await?;
    }
    check_indexes(tx, t, &after).await?;
    if !commits {
        return Err(Error::user("rolled back"));
    }
    *rows.borrow_mut() = after;
    Ok(())
}

fn run_by<S: Suspend>(
    db: &Database,
    policy: S,
    t: Tables,
    rows: &RefCell<Rows>,
    steps: &[Step],
    commits: bool,
) -> Result<()> {
    let mut worker: Worker<_, S> = db.worker_with(policy, WorkerOptions::default());
    worker.run(async |tx| plan(tx, t, rows, steps, commits).await)
}

fn check(plans: &[(Vec<Step>, Way, bool)], seed: u64) {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let rows = RefCell::new(Rows::new());
    for (steps, way, commits) in plans {
        let result = match way {
            Way::Interleaved => run_by(&db, OnMiss, t, &rows, steps, *commits),
            Way::Naive => run_by(&db, Never, t, &rows, steps, *commits),
            Way::Prefetching => run_by(&db, PrefetchOnly, t, &rows, steps, *commits),
            Way::Seeded => run_by(&db, Seeded::new(seed), t, &rows, steps, *commits),
            Way::Interactive => {
                let tx = db.begin().unwrap();
                let result = tx.with(async |tx| plan(tx, t, &rows, steps, *commits).await);
                result.and_then(|()| tx.commit())
            }
        };
        assert_eq!(result.is_ok(), *commits, "{result:?}");
        let after = db.begin().unwrap();
        let expected = rows.borrow().clone();
        after.with(async |tx| check_indexes(tx, t, &expected).await).unwrap();
    }
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Put),
        2 => Just(Act::Insert),
        2 => Just(Act::Update),
        2 => Just(Act::Delete),
        1 => Just(Act::GetAndPut),
        1 => Just(Act::GetForUpdateAndPut),
        1 => Just(Act::GetForUpdateAndDelete),
        1 => Just(Act::Compare),
        1 => (0u32..5, 0u32..5).prop_map(|(from, to)| Act::Range(from, to)),
    ]
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Way::Interleaved),
        Just(Way::Naive),
        Just(Way::Prefetching),
        Just(Way::Seeded),
        Just(Way::Interactive)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Proves that every index finds what a model of the rows says, within each transaction and after it, whether it
    /// commits or not, and that a unique index refuses exactly what it should.
    #[test]
    fn indexes_agree_with_a_model(
        plans in vec((vec((acts(), 0u32..12, any::<u64>()), 1..12), ways(), any::<bool>()), 1..16),
        seed in any::<u64>(),
    ) {
        let steps = |steps: Vec<(Act, u32, u64)>| -> Vec<Step> {
            steps.into_iter().map(|(act, n, mut seed)| (act, n, random_row(&mut seed))).collect()
        };
        let plans: Vec<_> = plans.into_iter().map(|(all, way, commits)| (steps(all), way, commits)).collect();
        check(&plans, seed);
    }
}
