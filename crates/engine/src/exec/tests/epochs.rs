//! Random futures under random schedules. The toy's operations check that they are inside an epoch, and that what they
//! found when they were posted is not reclaimed before their result is fetched.

use super::stream::worker;
use super::toy::{Gate, Toy, ToyHost, step_aside};
use crate::exec::contract::Host;
use crate::exec::core::Refill;
use crate::exec::worker::Worker;
use crate::suspend::{OnMiss, Seeded, Suspend};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Polls once and ignores the result.
async fn post(mut operation: std::pin::Pin<&mut impl Future<Output = ()>>) {
    poll_fn(|context| {
        assert!(operation.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Runs operations one after another, two at once, fetched late, and across a wait for something outside.
async fn random_future(toy: &Toy, gate: Rc<Gate>, mut random: Seeded) {
    for _ in 0..random.next_u64() % 20 {
        let steps = |random: &mut Seeded| (random.next_u64() % 6) as u32;
        let choice = random.next_u64() % 8;
        match choice {
            0 => step_aside().await,
            1 => toy.life.replace_object(),
            2 => {
                // The result waits while other operations are posted and fetched.
                let mut early = pin!(toy.operation(steps(&mut random)));
                post(early.as_mut()).await;
                for _ in 0..random.next_u64() % 300 {
                    toy.operation(steps(&mut random)).await;
                }
                early.await;
            }
            3 if random.next_u64().is_multiple_of(4) => {
                // Wakes cause polls while the operation is left in its slot. The last of these polls posts another
                // operation.
                let mut long = pin!(toy.operation(2000));
                post(long.as_mut()).await;
                for _ in 0..random.next_u64() % 500 {
                    step_aside().await;
                }
                toy.operation(steps(&mut random)).await;
                long.await;
            }
            4 => {
                // The result waits while the future is parked.
                let mut early = pin!(toy.operation(steps(&mut random)));
                post(early.as_mut()).await;
                toy.operation(steps(&mut random)).await;
                gate.pass().await;
                early.await;
            }
            _ => toy.operation(steps(&mut random)).await,
        }
        toy.life.replace_object();
    }
}

fn check<S: Suspend>(w: &mut Worker<ToyHost, S>, seed: u64) {
    println!("seed {seed}");
    let mut random = Seeded::new(seed);
    let mut gate = Rc::new(Gate::default());
    let mut placed = Vec::new();
    for _ in 0..30_000 {
        match random.next_u64() % 16 {
            0 | 1 if !w.is_full() => {
                let (gate, random) = (gate.clone(), Seeded::new(random.next_u64()));
                // SAFETY: only the future uses `toy`.
                let slot = unsafe { w.spawn(move |toy| random_future(toy, gate, random), |(), _| ()) };
                placed.extend(slot.ok());
            }
            2 if !placed.is_empty() && random.next_u64().is_multiple_of(8) => {
                w.cancel(placed[random.next_u64() as usize % placed.len()]);
            }
            3 => std::mem::take(&mut gate).open(),
            4 => w.set_batch(random.next_u64() as usize % 16),
            5 => _ = w.maintain(),
            6 | 7 => _ = w.round(),
            _ => _ = w.step(),
        }
    }
    gate.open();
    while w.round() {}
    assert_eq!((w.open(), w.host().local().is_entered()), (0, false));
    assert!(w.counters().ended > 10, "{:?}", w.counters());
    while w.maintain() || w.host().local().pending() > 0 {
        w.host().local().refresh(None);
        if w.host().local().pending() < 8 {
            break; // what `maintain` itself retires
        }
    }
}

#[test]
fn nothing_is_reclaimed_under_an_operation() {
    // Proves: stamps and epochs hold when futures are spawned, cancelled, woken and parked, and when the worker cleans
    // up, in any order.
    for seed in 0..10 {
        check(&mut worker(Seeded::new(seed), 8, Refill::Immediate), seed);
        check(&mut worker(OnMiss, 8, Refill::Strict), seed);
    }
}
