//! Elements that are added to sets and read by scans. A scan misses no element that was acknowledged before it began,
//! and sees no element whose transaction does not commit. Some writers count the set before they add to it. No two of
//! them may find the same count: if they do, one has missed an element that the other added.

use super::{Made, Workload, digest_rows};
use crate::isolation::Isolation;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

struct Sets {
    rows: Rows,
    ledger: Ledger,
    known: Rc<RefCell<Known>>,
    begun: u64,
    added: u64,
    /// The planted bug: from time to time, the transaction that adds an element also deletes it.
    loses: bool,
}

/// Elements by their keys. A key has the set in its high bits and the element in its low bits.
#[derive(Default)]
struct Known {
    acknowledged: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    /// The counts that the committed writers found, by set.
    counts: BTreeSet<(u64, usize)>,
}

/// The number of transactions after which a new set is begun.
const TRANSACTIONS_PER_SET: u64 = 60;
const ELEMENTS_MAX: u64 = 3;
/// Elements are spread over this many places in their set.
const PLACES: u64 = 1 << 10;

/// The workload.
pub fn sets<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: elements that are acknowledged and not there.
pub fn sets_losing_elements<C: ConcurrencyControl>(
    database: &Database<C>,
    _: &mut Random,
    ledger: &Ledger,
) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, loses: bool) -> Made<C> {
    let (rows, known) = (database.table("sets")?, Rc::default());
    Ok(Box::new(Sets { rows, ledger: ledger.clone(), known, begun: 0, added: 0, loses }))
}

fn key(set: u64, place: u64) -> u64 {
    set << 32 | place
}

impl<C: ConcurrencyControl> Workload<C> for Sets {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let set = self.begun / TRANSACTIONS_PER_SET;
        self.begun += 1;
        if random.chance(50) {
            self.begin_writer(submitter, set, random);
        } else {
            self.begin_reader(submitter, set, random);
        }
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let found = observer.recorded(async |recording| recording.scan(rows, 0..=u64::MAX, false).await)?;
        self.known.borrow_mut().seen.extend(found.iter().map(|(key, _)| key));
        Ok(digest_rows(&found).into())
    }

    fn end(&mut self, database: &Database<C>) -> Result<()> {
        let known = self.known.borrow();
        let tx = database.begin()?;
        let (mut rows, mut found) = (tx.scan::<_, _, u64>(self.rows, ..), BTreeSet::new());
        while let Some((key, _)) = rows.next()? {
            found.insert(key);
        }
        let lost: Vec<_> = known.acknowledged.difference(&found).collect();
        self.ledger.check(lost.is_empty(), || format!("sets have lost the elements {lost:x?}"));
        let extra: BTreeSet<_> =
            known.seen.union(&found).filter(|key| !known.acknowledged.contains(key)).collect();
        self.ledger.check(extra.len() as u64 <= ELEMENTS_MAX * self.ledger.unknown(), || {
            format!("elements {extra:x?} were seen and never committed")
        });
        Ok(())
    }
}

impl Sets {
    fn begin_writer<C: ConcurrencyControl>(
        &mut self,
        submitter: &mut Submitter<'_, C>,
        set: u64,
        random: &mut Random,
    ) {
        let (rows, loses, counts) = (self.rows, self.loses && random.chance(10), random.chance(40));
        let elements: Vec<u64> = (0..random.between(1, ELEMENTS_MAX))
            .map(|_| {
                self.added += 1;
                key(set, self.added.wrapping_mul(0x9e37_79b1) % PLACES) // an odd factor: no two in a set are equal
            })
            .collect();
        let (gives_up, added) = (random.chance(10), elements.clone());
        let body = async move |recording: &Recording<'_, C>| {
            let mut count = None;
            if counts {
                count = Some(recording.scan(rows, key(set, 0)..=key(set, PLACES), false).await?.len());
            }
            for &element in &elements {
                recording.insert(rows, element, 0).await?;
            }
            if loses {
                recording.delete(rows, elements[0]).await?;
            }
            if gives_up { Err(Error::user("changed its mind")) } else { Ok(count) }
        };
        let (known, ledger) = (self.known.clone(), self.ledger.clone());
        submitter.spawn_recorded(body, move |count| {
            let mut known = known.borrow_mut();
            known.acknowledged.extend(added);
            let Some(count) = count else { return };
            let is_new = known.counts.insert((set, count));
            ledger.check_under(Isolation::Serial, is_new, || {
                format!("two transactions found {count} elements in set {set}, and both added to it")
            });
        });
    }

    fn begin_reader<C: ConcurrencyControl>(
        &self,
        submitter: &mut Submitter<'_, C>,
        set: u64,
        random: &mut Random,
    ) {
        let (rows, is_reverse) = (self.rows, random.chance(50));
        let (x, y) = (random.below(PLACES), random.below(PLACES));
        let (from, to) = (key(set, x.min(y)), key(set, x.max(y)));
        let (known, ledger) = (self.known.clone(), self.ledger.clone());
        let body = async move |recording: &Recording<'_, C>| {
            let before: Vec<u64> = known.borrow().acknowledged.range(from..=to).copied().collect();
            let found = recording.scan(rows, from..=to, is_reverse).await?;
            let found: BTreeSet<u64> = found.into_iter().map(|(key, _)| key).collect();
            let lost = before.iter().find(|key| !found.contains(key));
            ledger
                .check_open(lost.is_none(), || format!("a scan that began later misses element {lost:x?}"))?;
            known.borrow_mut().seen.extend(found);
            Ok(())
        };
        submitter.spawn_recorded(body, |()| ());
    }
}
