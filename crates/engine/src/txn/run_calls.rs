//! Runs a closure of plain calls on the calling thread until it commits. Between two attempts it waits for the
//! transaction that was in the way.

use super::Transaction;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::kernel::Engine;
use crate::sync::{Arc, Backoff};
use std::thread;
use std::time::Duration;

/// The longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Runs `closure` until its transaction commits, fails, or has met `retries_max + 1` conflicts.
pub(crate) fn run_calls<C: ConcurrencyControl, R>(
    engine: &Arc<Engine<C>>,
    mut closure: impl FnMut(&Transaction<C>) -> Result<R>,
    retries_max: u32,
) -> Result<R> {
    let (mut transaction, mut retries, mut backoff) = (Transaction::begin(engine)?, 0, Backoff::new());
    loop {
        let done = match closure(&transaction) {
            Ok(result) => transaction.commit_in_place().map(|()| result),
            Err(error) => Err(transaction.fail_in_place(error)),
        };
        let why = match done {
            Err(why @ (Error::Conflict | Error::Deadlock(_))) if retries < retries_max => why,
            done => return done.inspect_err(|error| transaction.tell_given_up(error, retries)),
        };
        event!(
            TRACE,
            TRANSACTION,
            "transaction is run again",
            database = engine.id,
            retries = retries + 1,
            error = text(&why)
        );
        make_way(&transaction, &why, retries, &mut backoff)
            .inspect_err(|error| transaction.tell_given_up(error, retries))?;
        retries += 1;
        transaction = transaction.begin_again()?;
    }
}

/// Waits for the transaction that is in the way. First spins, because that transaction may be about to end. Then waits
/// in the queue for its row, for as long as the options allow. After a deadlock the wait in the queue begins at once,
/// because the transaction that waits for this transaction's rows goes first. If no open transaction is known to be in
/// the way, the wait grows with the number of retries.
fn make_way<C: ConcurrencyControl>(
    transaction: &Transaction<C>,
    why: &Error,
    retries: u32,
    backoff: &mut Backoff,
) -> Result<()> {
    let is_conflict = matches!(why, Error::Conflict);
    if is_conflict && transaction.is_blocked_for_long() && transaction.await_blocker()? {
        return Ok(());
    }
    if is_conflict && !backoff.is_long() {
        backoff.wait();
    } else if is_conflict || !transaction.await_blocker()? {
        thread::sleep(Duration::from_micros(1 << retries.min(20)).min(PAUSE_MAX));
    }
    Ok(())
}
