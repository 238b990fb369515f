//! A server with one thread, which owns its sockets, a worker, and the loop around both. A client sends keys of 8
//! bytes. For each key it gets the number of times that the key has been sent up to now. Each answer is a transaction.
//! The clients are threads of the same process.
//!
//! Run: `cargo run -p braiddb --example own_loop`.

use braiddb::worker::Worker;
use braiddb::{Database, Error, Options, Result, Table, Txn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;

const CLIENTS: u64 = 4;
const REQUESTS: u64 = 2500;
const KEYS: u64 = 100;
/// Rounds of transactions between two looks at the sockets.
const ROUNDS_MAX: u32 = 40;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let counts = db.table("counts")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let clients: Vec<_> = (0..CLIENTS).map(|number| thread::spawn(move || client(address, number))).collect();
    serve(&mut db.worker(), counts, &listener)?;
    let mut answers = 0;
    for client in clients {
        answers += client.join().map_err(|_| "a client panicked")??;
    }
    println!("{answers} requests answered, in {} transactions", db.statistics().commits);
    Ok(())
}

/// Sends all requests at once, and reads the answers. Returns the number of answers.
fn client(address: SocketAddr, number: u64) -> io::Result<u64> {
    let mut socket = TcpStream::connect(address)?;
    for request in 0..REQUESTS {
        socket.write_all(&((number + request) % KEYS).to_le_bytes())?;
    }
    let mut answer = [0; 8];
    for _ in 0..REQUESTS {
        socket.read_exact(&mut answer)?;
    }
    Ok(REQUESTS)
}

/// Serves `CLIENTS` clients until they have gone.
fn serve(
    worker: &mut Worker,
    counts: Table<u64, u64>,
    listener: &TcpListener,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let wake_fd = worker.wake_fd()?;
    let (mut connections, mut accepted) = (Vec::<Connection>::new(), 0);
    loop {
        worker.run_rounds(ROUNDS_MAX);
        for connection in &mut connections {
            connection.send()?;
        }
        connections.retain(|connection| !connection.is_done());
        if accepted == CLIENTS && connections.is_empty() {
            return Ok(());
        }

        // Nothing may happen between the worker's answer and the wait.
        let timeout = worker.prepare_to_sleep().timeout().map(|timeout| Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut ready = vec![PollFd::new(&wake_fd, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        ready.extend(
            connections.iter().map(|connection| PollFd::new(&connection.socket, connection.wanted())),
        );
        poll(&mut ready, timeout.as_ref())?;

        let is_ready: Vec<bool> = ready.iter().map(|ready| !ready.revents().is_empty()).collect();
        for (connection, _) in connections.iter_mut().zip(&is_ready[2..]).filter(|(_, is_ready)| **is_ready) {
            connection.receive(worker, counts)?;
        }
        if is_ready[1] {
            connections.push(Connection::new(listener.accept()?.0)?);
            accepted += 1;
        }
    }
}

/// A client, from the server's view.
struct Connection {
    socket: TcpStream,
    /// The bytes of the next request that have been received.
    request: Vec<u8>,
    replies: Rc<Replies>,
    is_closed: bool,
}

/// The answers of transactions to a client.
#[derive(Default)]
struct Replies {
    bytes: RefCell<Vec<u8>>,
    /// The number of requests that are not answered yet.
    awaited: Cell<u64>,
}

impl Connection {
    fn new(socket: TcpStream) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        Ok(Connection { socket, request: Vec::new(), replies: Rc::default(), is_closed: false })
    }

    /// The events that the connection waits for.
    fn wanted(&self) -> PollFlags {
        let reads = if self.is_closed { PollFlags::empty() } else { PollFlags::IN };
        let writes = if self.replies.bytes.borrow().is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        reads | writes
    }

    fn is_done(&self) -> bool {
        self.is_closed && self.replies.awaited.get() == 0 && self.replies.bytes.borrow().is_empty()
    }

    /// Reads what has arrived, and spawns a transaction for each request in it.
    fn receive(&mut self, worker: &mut Worker, counts: Table<u64, u64>) -> Result<()> {
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.request.extend(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(Error::user(error)),
        }
        let whole = self.request.len() - self.request.len() % 8;
        for key in self.request.drain(..whole).collect::<Vec<_>>().chunks_exact(8) {
            let key = u64::from_le_bytes(key.try_into().map_err(Error::user)?);
            self.answer(worker, counts, key)?;
        }
        Ok(())
    }

    fn answer(&self, worker: &mut Worker, counts: Table<u64, u64>, key: u64) -> Result<()> {
        let body = async move |tx: &Txn| {
            let count = tx.get_for_update(counts, key).await?.unwrap_or(0) + 1;
            tx.put(counts, key, count).await?;
            Ok(count)
        };
        let replies = self.replies.clone();
        replies.awaited.set(replies.awaited.get() + 1);
        let end = move |count: Result<u64>| {
            replies.awaited.set(replies.awaited.get() - 1);
            replies.bytes.borrow_mut().extend(count.unwrap_or(u64::MAX).to_le_bytes());
        };
        worker.spawn(body, end).map(drop)
    }

    /// Sends as much of the replies as the system takes.
    fn send(&mut self) -> io::Result<()> {
        let mut replies = self.replies.bytes.borrow_mut();
        if replies.is_empty() {
            return Ok(());
        }
        match self.socket.write(&replies) {
            Ok(count) => drop(replies.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
