//! The dependencies on one list. The longest read gives the order of the list's elements. Every other read must be a
//! prefix of it. Elements that no read contains come after it.

use crate::accesses::{Access, What, elements};
use crate::edges::{NOBODY, Sink};
use crate::facts::{NONE, Scope};
use crate::verdict::{Class, Order};

/// The appends, sorted by element. Each has its place among the accesses.
type Appends = Vec<(i64, u32)>;

/// No read contains the element.
const NOWHERE: u32 = u32::MAX;

/// One list.
struct List<'a> {
    accesses: &'a [Access],
    appends: Appends,
    /// The read with the most elements, and these elements.
    longest: Option<u32>,
    order: &'a [i64],
    /// The place of each element's append, in the order of elements. `None` if the append is not clear.
    writers: Vec<Option<u32>>,
    /// For each access, the position of its element in the order.
    position: Vec<u32>,
    /// The appends that no read contains.
    unseen: Vec<u32>,
}

/// Adds the dependencies on the list whose accesses these are.
pub(crate) fn item(accesses: &[Access], sink: &mut Sink<'_, '_>) {
    let facts = sink.facts;
    let mut appends: Appends = Vec::new();
    for (place, access) in accesses.iter().enumerate() {
        if matches!(access.what, What::Write | What::Overwritten) {
            appends.push((access.value, place as u32));
        }
    }
    appends.sort_unstable();
    report_duplicates(accesses, &appends, sink);
    let reads: Vec<u32> = (0..accesses.len() as u32)
        .filter(|place| {
            let access = &accesses[*place as usize];
            access.what == What::ReadList && facts.counted[access.txn as usize]
        })
        .collect();
    let length = |place: &u32| elements(facts, &accesses[*place as usize]).len();
    let longest = reads.iter().copied().max_by_key(length);
    let order = longest.map_or(&[][..], |place| elements(facts, &accesses[place as usize]));
    let writers: Vec<Option<u32>> = order.iter().map(|value| append_of(*value, accesses, &appends)).collect();
    let mut position = vec![NOWHERE; accesses.len()];
    for (at, place) in writers.iter().enumerate() {
        if let Some(place) = place {
            position[*place as usize] = at as u32;
        }
    }
    if let Some(longest) = longest {
        check_elements(&accesses[longest as usize], order, accesses, &appends, sink);
    }
    chain(&writers, accesses, sink);
    check_parts(&writers, &position, accesses, sink);
    let unseen = unseen(&writers, &position, accesses, sink);
    check_stamps(&writers, &unseen, accesses, sink);
    let list = List { accesses, appends, longest, order, writers, position, unseen };
    let at_end = reads.iter().filter(|place| length(place) == order.len()).count().max(1);
    let unseen_max = if facts.order == Order::Stamps { 1 } else { (4 * accesses.len() / at_end).max(1) };
    for place in reads {
        list.read(place, unseen_max, sink);
    }
}

impl List<'_> {
    /// Adds the dependencies of a read, or reports what is wrong with it.
    fn read(&self, place: u32, unseen_max: usize, sink: &mut Sink<'_, '_>) {
        let facts = sink.facts;
        let read = &self.accesses[place as usize];
        let seen = elements(facts, read);
        if *seen != self.order[..seen.len()] {
            if !check_elements(read, seen, self.accesses, &self.appends, sink) {
                let longest = self.longest.map(|longest| &self.accesses[longest as usize]);
                disagree(read, longest, sink);
            }
            return;
        }
        if self.holds_its_own(place, seen.len()) {
            if self.longest != Some(place) {
                check_elements(read, seen, self.accesses, &self.appends, sink);
            }
            return;
        }
        let Some((last, next)) = neighbours(seen.len(), &self.writers) else { return };
        match last.map(|last| &self.accesses[last as usize]) {
            None => sink.read_of(read, NOBODY),
            Some(write) if !facts.counted[write.txn as usize] => return,
            Some(write) if write.what == What::Overwritten => {
                if self.longest != Some(place) {
                    sink.bad_read(Class::G1b, read, write.value, Some(write.txn));
                }
                return;
            }
            Some(write) => sink.read_of(read, write.txn),
        }
        let replaced = |next: &u32, sink: &mut Sink<'_, '_>| {
            sink.replaced_by(read, self.accesses[*next as usize].txn);
        };
        match next {
            Some(next) => replaced(&next, sink),
            None => self.unseen.iter().take(unseen_max).for_each(|next| replaced(next, sink)),
        }
    }

    /// Returns true if the first `length` elements contain an element that the reader itself appends only later.
    fn holds_its_own(&self, place: u32, length: usize) -> bool {
        let txn = self.accesses[place as usize].txn;
        // A transaction's accesses to one item are adjacent.
        let (before, after) = self.accesses.split_at(place as usize);
        let own = |access: &&Access| access.txn == txn;
        let first = place as usize - before.iter().rev().take_while(own).count();
        let end = place as usize + after.iter().take_while(own).count();
        self.position[first..end].iter().any(|position| (*position as usize) < length)
    }
}

fn report_duplicates(accesses: &[Access], appends: &Appends, sink: &mut Sink<'_, '_>) {
    let facts = sink.facts;
    for pair in appends.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let [first, second] = [0, 1].map(|at: usize| accesses[pair[at].1 as usize].txn);
        sink.findings.add(Scope::All, Class::Duplicate, facts, &[first, second], || {
            let (value, key) = (pair[0].0, facts.keys.key(accesses[0].key));
            let (first, second) = (facts.id(first), facts.id(second));
            format!("transactions {first} and {second} both appended {value} to key {key}")
        });
    }
}

/// The place of the append of an element, if there is exactly one.
fn append_of(value: i64, accesses: &[Access], appends: &Appends) -> Option<u32> {
    let from = appends.partition_point(|(other, _)| *other < value);
    let mut same = appends[from..].iter().take_while(|(other, _)| *other == value);
    let (_, place) = same.next()?;
    debug_assert_eq!(accesses[*place as usize].value, value);
    if same.next().is_some() { None } else { Some(*place) }
}

/// The appends before and after the first `length` elements. `None` if one of them is not clear.
fn neighbours(length: usize, writers: &[Option<u32>]) -> Option<(Option<u32>, Option<u32>)> {
    let last = match length.checked_sub(1) {
        None => None,
        Some(at) => Some(writers[at]?),
    };
    let next = match writers.get(length) {
        None => None,
        Some(next) => Some((*next)?),
    };
    Some((last, next))
}

/// Reports elements that must not be in a read. Returns true if there were any.
fn check_elements(
    read: &Access,
    seen: &[i64],
    accesses: &[Access],
    appends: &Appends,
    sink: &mut Sink<'_, '_>,
) -> bool {
    let facts = sink.facts;
    let mut bad = false;
    let mut sorted = seen.to_vec();
    sorted.sort_unstable();
    for pair in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
        sink.bad_read(Class::Duplicate, read, pair[0], None);
        bad = true;
    }
    for (at, value) in seen.iter().enumerate() {
        let from = appends.partition_point(|(other, _)| other < value);
        let found = appends.get(from).filter(|(other, _)| other == value);
        let write = found.map(|(_, place)| &accesses[*place as usize]);
        let class = match write {
            None => Class::GarbageRead,
            Some(write) if write.txn == read.txn => Class::OwnWrite,
            Some(write) if !facts.counted[write.txn as usize] => Class::G1a,
            Some(write) if write.what == What::Overwritten && at + 1 == seen.len() => Class::G1b,
            Some(_) => continue,
        };
        sink.bad_read(class, read, *value, write.map(|write| write.txn));
        bad = true;
    }
    bad
}

/// Adds ww edges between neighbors in the order. An append counts even if the same transaction appends again later: if
/// the appends of two transactions alternate, each transaction is before the other.
fn chain(writers: &[Option<u32>], accesses: &[Access], sink: &mut Sink<'_, '_>) {
    let mut before = NOBODY;
    for place in writers.iter().flatten() {
        let write = &accesses[*place as usize];
        if sink.facts.counted[write.txn as usize] {
            sink.written_over(before, write.txn, write.key);
            before = write.txn;
        }
    }
}

/// Checks that a transaction's own appends are in the list in the order in which it made them, with none left out.
fn check_parts(writers: &[Option<u32>], position: &[u32], accesses: &[Access], sink: &mut Sink<'_, '_>) {
    let facts = sink.facts;
    for place in writers.iter().flatten() {
        let write = &accesses[*place as usize];
        // A transaction's accesses to one item are adjacent.
        let own = accesses[..*place as usize].iter().enumerate().rev();
        let mut own = own.take_while(|(_, access)| access.txn == write.txn);
        let before = own.find(|(_, access)| access.what == What::Overwritten);
        let Some((before, missing)) = before else { continue };
        let class = match position[before] {
            NOWHERE => Class::LostWrite,
            at if at > position[*place as usize] => Class::IncompatibleOrder,
            _ => continue,
        };
        sink.findings.add(Scope::All, class, facts, &[write.txn], || {
            let (id, key) = (facts.id(write.txn), facts.keys.key(write.key));
            format!(
                "transaction {id} appended {} and then {} to key {key}; a read holds the second without the \
                 first before it",
                missing.value, write.value
            )
        });
    }
}

/// Returns the last appends of counted transactions that no read contains, and adds their ww edges. The appends are in
/// the order of their stamps where they have stamps.
fn unseen(
    writers: &[Option<u32>],
    position: &[u32],
    accesses: &[Access],
    sink: &mut Sink<'_, '_>,
) -> Vec<u32> {
    let facts = sink.facts;
    let mut unseen: Vec<u32> = Vec::new();
    for (place, access) in accesses.iter().enumerate() {
        if access.what == What::Write && facts.counted[access.txn as usize] && position[place] == NOWHERE {
            unseen.push(place as u32);
        }
    }
    let commit = |place: &u32| facts.commit[accesses[*place as usize].txn as usize];
    let stamped = unseen.iter().all(|place| commit(place) != NONE);
    let mut last_seen = writers.iter().flatten().map(|place| accesses[*place as usize].txn);
    let mut before = last_seen.rfind(|txn| facts.counted[*txn as usize]).unwrap_or(NOBODY);
    if stamped {
        unseen.sort_by_key(commit);
    }
    for place in &unseen {
        let write = &accesses[*place as usize];
        sink.written_over(before, write.txn, write.key);
        if stamped {
            before = write.txn;
        }
    }
    let mut first_end = u64::MAX;
    let mut first = None;
    for place in &unseen {
        let txn = accesses[*place as usize].txn;
        let end = acknowledged(sink, txn);
        if end < first_end {
            (first_end, first) = (end, Some(*place));
        }
    }
    if let Some(first) = first {
        lost(first, first_end, accesses, sink);
    }
    unseen
}

/// When the commit of a transaction was acknowledged. Never, if that is not known.
fn acknowledged(sink: &Sink<'_, '_>, txn: u32) -> u64 {
    let transaction = &sink.facts.history.transactions()[txn as usize];
    let acknowledged = transaction.status == crate::model::Status::Committed;
    transaction.end.filter(|_| acknowledged).unwrap_or(u64::MAX)
}

/// Reports the append at `place`, which no read contains, if a read began after the append was acknowledged.
fn lost(place: u32, end: u64, accesses: &[Access], sink: &mut Sink<'_, '_>) {
    let facts = sink.facts;
    let write = &accesses[place as usize];
    let late = accesses.iter().find(|read| {
        let begin = facts.history.transactions()[read.txn as usize].begin;
        read.what == What::ReadList
            && facts.counted[read.txn as usize]
            && begin.is_some_and(|begin| begin > end)
    });
    if let Some(late) = late {
        sink.findings.add(Scope::Strict, Class::LostWrite, facts, &[write.txn, late.txn], || {
            let (writer, reader, key) = (facts.id(write.txn), facts.id(late.txn), facts.keys.key(write.key));
            format!(
                "transaction {writer} appended {} to key {key} and was acknowledged at {end}; transaction \
                 {reader} began later, and neither it nor any other read holds the element",
                write.value
            )
        });
    }
}

/// Compares the order of the elements with the commit stamps.
fn check_stamps(writers: &[Option<u32>], unseen: &[u32], accesses: &[Access], sink: &mut Sink<'_, '_>) {
    let facts = sink.facts;
    let commit = |txn: u32| facts.commit[txn as usize];
    let mut before: Option<u32> = None;
    let mut highest = 0;
    for place in writers.iter().flatten() {
        let txn = accesses[*place as usize].txn;
        if !facts.counted[txn as usize] || commit(txn) == NONE {
            continue;
        }
        if let Some(before) = before.filter(|before| commit(*before) > commit(txn)) {
            sink.findings.add(Scope::All, Class::StampMismatch, facts, &[before, txn], || {
                let key = facts.keys.key(accesses[*place as usize].key);
                let (first, second) = (commit(before), commit(txn));
                format!(
                    "list {key} holds an element of transaction {}, commit stamp {first}, before one of \
                     transaction {}, commit stamp {second}",
                    facts.id(before),
                    facts.id(txn)
                )
            });
        }
        before = Some(txn);
        highest = highest.max(commit(txn));
    }
    for place in unseen {
        let write = &accesses[*place as usize];
        if commit(write.txn) < highest {
            sink.findings.add(Scope::All, Class::LostWrite, facts, &[write.txn], || {
                let (id, key) = (facts.id(write.txn), facts.keys.key(write.key));
                format!(
                    "transaction {id} appended {} to key {key} with commit stamp {}; a read holds elements up to \
                     stamp {highest}, but not this one",
                    write.value,
                    commit(write.txn)
                )
            });
        }
    }
}

/// Reports two reads of which neither is a prefix of the other.
fn disagree(read: &Access, longest: Option<&Access>, sink: &mut Sink<'_, '_>) {
    let facts = sink.facts;
    let other = longest.map_or(read.txn, |longest| longest.txn);
    sink.findings.add(Scope::All, Class::IncompatibleOrder, facts, &[read.txn, other], || {
        let key = facts.keys.key(read.key);
        let (first, second) = (facts.id(read.txn), facts.id(other));
        format!("transactions {first} and {second} saw list {key} with its elements in different orders")
    });
}
