//! Distributes the work of recovery over threads: blocks of a checkpoint by number, and changes of the log by key, so
//! that the changes of one key stay in order.
//!
//! With one thread everything happens on the calling thread, and no thread is started.

use super::restore::{Batch, Restorer};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::kernel::Engine;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::table::TableInner;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, Scope};

/// A batch is sent to its thread when it has this many changes, or `BATCH_BYTES` bytes of them.
const BATCH_CHANGES: usize = if cfg!(test) { 64 } else { 1024 };
const BATCH_BYTES: usize = 256 << 10;
/// How many batches may wait for a thread.
const QUEUE_BATCHES: usize = 4;

/// Calls `f` once for each number below `n`, on `threads` threads including the calling one. Each thread has its own
/// restorer. After the first error no further numbers are given out.
pub(crate) fn for_each_parallel<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    threads: usize,
    n: usize,
    f: impl Fn(&mut Restorer<C>, usize) -> Result<()> + Sync,
) -> Result<()> {
    let (next, failure) = (AtomicUsize::new(0), Failure::default());
    let work = || {
        let mut restorer = Restorer::new(engine)?;
        while !failure.has_happened() {
            let i = next.fetch_add(1, Ordering::Relaxed); // only uniqueness counts
            if i >= n {
                break;
            }
            f(&mut restorer, i)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(n) {
            failure.note(spawn(scope, || failure.note(work())));
        }
        failure.note(work());
    });
    failure.into_result()
}

/// Makes the changes that `feed` pushes, on `threads` threads besides the calling one. Each thread calls `progress`
/// once per batch, with the number of changes that it has made since its last call.
pub(crate) fn replay<'t, C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    threads: usize,
    progress: &(impl Fn(usize) + Sync),
    feed: impl FnOnce(&mut Feed<'t, '_, C>) -> Result<()>,
) -> Result<()> {
    if threads <= 1 {
        let here = Sink::Here { restorer: Restorer::new(engine)?, progress };
        return Feed::new(1, here).run(feed);
    }
    let failure = Failure::default();
    thread::scope(|scope| {
        let (empty, emptied) = mpsc::channel();
        let mut queues = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (queue, errands) = mpsc::sync_channel(QUEUE_BATCHES);
            let (empty, failure) = (empty.clone(), &failure);
            queues.push(queue);
            failure.note(spawn(scope, move || {
                // The error is noted before the queue closes, so that it precedes the error of the feed.
                failure.note(apply_all(engine, &errands, &empty, progress));
            }));
        }
        // The feed, and the queues with it, is dropped before the threads are waited for.
        failure.note(Feed::new(threads, Sink::Threads { queues, emptied }).run(feed));
    });
    failure.into_result()
}

/// Does one thread's part of a replay.
fn apply_all<'t, C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    errands: &Receiver<Errand<'t>>,
    empty: &Sender<Batch<'t>>,
    progress: &(impl Fn(usize) + Sync),
) -> Result<()> {
    let mut restorer = Restorer::new(engine)?;
    for errand in errands {
        match errand {
            Errand::Apply(mut batch) => {
                restorer.apply(&batch)?;
                progress(batch.len());
                batch.clear();
                let _ = empty.send(batch); // nothing asks for it at the end
            }
            Errand::Answer(done) => done.send(()).map_err(|_| Error::Cancelled)?,
        }
    }
    Ok(())
}

/// Takes the changes that are pushed.
pub(crate) struct Feed<'t, 'f, C: ConcurrencyControl> {
    /// The batches that are being filled: one for each thread.
    batches: Vec<Batch<'t>>,
    sink: Sink<'t, 'f, C>,
}

/// What a thread is asked to do.
enum Errand<'t> {
    Apply(Batch<'t>),
    /// Answer when everything before is done.
    Answer(Sender<()>),
}

/// Where a batch goes. The queues are bounded. So for each thread there are at most as many batches as its queue
/// holds, and two more.
enum Sink<'t, 'f, C: ConcurrencyControl> {
    Here { restorer: Restorer<C>, progress: &'f dyn Fn(usize) },
    Threads { queues: Vec<SyncSender<Errand<'t>>>, emptied: Receiver<Batch<'t>> },
}

impl<'t, 'f, C: ConcurrencyControl> Feed<'t, 'f, C> {
    fn new(parts: usize, sink: Sink<'t, 'f, C>) -> Self {
        Feed { batches: (0..parts).map(|_| Batch::default()).collect(), sink }
    }

    fn run(mut self, feed: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        feed(&mut self)?;
        (0..self.batches.len()).try_for_each(|part| self.send(part))
    }

    /// Adds a change behind all others: the value that the row under `key` has from the commit at `at` on, or that it
    /// has none. Notes the change for the next checkpoint. An error may be that of an earlier change.
    pub(crate) fn push(
        &mut self,
        table: &'t TableInner,
        key: &[u8],
        value: Option<&[u8]>,
        at: u64,
    ) -> Result<()> {
        // SAFETY: no checkpoint is made before the database is recovered, so the marks stay.
        unsafe { table.index.touch(key) };
        let part = part_of(table, key, self.batches.len());
        let batch = &mut self.batches[part];
        batch.push(table, key, value, at);
        if batch.len() < BATCH_CHANGES && batch.bytes() < BATCH_BYTES {
            return Ok(());
        }
        self.send(part)
    }

    /// Waits until all changes have been made that were pushed so far.
    pub(crate) fn settle(&mut self) -> Result<()> {
        (0..self.batches.len()).try_for_each(|part| self.send(part))?;
        let Sink::Threads { queues, .. } = &self.sink else { return Ok(()) };
        let (done, all_done) = mpsc::channel();
        for queue in queues {
            queue.send(Errand::Answer(done.clone())).map_err(|_| Error::Cancelled)?; // as in `send`
        }
        drop(done);
        let answers = all_done.iter().count();
        if answers == queues.len() { Ok(()) } else { Err(Error::Cancelled) }
    }

    fn send(&mut self, part: usize) -> Result<()> {
        let batch = &mut self.batches[part];
        if batch.len() == 0 {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Here { restorer, progress } => {
                restorer.apply(batch)?;
                progress(batch.len());
                batch.clear();
                Ok(())
            }
            Sink::Threads { queues, emptied } => {
                let full = std::mem::replace(batch, emptied.try_recv().unwrap_or_default());
                // Only a thread that has noted why it ended, or that has panicked, refuses a batch.
                queues[part].send(Errand::Apply(full)).map_err(|_| Error::Cancelled)
            }
        }
    }
}

/// Returns the part, of `parts`, that the changes of a key belong to.
#[inline]
fn part_of(table: &TableInner, key: &[u8], parts: usize) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = std::ptr::from_ref(table).addr() as u64;
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(FACTOR).rotate_left(32);
    let (words, rest) = key.as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    // This takes the highest bits, which depend on all others.
    ((u128::from(hash.wrapping_mul(FACTOR)) * parts as u128) >> 64) as usize
}

/// The first error of several threads.
#[derive(Default)]
struct Failure {
    has_happened: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Failure {
    fn note(&self, result: Result<()>) {
        let Err(error) = result else { return };
        lock(&self.first).get_or_insert(error);
        self.has_happened.store(true, Ordering::Relaxed); // a hint; the lock orders the error
    }

    fn has_happened(&self) -> bool {
        self.has_happened.load(Ordering::Relaxed)
    }

    fn into_result(self) -> Result<()> {
        self.first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() + Send + 's) -> Result<()> {
    match thread::Builder::new().name("braid recovery".into()).spawn_scoped(scope, work) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::InvalidOption {
            option: "workers",
            reason: format!("the system refused a thread for recovery: {error}"),
        }),
    }
}
