//! A thread that owns sockets and a worker: transactions beyond the batch, a descriptor that wakes the thread, and
//! rounds that end. The tests check counts and orders, never times.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::{Clock, SystemClock};
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::worker::{Hint, Sleep, WakeFd, Worker, WorkerOptions};
use braiddb::{Database, Error, Options, Serializable, Table, Txn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Rounds between two looks at the sockets.
const ROUNDS_MAX: u32 = 40;
/// Longer than any test takes. If nothing else ends a wait, the test fails.
const LONG: Duration = Duration::from_secs(120);

fn database(options: Options) -> (Database, Table<u64, u64>) {
    let db = Database::in_memory(Options { workers: 0, ..options }).unwrap();
    let table = db.table("t").unwrap();
    (db, table)
}

/// Waits for the descriptors, no longer than the worker may sleep. Returns the readable ones.
fn wait<const N: usize>(descriptors: [&dyn AsFd; N], sleep: Sleep) -> [bool; N] {
    let timeout = sleep.timeout().unwrap_or(LONG);
    let timeout =
        Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
    let mut ready = descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN));
    let count = poll(&mut ready, Some(&timeout)).unwrap();
    assert!(count > 0 || sleep.timeout().is_some(), "nothing has woken the thread");
    ready.map(|ready| ready.revents().contains(PollFlags::IN))
}

fn is_readable(descriptor: &dyn AsFd) -> bool {
    wait([descriptor], Sleep::NotNow)[0]
}

/// A message that a socket brings and for which transactions wait.
#[derive(Default)]
struct Message {
    has_come: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Message {
    fn come(&self) {
        self.has_come.set(true);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        std::future::poll_fn(|context| {
            if self.has_come.get() {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Spawns a transaction that counts `key` up, and adds to `ended` when it has ended.
fn count_up(
    worker: &mut Worker,
    table: Table<u64, u64>,
    key: u64,
    ended: &Rc<Cell<u64>>,
) -> Result<(), Error> {
    let ended = ended.clone();
    let body = async move |tx: &Txn| {
        let count = tx.get(table, key).await?.unwrap_or(0);
        tx.put(table, key, count + 1).await
    };
    let end = move |result: Result<(), Error>| {
        result.unwrap();
        ended.set(ended.get() + 1);
    };
    worker.spawn(body, end).map(drop)
}

#[test]
fn sockets_stay_responsive_while_transactions_run() {
    // Proves that 10,000 transactions that are spawned at once all commit, while everything that a peer sends is read
    // in the very next of many turns of the loop.
    const TRANSACTIONS: u64 = 10_000;
    const ROUNDS_MAX: u32 = 4;
    let (db, table) = database(Options::default());
    let mut worker = db.worker_with(
        braiddb::suspend::OnMiss,
        WorkerOptions { batch: 16.into(), ..WorkerOptions::default() },
    );
    let wake_fd = worker.wake_fd().unwrap();
    let (mut peer, mut socket) = UnixStream::pair().unwrap();
    let ended = Rc::new(Cell::new(0));
    for i in 0..TRANSACTIONS {
        count_up(&mut worker, table, i % 1000, &ended).unwrap();
    }
    assert_eq!(worker.queued() + worker.open(), 10_000);
    assert!(worker.open() <= 16);
    let mut turns = 0_u64;
    while worker.queued() + worker.open() > 0 {
        peer.write_all(&turns.to_le_bytes()).unwrap();
        let [_, has_come] = wait([&wake_fd, &socket], worker.prepare_to_sleep());
        assert!(has_come, "turn {turns}");
        let mut bytes = [0; 8];
        socket.read_exact(&mut bytes).unwrap();
        socket.write_all(&bytes).unwrap();
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), turns);
        let progress = worker.run_rounds(ROUNDS_MAX);
        assert!(progress.rounds <= ROUNDS_MAX && worker.open() <= 16);
        turns += 1;
    }
    assert_eq!(ended.get(), TRANSACTIONS);
    // In a round, no more transactions end than are open: 16, and as many that take their places at once.
    assert!(turns >= TRANSACTIONS / u64::from(ROUNDS_MAX) / 64, "{turns} turns");
    let sum = worker.run(async |tx| {
        let (mut rows, mut sum) = (tx.scan_all(table), 0);
        while let Some((_, count)) = rows.next().await? {
            sum += count;
        }
        Ok(sum)
    });
    assert_eq!(sum.unwrap(), TRANSACTIONS);
}

#[test]
fn a_lock_s_holder_may_wait_for_a_socket() {
    // One transaction holds a row and waits for what a client of a listener of the same thread will send. Proves that
    // thousands of transactions that want the row wait in the row's queue and the worker's, that the thread sleeps,
    // and that the client's bytes end all waits.
    const TRANSACTIONS: u64 = 3000;
    let (db, table) = database(Options { lock_wait_ms: 1_000_000, ..Options::default() });
    let mut worker = db.worker();
    let wake_fd = worker.wake_fd().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();

    let message = Rc::new(Message::default());
    let ended = Rc::new(Cell::new(0));
    let (awaited, counted) = (message.clone(), ended.clone());
    let body = async move |tx: &Txn| {
        tx.put(table, 1, 1000).await?;
        awaited.wait().await;
        Ok(())
    };
    worker.spawn(body, move |result| counted.set(counted.get() + u64::from(result.is_ok()))).unwrap();
    while worker.run_rounds(ROUNDS_MAX).rounds > 0 {}
    for _ in 0..TRANSACTIONS {
        let counted = ended.clone();
        let body = async move |tx: &Txn| {
            let count = tx.get_for_update(table, 1).await?.unwrap_or(0);
            tx.put(table, 1, count + 1).await
        };
        let end = move |result: Result<(), Error>| {
            result.unwrap();
            counted.set(counted.get() + 1);
        };
        worker.spawn(body, end).unwrap();
    }

    let (mut client, mut connection, mut sleeps) = (None, None::<TcpStream>, 0);
    loop {
        worker.run_rounds(ROUNDS_MAX);
        if ended.get() > TRANSACTIONS {
            break;
        }
        let sleep = worker.prepare_to_sleep();
        if sleep != Sleep::NotNow && client.is_none() {
            assert_eq!(ended.get(), 0, "the row is locked");
            assert!(worker.queued() > 0 && worker.open() > 1000);
            // From now on, there is something to read.
            client = Some(std::thread::spawn(move || {
                TcpStream::connect(address).unwrap().write_all(b"go").unwrap();
            }));
        }
        sleeps += u64::from(sleep != Sleep::NotNow);
        let none: &dyn AsFd = &wake_fd;
        let [_, connects, has_come] =
            wait([&wake_fd, &listener, connection.as_ref().map_or(none, |connection| connection)], sleep);
        if connects {
            let accepted = listener.accept().unwrap().0;
            accepted.set_nonblocking(true).unwrap();
            connection = Some(accepted);
        } else if let Some(connection) = connection.as_mut().filter(|_| has_come) {
            let mut bytes = [0; 2];
            match connection.read(&mut bytes) {
                Ok(2) => message.come(),
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }
    client.unwrap().join().unwrap();
    assert!(sleeps >= 2, "{sleeps}");
    assert_eq!(worker.run(async |tx| tx.get(table, 1).await).unwrap(), Some(1000 + TRANSACTIONS));
}

/// A clock that moves only when it is told to.
#[derive(Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn unix_ns(&self) -> u64 {
        self.now_ns()
    }
}

/// Runs the worker until it may sleep.
fn settle(worker: &mut Worker) -> Option<Duration> {
    loop {
        worker.run_rounds(ROUNDS_MAX);
        if let Sleep::UntilWoken { at_most } = worker.prepare_to_sleep() {
            return at_most;
        }
    }
}

#[test]
fn the_end_of_a_wait_for_a_row_wakes_the_worker() {
    // Proves that a worker whose transaction waits for a row reports the end of the wait, to the nanosecond. A commit
    // of the holder makes the descriptor readable. Without a commit, a call at that time ends the wait.
    const WAIT_MS: u64 = 50;
    for commits in [true, false] {
        let clock = Arc::new(Hands::default());
        let options = Options { workers: 0, lock_wait_ms: WAIT_MS, ..Options::default() };
        let db = Database::<Serializable>::in_memory_with(options, clock.clone()).unwrap();
        let table: Table<u64, u64> = db.table("t").unwrap();
        let mut worker = db.worker();
        let wake_fd = worker.wake_fd().unwrap();
        worker.run(async |tx| tx.put(table, 1, 1).await).unwrap();
        let holder = db.begin().unwrap();
        holder.get_for_update(table, 1).unwrap();
        let got = Rc::new(RefCell::new(None));
        let end = got.clone();
        let body = async move |tx: &Txn| tx.get_for_update(table, 1).await;
        worker.spawn(body, move |result| *end.borrow_mut() = Some(result)).unwrap();
        assert_eq!(settle(&mut worker), Some(Duration::from_millis(WAIT_MS)));
        clock.0.fetch_add(3_000_000, Relaxed);
        assert_eq!(settle(&mut worker), Some(Duration::from_millis(WAIT_MS - 3)));
        assert!(!is_readable(&wake_fd));
        if commits {
            holder.commit().unwrap();
            assert!(is_readable(&wake_fd));
            settle(&mut worker);
            assert!(matches!(got.take(), Some(Ok(Some(1)))));
        } else {
            clock.0.fetch_add(WAIT_MS * 1_000_000, Relaxed);
            settle(&mut worker);
            assert!(matches!(got.take(), Some(Err(Error::LockTimeout(_)))));
        }
        assert!(!is_readable(&wake_fd));
    }
}

#[test]
fn a_durable_commit_wakes_the_worker() {
    // Proves that the result of a commit is held back until the log has it, which makes the descriptor readable, and
    // that the transaction has left its place meanwhile.
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    let options = Options { workers: 0, log_segment_bytes: 1 << 18, ..Options::default() };
    let db: Database =
        Database::open_with(storage, options, Arc::new(SystemClock::default()), &mut |_| {}).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    let wake_fd = worker.wake_fd().unwrap();
    let ended = Rc::new(Cell::new(0));
    let mut sleeps = 0;
    for round in 1..=20 {
        for key in 0..100 {
            count_up(&mut worker, table, key, &ended).unwrap();
        }
        loop {
            worker.run_rounds(ROUNDS_MAX);
            if ended.get() == round * 100 {
                break;
            }
            let sleep = worker.prepare_to_sleep();
            if sleep != Sleep::NotNow {
                assert_eq!((worker.open(), worker.queued()), (0, 0));
                sleeps += 1;
            }
            wait([&wake_fd], sleep);
        }
    }
    assert_eq!((worker.held(), ended.get()), (0, 2000));
    assert!(sleeps > 0, "no commit was ever waited for");
}

#[test]
fn an_idle_worker_cleans_up_again() {
    // Proves that a worker that has superseded rows which an open transaction can see asks to be called again, and
    // that it sleeps for as long as nothing wakes it once these rows are gone.
    let (db, table) = database(Options::default());
    let mut worker = db.worker();
    worker.wake_fd().unwrap();
    worker.run(async |tx| tx.put(table, 1, 1).await).unwrap();
    let reader = db.begin().unwrap();
    assert_eq!(reader.get(table, 1).unwrap(), Some(1));
    worker.run(async |tx| tx.put(table, 1, 2).await).unwrap();
    assert!(settle(&mut worker).is_some());
    drop(reader);
    for _ in 0..1000 {
        if settle(&mut worker).is_none() {
            assert_eq!(worker.garbage(), 0);
            return;
        }
    }
    panic!("{} changes are never cleaned up", worker.garbage());
}

#[test]
fn what_waits_is_counted_and_limited() {
    // Proves that transactions that wait for a place are in the memory account, and are taken out when they are let
    // in, cancelled, or dropped with the worker. Either limit refuses with an error that says what to do.
    let bytes = |db: &Database| db.statistics().memory.transactions_bytes;
    let (db, table) = database(Options { memory_limit_bytes: 4 << 20, ..Options::default() });
    let options = || WorkerOptions { batch: 4.into(), queued_max: 50, ..WorkerOptions::default() };
    let mut worker = db.worker_with(braiddb::suspend::OnMiss, options());
    let ended = Rc::new(Cell::new(0));
    let fill = |worker: &mut Worker| (0..54).for_each(|i| count_up(worker, table, i, &ended).unwrap());
    fill(&mut worker);
    while worker.round() {}
    let before = bytes(&db);
    fill(&mut worker);
    let full = count_up(&mut worker, table, 54, &ended).unwrap_err();
    assert!(matches!(full, Error::QueueFull { queued_max: 50 }) && full.is_retryable());
    assert!(full.to_string().contains("50 spawned transactions wait"), "{full}");
    assert!(bytes(&db) >= before + 50 * 32, "{} bytes, {before} before", bytes(&db));
    let name = worker.spawn(async |_: &Txn| Ok(()), |_: Result<(), Error>| ());
    assert!(name.is_err());
    while worker.round() {}
    assert_eq!((ended.get(), bytes(&db)), (108, before));

    let options = WorkerOptions { queued_max: usize::MAX, ..options() };
    let mut worker = db.worker_with(braiddb::suspend::OnMiss, options);
    let before = bytes(&db);
    let ballast = [0_u8; 4000];
    let refused = loop {
        let body = async move |_: &Txn| Ok(ballast.len());
        if let Err(error) = worker.spawn(body, |_| ()) {
            break error;
        }
        assert!(worker.queued() < 10_000, "40 MB are not refused");
    };
    assert!(matches!(refused, Error::OutOfMemory { limit_bytes: 4_194_304 }), "{refused}");
    drop(worker);
    assert!(bytes(&db) <= before);
}

#[test]
fn hinted_ones_take_turns_beyond_the_batch() {
    // Proves that spawned transactions that touch the same keys run one after the other, in the order in which they
    // were spawned and without a conflict, however many wait, and that others continue beside them.
    let (db, table) = database(Options::default());
    let mut worker = db
        .worker_with(braiddb::suspend::OnMiss, WorkerOptions { batch: 8.into(), ..WorkerOptions::default() });
    let order = Rc::new(RefCell::new(vec![Vec::new(); 3]));
    for i in 0..600_usize {
        let (key, order) = (i % 3, order.clone());
        let body = async move |tx: &Txn| {
            let count = tx.get(table, key as u64).await?.unwrap_or(0);
            tx.put(table, key as u64, count + 1).await
        };
        let end = move |result: Result<(), Error>| {
            result.unwrap();
            order.borrow_mut()[key].push(i);
        };
        worker.spawn_hinted(Hint::default().touches(key as u64), body, end).unwrap();
    }
    while worker.round() {}
    for (key, order) in order.take().into_iter().enumerate() {
        assert!(order.into_iter().eq((key..600).step_by(3)), "key {key}");
    }
    assert_eq!(db.statistics().aborts_conflict, 0);
}

#[test]
fn a_cancelled_one_never_begins() {
    // Proves that a transaction that is cancelled while it waits for a place does not begin, and that a running one is
    // undone.
    let (db, table) = database(Options::default());
    let mut worker = db
        .worker_with(braiddb::suspend::OnMiss, WorkerOptions { batch: 1.into(), ..WorkerOptions::default() });
    let message = Rc::new(Message::default());
    let begun = Rc::new(Cell::new(0));
    let names = [1, 2].map(|key| {
        let (message, begun) = (message.clone(), begun.clone());
        let body = async move |tx: &Txn| {
            begun.set(begun.get() + 1);
            tx.put(table, key, 1).await?;
            message.wait().await;
            Ok(())
        };
        worker.spawn(body, |_| panic!("cancelled")).unwrap()
    });
    assert_eq!((worker.open(), worker.queued()), (1, 1));
    assert!(worker.cancel(names[1]));
    while worker.round() {}
    assert_eq!((begun.get(), worker.queued()), (1, 0));
    assert!(worker.cancel(names[0]) && !worker.cancel(names[0]) && !worker.cancel(names[1]));
    assert_eq!(
        worker.run(async |tx| Ok((tx.get(table, 1).await?, tx.get(table, 2).await?))).unwrap(),
        (None, None)
    );
}

#[test]
fn the_descriptor_is_a_descriptor() {
    // Proves that the descriptor can go into a set by number and by reference, and is the same at every call.
    use std::os::fd::AsRawFd;
    let (db, _) = database(Options::default());
    let mut worker = db.worker();
    let first: WakeFd = worker.wake_fd().unwrap();
    assert_eq!(first.as_raw_fd(), first.as_fd().as_raw_fd());
    assert_eq!(first.as_raw_fd(), worker.wake_fd().unwrap().as_raw_fd());
    assert!(!is_readable(&first));
}
