//! A service over HTTP, by axum and tokio. Handlers await transactions. A client that disconnects cancels its request.
//! Requests for which there is no room are told to come again.
//!
//! `cargo run --example web_service -- 127.0.0.1:8080`, then `curl -X POST 127.0.0.1:8080/accounts/1/deposit/100`.
//! Without an address, the example sends requests to itself and ends.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use braiddb::{Database, Error, Options, Table, Txn};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Service {
    db: Database,
    accounts: Table<u64, u64>,
}

type Answer = Result<String, (StatusCode, String)>;

/// The program's own reasons to refuse a request.
#[derive(Debug)]
enum Refused {
    NoSuchAccount(u64),
    TooLittle { has: u64 },
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::NoSuchAccount(account) => write!(f, "there is no account {account}"),
            Refused::TooLittle { has } => write!(f, "there is only {has}"),
        }
    }
}

impl std::error::Error for Refused {}

fn answer(error: &Error) -> (StatusCode, String) {
    let status = match error {
        Error::User(_) => StatusCode::CONFLICT,
        // `try_run` reports that it is busy. `run_async` would wait for room.
        Error::Busy | Error::Conflict | Error::OutOfMemory { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("{error}\n"))
}

impl Service {
    fn new() -> braiddb::Result<Service> {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).div_ceil(2);
        let db = Database::in_memory(Options { workers, ..Options::default() })?;
        Ok(Service { accounts: db.table("accounts")?, db })
    }

    /// Runs a transaction, and turns its errors into answers.
    async fn run<R, F>(&self, closure: F) -> Result<R, (StatusCode, String)>
    where
        F: AsyncFnMut(&Txn) -> braiddb::Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let handle = self.db.try_run(closure).map_err(|error| answer(&error))?;
        handle.await.map_err(|error| answer(&error))
    }

    fn router(self) -> Router {
        Router::new()
            .route("/accounts/{account}", get(balance))
            .route("/accounts/{account}/deposit/{amount}", post(deposit))
            .route("/accounts/{from}/transfer/{to}/{amount}", post(transfer))
            .with_state(self)
    }
}

async fn balance(State(service): State<Service>, Path(account): Path<u64>) -> Answer {
    let found = service.run(async move |tx| tx.get(service.accounts, account).await).await;
    match found? {
        Some(balance) => Ok(format!("{balance}\n")),
        None => Err((StatusCode::NOT_FOUND, "no such account\n".into())),
    }
}

async fn deposit(State(service): State<Service>, Path((account, amount)): Path<(u64, u64)>) -> Answer {
    let done = service.run(async move |tx| {
        let balance = tx.get(service.accounts, account).await?.unwrap_or(0) + amount;
        tx.put(service.accounts, account, balance).await?;
        Ok(balance)
    });
    Ok(format!("{}\n", done.await?))
}

async fn transfer(State(service): State<Service>, Path((from, to, amount)): Path<(u64, u64, u64)>) -> Answer {
    let accounts = service.accounts;
    let done = service.run(async move |tx| {
        let (from_has, to_has) = (tx.get(accounts, from).await?, tx.get(accounts, to).await?);
        let from_has = from_has.ok_or_else(|| Error::user(Refused::NoSuchAccount(from)))?;
        let to_has = to_has.ok_or_else(|| Error::user(Refused::NoSuchAccount(to)))?;
        let left =
            from_has.checked_sub(amount).ok_or_else(|| Error::user(Refused::TooLittle { has: from_has }))?;
        tx.put(accounts, from, left).await?;
        tx.put(accounts, to, to_has + amount).await?;
        Ok(left)
    });
    Ok(format!("{} left\n", done.await?))
}

/// Sends a request as a client would. Returns the status and the body.
async fn ask(address: SocketAddr, method: &str, path: &str) -> std::io::Result<(u16, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_string()))
}

async fn ask_all(address: SocketAddr) -> std::io::Result<()> {
    let expected = [
        ("POST", "/accounts/1/deposit/100", 200, "100\n"),
        ("POST", "/accounts/2/deposit/0", 200, "0\n"),
        ("POST", "/accounts/1/transfer/2/70", 200, "30 left\n"),
        ("POST", "/accounts/1/transfer/2/70", 409, "there is only 30\n"),
        ("POST", "/accounts/1/transfer/3/7", 409, "there is no account 3\n"),
        ("GET", "/accounts/2", 200, "70\n"),
        ("GET", "/accounts/3", 404, "no such account\n"),
    ];
    for (method, path, status, body) in expected {
        let answer = ask(address, method, path).await?;
        println!("{method} {path}: {} {}", answer.0, answer.1.trim_end());
        assert_eq!((answer.0, answer.1.as_str()), (status, body), "{method} {path}");
    }
    // Many clients at once. The engine runs conflicting transactions again.
    let clients: Vec<_> = (0..64)
        .map(|_| tokio::spawn(async move { ask(address, "POST", "/accounts/2/deposit/1").await }))
        .collect();
    for client in clients {
        assert_eq!(client.await??.0, 200);
    }
    assert_eq!(ask(address, "GET", "/accounts/2").await?.1, "134\n");
    Ok(())
}

/// Runs the example.
pub fn main() -> std::io::Result<()> {
    let service = Service::new().map_err(std::io::Error::other)?;
    let address = std::env::args().nth(1).and_then(|word| word.parse::<SocketAddr>().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address.unwrap_or((Ipv4Addr::LOCALHOST, 0).into())).await?;
        let local = listener.local_addr()?;
        if address.is_some() {
            println!("listening at {local}");
            return axum::serve(listener, service.router()).await;
        }
        let db = service.db.clone();
        let (end, told_to_end) = futures::channel::oneshot::channel::<()>();
        let told_to_end = async move {
            let _ = told_to_end.await;
        };
        let serve = axum::serve(listener, service.router()).with_graceful_shutdown(told_to_end);
        let serving = tokio::spawn(async move { serve.await });
        let asked = ask_all(local).await;
        drop(end); // as a signal to the process would do
        serving.await??;
        db.shutdown().map_err(std::io::Error::other)?; // although tasks may still have handles
        asked
    })
}
