use super::toy::{Toy, ToyHost};
use crate::exec::core::WorkerOptions;
use crate::exec::order::hint::Hint;
use crate::exec::order::queue::ConflictQueue;
use crate::exec::order::source::ASIDE_MAX;
use crate::exec::worker::Worker;
use crate::suspend::{Never, OnMiss, Seeded, Suspend};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// An input, with the keys that it touches and the number of its steps.
#[derive(Clone, Debug)]
struct Input {
    number: usize,
    keys: Vec<u64>,
    is_long: bool,
    operations: u32,
}

impl Input {
    fn hint(&self) -> Hint {
        let hint = self.keys.iter().fold(Hint::default(), |hint, &key| hint.touches(key));
        if self.is_long { hint.long() } else { hint }
    }
}

/// Which inputs are open, and which have ended, in order.
#[derive(Default)]
struct Log {
    open: RefCell<Vec<Input>>,
    began: RefCell<Vec<Input>>,
    ended: RefCell<Vec<usize>>,
    pulled: Cell<usize>,
    longs_max: Cell<usize>,
    aside_max: Cell<usize>,
}

impl Log {
    fn enter(&self, input: &Input) {
        let mut open = self.open.borrow_mut();
        for other in open.iter() {
            assert!(input.keys.iter().all(|key| !other.keys.contains(key)), "{input:?} beside {other:?}");
        }
        open.push(input.clone());
        self.began.borrow_mut().push(input.clone());
        self.longs_max.set(self.longs_max.get().max(open.iter().filter(|i| i.is_long).count()));
        let aside = self.pulled.get() - open.len() - self.ended.borrow().len();
        self.aside_max.set(self.aside_max.get().max(aside));
    }

    fn leave(&self, number: usize) {
        self.open.borrow_mut().retain(|input| input.number != number);
        self.ended.borrow_mut().push(number);
    }
}

fn run<S: Suspend>(policy: S, batch: usize, inputs: &[Input]) -> Rc<Log> {
    let options = WorkerOptions { batch: batch.into(), ..WorkerOptions::default() };
    let mut worker = Worker::new(ToyHost::new(), policy, options);
    let log = Rc::new(Log::default());
    let source = inputs.iter().inspect(|_| log.pulled.update(|n| n + 1));
    let make = |toy, input: &Input| {
        let (log, input) = (log.clone(), input.clone());
        async move {
            log.enter(&input);
            for _ in 0..input.operations {
                Toy::operation(toy, 1).await;
            }
            log.leave(input.number);
        }
    };
    let mut ended = 0;
    worker.stream_hinted(source, |input| input.hint(), make, |(), _| ended += 1);
    assert_eq!(ended, inputs.len());
    assert_eq!(worker.open(), 0);
    log
}

fn inputs(seed: u64, count: usize, keys: u64, longs_percent: u64) -> Vec<Input> {
    let mut random = Seeded::new(seed);
    let mut below = |n: u64| random.next_u64() % n;
    let input = |number| Input {
        number,
        keys: (0..below(3)).map(|_| below(keys)).collect(),
        is_long: below(100) < longs_percent,
        operations: 1 + below(5) as u32,
    };
    (0..count).map(input).collect()
}

#[test]
fn two_that_overlap_are_never_open_together_and_keep_their_order() {
    // Proves: over random hints, batches and policies, no key has two openers at once, and openers of one key begin in
    // the order of the inputs. No more inputs are put aside than there is room for.
    for seed in 0..20 {
        for keys in [1, 4, 40] {
            let all = inputs(seed, 500, keys, 0);
            for batch in [1, 2, 8, 48] {
                for log in
                    [run(OnMiss, batch, &all), run(Seeded::new(seed), batch, &all), run(Never, 1, &all)]
                {
                    // Inputs that are let in but not polled yet belong to no opener.
                    assert!(log.aside_max.get() <= ASIDE_MAX + batch, "{}", log.aside_max.get());
                    let began = log.began.borrow();
                    for key in 0..keys {
                        let of_key: Vec<usize> =
                            began.iter().filter(|i| i.keys.contains(&key)).map(|i| i.number).collect();
                        assert!(of_key.is_sorted(), "seed {seed}, key {key}: {of_key:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn others_go_on_beside_those_put_aside() {
    // Proves: behind a slow opener of a hot key, all inputs without the key end before the second opener of the key
    // begins.
    let mut all: Vec<Input> = (0..100)
        .map(|number| Input { number, keys: vec![1000 + number as u64], is_long: false, operations: 1 })
        .collect();
    all[0] = Input { number: 0, keys: vec![7], is_long: false, operations: 500 };
    all[1] = Input { number: 1, keys: vec![7], is_long: false, operations: 1 };
    // A hash may map another key to the bit of the hot key. Inputs with such a key wait as well.
    let waits = |input: &Input| input.hint().touches(7) == input.hint() || input.number == 1;
    let log = run(OnMiss, 8, &all);
    let ended = log.ended.borrow();
    let position = |number: usize| ended.iter().position(|&n| n == number);
    for input in all[2..].iter().filter(|input| !waits(input)) {
        assert!(position(input.number) < position(0), "{input:?}");
    }
    assert!(position(0) < position(1));
}

#[test]
fn one_that_waits_is_not_passed_for_ever() {
    // Proves: an input that overlaps with two hot keys has its turn, although openers of either key never cease.
    let mut all: Vec<Input> = (0..1000)
        .map(|number| Input { number, keys: vec![number as u64 % 2], is_long: false, operations: 3 })
        .collect();
    all[10].keys = vec![0, 1];
    let log = run(OnMiss, 8, &all);
    let began = log.began.borrow();
    assert_eq!(began.iter().position(|input| input.number == 10), Some(10));
}

#[test]
fn long_ones_have_a_quarter_of_the_places() {
    // Proves: long inputs never take more than a quarter of the batch, and at least one place. Short inputs overtake
    // them.
    for (batch, longs_max) in [(1, 1), (4, 1), (8, 2), (48, 12)] {
        let all = inputs(3, 2000, 1_000_000, 50);
        let log = run(OnMiss, batch, &all);
        assert_eq!(log.longs_max.get(), longs_max, "batch {batch}");
    }
}

#[test]
fn a_hint_is_a_set() {
    // Proves: the order in which keys are named, and how often, does not matter. A hint without keys has no home, and
    // equal hints have the same home.
    let (a, b) = (Hint::default().touches(1).touches(2), Hint::default().touches(2).touches(1).touches(1));
    assert_eq!(a, b);
    assert_eq!((a.home(), Hint::default().long().home()), (b.home(), None));
    assert!(a.home().is_some());
    // Of 100 keys, all but a few have bits of their own.
    let distinct: std::collections::HashSet<String> =
        (0..100).map(|key| format!("{:?}", Hint::default().touches(key))).collect();
    assert!(distinct.len() > 75, "{}", distinct.len());
}

#[test]
fn one_that_goes_while_it_waits_makes_way() {
    // Proves: inputs behind a forgotten input do not wait for it.
    let mut turns = ConflictQueue::new();
    let (one, both, two) =
        (Hint::default().touches(1), Hint::default().touches(1).touches(2), Hint::default().touches(2));
    assert_eq!(turns.offer(one, 'a'), Ok('a'));
    let b = turns.offer(both, 'b').unwrap_err();
    assert!(turns.offer(two, 'c').is_err()); // in order: behind b
    assert!(turns.next().is_none());
    turns.forget(b);
    assert_eq!(turns.next(), Some((two, 'c')));
    turns.leave(two);
    turns.leave(one);
    assert_eq!((turns.waiting(), turns.next()), (0, None));
}

#[test]
fn turns_as_by_looking_at_all() {
    // Proves: the queue lets in the same inputs at the same time as a search through all waiting inputs in their order
    // does, whatever comes, goes and gives up.
    use crate::exec::order::queue::Ticket;
    let mut random = crate::suspend::Seeded::new(7);
    let mut below = |n: usize| random.next_u64() as usize % n;
    for _ in 0..200 {
        let mut turns = ConflictQueue::new();
        let (mut inside, mut waiting): (Vec<Hint>, Vec<(Ticket, Hint, u32)>) = (Vec::new(), Vec::new());
        let overlap = |a: Hint, b: Hint| a.bits().any(|bit| b.bits().any(|other| bit == other));
        for name in 0..300 {
            let longs_max = 1 + below(3);
            turns.set_places(longs_max * 4);
            match below(4) {
                0 if !inside.is_empty() => turns.leave(inside.swap_remove(below(inside.len()))),
                1 if !waiting.is_empty() => turns.forget(waiting.remove(below(waiting.len())).0),
                _ => {
                    let mut hint =
                        (0..below(4)).fold(Hint::default(), |hint, _| hint.touches(below(12) as u64));
                    if below(4) == 0 {
                        hint = hint.long();
                    }
                    match turns.offer(hint, name) {
                        Ok(_) => inside.push(hint),
                        Err(number) => waiting.push((number, hint, name)),
                    }
                }
            }
            loop {
                let longs = inside.iter().filter(|hint| hint.is_long()).count();
                let may_go = |at: usize| {
                    let hint = waiting[at].1;
                    let before =
                        waiting[..at].iter().map(|(_, before, _)| *before).chain(inside.iter().copied());
                    (!hint.is_long() || longs < longs_max)
                        && !before.into_iter().any(|other| overlap(hint, other))
                };
                let expected = (0..waiting.len()).find(|at| may_go(*at));
                assert_eq!(turns.next(), expected.map(|at| (waiting[at].1, waiting[at].2)));
                let Some(at) = expected else { break };
                inside.push(waiting.remove(at).1);
            }
            assert_eq!(turns.waiting(), waiting.len());
        }
    }
}
