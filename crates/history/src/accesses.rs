//! The first pass, which looks at each transaction by itself. It checks what a transaction says about itself (its own
//! writes, repeated reads). What remains is at most one read and one final write per transaction and item.

use crate::facts::{Facts, Findings, Scope};
use crate::model::{Op, Status};
use crate::verdict::Class;

/// What was done to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The transaction read a value that is not its own.
    Read,
    /// The transaction saw that the register is absent.
    ReadAbsent,
    /// The last write of the transaction to the register, or an append.
    Write,
    /// The last write of the transaction to the register, a deletion.
    Delete,
    /// A write that the same transaction overwrote, or an append that it appended after.
    Overwritten,
    /// A deletion that the same transaction wrote over. No reader of the absence can be told to have seen this
    /// deletion.
    Undone,
    /// The transaction read a list: `value` is the place of the operation, and the last `own` elements are its own.
    ReadList,
}

/// One access to one item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub value: i64,
    pub key: u32,
    pub txn: u32,
    pub own: u32,
    pub what: What,
    pub predicate: bool,
}

/// What the transaction `txn` has done to an item up to now.
#[derive(Clone, Copy)]
struct Sofar {
    txn: u32,
    /// The places, among the accesses, of the transaction's first read and of its last write.
    read: u32,
    write: u32,
}

const NOT_YET: u32 = u32::MAX;

struct Pass<'a, 'h> {
    facts: &'a Facts<'h>,
    findings: &'a mut Findings,
    accesses: Vec<Access>,
    sofar: Vec<Sofar>,
    txn: u32,
    /// Where the accesses of `txn` begin.
    start: usize,
}

/// Returns all accesses, in the order of transactions.
pub(crate) fn accesses(facts: &Facts<'_>, findings: &mut Findings) -> Vec<Access> {
    let never = Sofar { txn: NOT_YET, read: NOT_YET, write: NOT_YET };
    let ops = facts.history.transactions().iter().map(|transaction| transaction.ops.len()).sum();
    let sofar = vec![never; facts.keys.len()];
    let mut pass = Pass { facts, findings, accesses: Vec::with_capacity(ops), sofar, txn: 0, start: 0 };
    for (place, transaction) in facts.history.transactions().iter().enumerate() {
        pass.txn = place as u32;
        pass.start = pass.accesses.len();
        // The reads of an aborted transaction do not count. Its writes do, because others may have seen them.
        let reads = transaction.status != Status::Aborted;
        for (at, op) in transaction.ops.iter().enumerate() {
            match op {
                Op::Write { key, value } => pass.write(facts.keys.register(key), *value),
                Op::Append { key, value } => pass.write(facts.keys.list(key), Some(*value)),
                Op::Read { key, value } if reads => pass.read(facts.keys.register(key), *value, false),
                Op::List { key, values } if reads => pass.read_list(facts.keys.list(key), at, values),
                Op::Scan { .. } if reads => pass.scan(op),
                Op::Read { .. } | Op::List { .. } | Op::Scan { .. } => {}
            }
        }
    }
    pass.accesses
}

/// The elements of the list that an access read, without the reader's own elements at the end.
pub(crate) fn elements<'h>(facts: &Facts<'h>, access: &Access) -> &'h [i64] {
    match &facts.history.transactions()[access.txn as usize].ops[access.value as usize] {
        Op::List { values, .. } => &values[..values.len() - access.own as usize],
        _ => &[],
    }
}

impl Pass<'_, '_> {
    fn sofar(&mut self, key: u32) -> &mut Sofar {
        let sofar = &mut self.sofar[key as usize];
        if sofar.txn != self.txn {
            *sofar = Sofar { txn: self.txn, read: NOT_YET, write: NOT_YET };
        }
        sofar
    }

    fn push(&mut self, key: u32, what: What, value: i64, own: u32, predicate: bool) -> u32 {
        let place = self.accesses.len() as u32;
        self.accesses.push(Access { value, key, txn: self.txn, own, what, predicate });
        place
    }

    fn write(&mut self, key: u32, value: Option<i64>) {
        let last = self.sofar(key).write;
        if let Some(last) = self.accesses.get_mut(last as usize) {
            last.what = if last.what == What::Delete { What::Undone } else { What::Overwritten };
        }
        let what = if value.is_some() { What::Write } else { What::Delete };
        let place = self.push(key, what, value.unwrap_or(0), 0, false);
        self.sofar(key).write = place;
    }

    fn read(&mut self, key: u32, value: Option<i64>, predicate: bool) {
        let sofar = *self.sofar(key);
        let seen = |access: &Access| matches!(access.what, What::Read | What::Write).then_some(access.value);
        let (earlier, class) = match (self.accesses.get(sofar.write as usize), sofar.read) {
            (Some(own), _) => (seen(own), Class::OwnWrite),
            (None, NOT_YET) => {
                let what = if value.is_some() { What::Read } else { What::ReadAbsent };
                let place = self.push(key, what, value.unwrap_or(0), 0, predicate);
                self.sofar(key).read = place;
                return;
            }
            (None, read) => (seen(&self.accesses[read as usize]), Class::NonRepeatableRead),
        };
        if earlier != value {
            let (facts, txn) = (self.facts, self.txn);
            let before = if class == Class::OwnWrite { "had written" } else { "had read" };
            self.findings.add(Scope::All, class, facts, &[txn], || {
                format!(
                    "transaction {} saw {} in key {} where it {before} {}",
                    facts.id(txn),
                    shown(value),
                    facts.keys.key(key),
                    shown(earlier)
                )
            });
        }
    }

    fn scan(&mut self, op: &Op) {
        let Op::Scan { from, to, rows } = op else { return };
        let range = self.facts.keys.range(from, to);
        let mut rows: Vec<(u32, i64)> =
            rows.iter().map(|(key, value)| (self.facts.keys.register(key), *value)).collect();
        rows.sort_unstable();
        let (facts, txn) = (self.facts, self.txn);
        for pair in rows.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            self.findings.add(Scope::All, Class::Duplicate, facts, &[txn], || {
                format!(
                    "transaction {} saw key {} twice in a range",
                    facts.id(txn),
                    facts.keys.key(pair[0].0)
                )
            });
        }
        for (key, _) in rows.iter().filter(|(key, _)| !range.contains(key)) {
            self.findings.add(Scope::All, Class::GarbageRead, facts, &[txn], || {
                let key = facts.keys.key(*key);
                format!("transaction {} saw key {key} in the range from {from} to {to}", facts.id(txn))
            });
        }
        let start = range.start;
        let mut next = rows.iter().skip_while(|(key, _)| *key < start).peekable();
        for key in range {
            let mut value = None;
            while let Some((_, row)) = next.next_if(|(row, _)| *row == key) {
                value = Some(*row);
            }
            self.read(key, value, true);
        }
    }

    fn read_list(&mut self, key: u32, at: usize, values: &[i64]) {
        let sofar = *self.sofar(key);
        let (facts, txn) = (self.facts, self.txn);
        let mut own = 0;
        if sofar.write != NOT_YET {
            let mine = self.accesses[self.start..]
                .iter()
                .filter(|access| access.key == key && matches!(access.what, What::Write | What::Overwritten));
            let mine: Vec<i64> = mine.map(|access| access.value).collect();
            if !values.ends_with(&mine) {
                self.findings.add(Scope::All, Class::OwnWrite, facts, &[txn], || {
                    let (id, key) = (facts.id(txn), facts.keys.key(key));
                    format!(
                        "transaction {id} read list {key} and its own appends {mine:?} were not at the end"
                    )
                });
                return;
            }
            own = mine.len() as u32;
        }
        if sofar.read == NOT_YET {
            let place = self.push(key, What::ReadList, at as i64, own, false);
            self.sofar(key).read = place;
            return;
        }
        let earlier = elements(facts, &self.accesses[sofar.read as usize]);
        if *earlier != values[..values.len() - own as usize] {
            self.findings.add(Scope::All, Class::NonRepeatableRead, facts, &[txn], || {
                let (id, key) = (facts.id(txn), facts.keys.key(key));
                format!(
                    "transaction {id} read list {key} twice and saw {} and {} elements of others, or others",
                    earlier.len(),
                    values.len() - own as usize
                )
            });
        }
    }
}

/// A value in words.
pub(crate) fn shown(value: Option<i64>) -> String {
    value.map_or_else(|| "nothing".to_string(), |value| value.to_string())
}

/// Returns the accesses by item, those of one item in the order of transactions, and where each item's accesses begin.
pub(crate) fn by_key(accesses: &[Access], keys: usize) -> (Vec<Access>, Vec<usize>) {
    let mut starts = vec![0; keys + 1];
    for access in accesses {
        starts[access.key as usize + 1] += 1;
    }
    for key in 0..keys {
        starts[key + 1] += starts[key];
    }
    let mut next = starts.clone();
    let Some(first) = accesses.first() else { return (Vec::new(), starts) };
    let mut sorted = vec![*first; accesses.len()];
    for access in accesses {
        let place = &mut next[access.key as usize];
        sorted[*place] = *access;
        *place += 1;
    }
    (sorted, starts)
}
