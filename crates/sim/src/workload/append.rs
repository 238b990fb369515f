//! Lists that only grow, by elements that are all different. Of any two states of a list that committed transactions
//! have read, one is a prefix of the other. At the end each list holds every acknowledged element exactly once.

use super::{Made, Workload, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::record::Tag;
use crate::recording::{Lists, Recording};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

struct Append {
    lists: Lists,
    ledger: Ledger,
    known: Rc<RefCell<Known>>,
    begun: u64,
}

/// The reports of committed transactions.
#[derive(Default)]
struct Known {
    longest: BTreeMap<u64, Vec<Tag>>,
    appended: BTreeSet<Tag>,
}

/// Lists in use at once. After every `TRANSACTIONS_PER_LIST` transactions a new list replaces the oldest, so that lists
/// stay short.
const OPEN_LISTS: u64 = 4;
const TRANSACTIONS_PER_LIST: u64 = 30;
const OPERATIONS_MAX: u64 = 4;

/// The workload.
pub fn append<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    let lists = database.table("lists")?;
    Ok(Box::new(Append { lists, ledger: ledger.clone(), known: Rc::default(), begun: 0 }))
}

impl<C: ConcurrencyControl> Workload<C> for Append {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (lists, first) = (self.lists, self.begun / TRANSACTIONS_PER_LIST);
        self.begun += 1;
        let operations: Vec<(u64, bool)> = (0..random.between(1, OPERATIONS_MAX))
            .map(|_| (first + random.below(OPEN_LISTS), random.chance(50)))
            .collect();
        let gives_up = random.chance(5);
        let body = async move |recording: &Recording<'_, C>| {
            let (mut read, mut appended) = (Vec::new(), Vec::new());
            for &(key, is_read) in &operations {
                if is_read {
                    read.push((key, recording.list(lists, key).await?));
                } else {
                    appended.push(recording.append(lists, key).await?);
                }
            }
            if gives_up { Err(Error::user("changed its mind")) } else { Ok((read, appended)) }
        };
        let (known, ledger) = (self.known.clone(), self.ledger.clone());
        submitter.spawn_recorded(body, move |(read, appended)| {
            known.borrow_mut().appended.extend(appended);
            for (key, elements) in read {
                known.borrow_mut().learn(&ledger, key, elements);
            }
        });
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        // Lists made since the first look are not in its snapshot, if it has one.
        let (lists, count) = (self.lists, observer.first(self.begun / TRANSACTIONS_PER_LIST + OPEN_LISTS));
        let read = observer.recorded(async |recording| {
            let mut read = Vec::new();
            for key in 0..count {
                read.push((key, recording.list(lists, key).await?));
            }
            Ok(read)
        })?;
        let elements = read.iter().flat_map(|(_, elements)| elements);
        let seen = elements.fold(0, |seen, element| digest(seen, &element.to_le_bytes()));
        let (known, ledger) = (self.known.clone(), self.ledger.clone());
        let committed = move || {
            for (key, elements) in read {
                known.borrow_mut().learn(&ledger, key, elements);
            }
        };
        Ok(Look { digest: seen, committed: Some(Box::new(committed)) })
    }

    /// The last look has read every list as it is now.
    fn end(&mut self, _: &Database<C>) -> Result<()> {
        let known = self.known.borrow();
        let all: Vec<Tag> = known.longest.values().flatten().copied().collect();
        let found: BTreeSet<Tag> = all.iter().copied().collect();
        self.ledger.check(found.len() == all.len(), || "an element is there twice".into());
        let lost: Vec<_> = known.appended.difference(&found).collect();
        self.ledger.check(lost.is_empty(), || format!("lists have lost the elements {lost:?}"));
        let extra: Vec<_> = found.difference(&known.appended).collect();
        self.ledger.check(extra.len() as u64 <= OPERATIONS_MAX * self.ledger.unknown(), || {
            format!("lists hold the elements {extra:?} of transactions that did not commit")
        });
        Ok(())
    }
}

impl Known {
    /// Notes that a committed transaction has read the list.
    fn learn(&mut self, ledger: &Ledger, key: u64, elements: Vec<Tag>) {
        let longest = self.longest.entry(key).or_default();
        let common = longest.len().min(elements.len());
        ledger.check(longest[..common] == elements[..common], || {
            format!("list {key} was {longest:?} to one reader and {elements:?} to another")
        });
        if elements.len() > longest.len() {
            *longest = elements;
        }
    }
}
