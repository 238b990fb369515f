//! Sessions that expire. Each request extends its session, a lookup refuses a session that has expired, and a thread
//! deletes expired sessions.
//!
//! `cargo run --example sessions`

use braiddb::{Database, Options, Result, Table};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// By token: the user, and the time at which the session expires, since 1970.
type Sessions = Table<String, (String, Duration)>;

const LIFETIME: Duration = Duration::from_secs(3600);

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the user of a session, and extends the session to an hour from now. Returns `None` if the session has
/// expired, whether or not its row was deleted.
fn request(db: &Database, sessions: Sessions, token: &str) -> Result<Option<String>> {
    let now = since_1970();
    db.transact(|tx| {
        let Some((user, expires)) = tx.get(sessions, token)? else { return Ok(None) };
        if expires <= now {
            return Ok(None);
        }
        tx.put(sessions, token, (&user, now + LIFETIME))?;
        Ok(Some(user))
    })
}

/// Runs the example.
pub fn main() -> Result<()> {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let sessions: Sessions = db.table("sessions")?;
    let expiry =
        db.expiry(sessions, "sessions by expiry", |_, (_, expires)| UNIX_EPOCH.checked_add(expires))?;
    let sweeper = expiry.sweep_every(Duration::from_millis(10))?;

    let open = |token: &str, user: &str, lifetime| {
        db.transact(|tx| tx.insert(sessions, token, (user, since_1970() + lifetime)))
    };
    open("7fa2", "Ada", LIFETIME)?;
    (0..1000)
        .try_for_each(|visitor| open(&format!("visitor {visitor}"), "nobody", Duration::from_millis(50)))?;
    assert_eq!(request(&db, sessions, "7fa2")?.as_deref(), Some("Ada"));

    while sweeper.deleted() < 1000 {
        std::thread::sleep(Duration::from_millis(1));
        if let Some(error) = sweeper.take_error() {
            return Err(error);
        }
    }
    println!("{} sessions have expired", sweeper.deleted());
    assert_eq!(request(&db, sessions, "visitor 7")?, None);
    assert_eq!(request(&db, sessions, "7fa2")?.as_deref(), Some("Ada"));
    Ok(())
}
