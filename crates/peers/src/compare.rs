//! The turns of the peers. Each peer runs once per repeat, in its own process, so that other load on the machine
//! affects all peers equally.

use crate::args::Args;
use crate::engines::PEERS;
use crate::measure::{self, CellOrder, Found, Order};
use crate::peer::{Class, Facts};
use crate::report::{Outcome, Turns};
use crate::work::shape_of;
use braid_bench::environment::{Environment, memory_available_bytes};
use braid_bench::{Failure, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// Runs one order and writes the answer; called in the inner process.
pub fn serve(order: &str, answer: &Path) -> Result<()> {
    let order: Order = serde_json::from_str(order).map_err(|error| Failure::new(error.to_string()))?;
    let found = measure::measure(&order)?;
    let text = serde_json::to_string(&found).map_err(|error| Failure::new(error.to_string()))?;
    fs::write(answer, text).map_err(|error| cannot("write", answer, error))
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}", path.display()))
}

/// Compares the peers that the arguments name.
pub fn run(args: &Args) -> Result<()> {
    let cells = cells(args)?;
    let peers = peers(args)?;
    check(args)?;
    let mut turns: Vec<Turns> = peers.iter().map(|facts| Turns::new(facts)).collect();
    let bar = ProgressBar::new((args.repeats * peers.len()) as u64);
    let style = ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} {msg}");
    bar.set_style(style.map_err(|error| Failure::new(error.to_string()))?);
    for repeat in 0..args.repeats {
        for (facts, turns) in peers.iter().zip(&mut turns) {
            bar.set_message(facts.name);
            // A peer that has failed once would fail again.
            if turns.failure.is_none() {
                match turn(args, facts, &cells, repeat as u64) {
                    Ok(found) => turns.found.push(found),
                    Err(failure) => turns.failure = Some(failure.to_string()),
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let outcome = Outcome::new(Environment::of_this_machine(), args, cells, turns);
    outcome.show(args.json.as_deref())
}

/// Returns each workload with each number of clients. Workloads that only read come first, then workloads that write,
/// and last workloads that add records, so that the effects of a workload are seen by as few others as possible.
fn cells(args: &Args) -> Result<Vec<CellOrder>> {
    let clients = match args.class {
        Class::Memory => &args.threads,
        Class::Sync => &args.clients,
    };
    if clients.iter().any(|clients| !(1..=1024).contains(clients)) {
        return Err(Failure::new("threads and clients must be from 1 to 1024"));
    }
    let mut ordered = Vec::new();
    for workload in &args.workload {
        let workload = workload.to_ascii_lowercase();
        ordered.push((shape_of(&workload, args.branches)?.change(), workload));
    }
    ordered.sort_by_key(|(change, _)| *change);
    let cell = |workload: &String, clients: usize| CellOrder { workload: workload.clone(), clients };
    Ok(ordered.iter().flat_map(|(_, name)| clients.iter().map(move |&clients| cell(name, clients))).collect())
}

/// Returns the peers to compare: the requested ones, or else all, without servers that are not named. Peers that cannot
/// make the promise are left out.
fn peers(args: &Args) -> Result<Vec<&'static Facts>> {
    let wanted = |facts: &&Facts| match args.peers.is_empty() {
        true => match facts.name {
            "postgres" => args.postgres.is_some(),
            "redis" => args.redis.is_some(),
            _ => true,
        },
        false => args.peers.iter().any(|name| name == facts.name),
    };
    let able = |facts: &&Facts| facts.classes.contains(&args.class);
    let peers: Vec<&Facts> = PEERS.iter().filter(wanted).filter(able).collect();
    if peers.is_empty() {
        return Err(Failure::new(format!("none of these peers can promise class {}", args.class.name())));
    }
    Ok(peers)
}

/// Approximate bytes of a record in the most wasteful peer, files in memory included.
const BYTES_PER_RECORD: u64 = 500;

fn check(args: &Args) -> Result<()> {
    let invalid = |what: &str| Err(Failure::new(what));
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return invalid("--seconds must be more than 0 and at most 3600");
    }
    if !(1..=1000).contains(&args.repeats) || !(1..=1024).contains(&args.workers) {
        return invalid("--repeats must be from 1 to 1000 and --workers from 1 to 1024");
    }
    if !(0.0..10.0).contains(&args.theta) || !(1..=1000).contains(&args.branches) {
        return invalid("--theta must be from 0 to 10 and --branches from 1 to 1000");
    }
    match memory_available_bytes() {
        Some(available) if args.records.saturating_mul(BYTES_PER_RECORD) > available => {
            Err(Failure::new(format!(
                "{} records may take {} MiB in some peer, and {} MiB are available: ask for fewer with --records",
                args.records,
                args.records.saturating_mul(BYTES_PER_RECORD) >> 20,
                available >> 20
            )))
        }
        _ => Ok(()),
    }
}

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // the user has to remove what is left
    }
}

/// The folder in which the system shows memory.
const MEMORY_FOLDER: &str = "/dev/shm";

fn folder(args: &Args, name: &str) -> Result<Folder> {
    let parent = match (&args.directory, args.class) {
        (Some(directory), _) => directory.clone(),
        (None, Class::Memory) if Path::new(MEMORY_FOLDER).is_dir() => MEMORY_FOLDER.into(),
        (None, _) => std::env::temp_dir(),
    };
    let folder = parent.join(format!("braid-peers-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, error))?;
    Ok(Folder(folder))
}

/// The environment variable that configures the C library's allocator, and its value unless the user has set it. The
/// value requests huge pages for the heap, if the system gives them on request. Braid requests them for its memory too.
const HUGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Runs one peer's turn.
fn turn(args: &Args, facts: &Facts, cells: &[CellOrder], repeat: u64) -> Result<Found> {
    let folder = folder(args, facts.name)?;
    let order = Order {
        peer: facts.name.to_owned(),
        class: args.class,
        records: args.records,
        theta: args.theta,
        branches: args.branches,
        cells: cells.to_vec(),
        workers: args.workers,
        seconds: args.seconds,
        seed: args.seed.wrapping_add(repeat),
        directory: folder.0.join("data"),
        postgres: args.postgres.clone(),
        redis: args.redis.clone(),
    };
    let answer = folder.0.join("answer");
    let order = serde_json::to_string(&order).map_err(|error| Failure::new(error.to_string()))?;
    let program = std::env::current_exe().map_err(|error| Failure::new(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg("measure").arg(order).arg(&answer);
    if std::env::var_os(HUGE_PAGES.0).is_none() {
        command.env(HUGE_PAGES.0, HUGE_PAGES.1);
    }
    let mut child = command.spawn().map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    wait(&mut child, Duration::from_secs(args.limit_s))?;
    let text = fs::read_to_string(&answer).map_err(|error| cannot("read", &answer, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::new(error.to_string()))
}

fn wait(child: &mut Child, limit: Duration) -> Result<()> {
    let begin = Instant::now();
    let failed = |error: std::io::Error| Failure::new(format!("cannot wait for a peer: {error}"));
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(Failure::new(format!("its process ended with {status}, see above"))),
            None if begin.elapsed() > limit => {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                return Err(Failure::new(format!("it took longer than {} s", limit.as_secs())));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn args(line: &str) -> Args {
        Args::try_parse_from(std::iter::once("braid-peers").chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn workloads_that_add_records_come_last() {
        // Proves the order of the cells: reads, writes, inserts, and otherwise as named. Also proves that class sync
        // uses clients and class memory threads.
        let order = |line: &str| {
            let cells = cells(&args(line)).unwrap();
            cells
                .iter()
                .map(|cell| format!("{}/{}", cell.workload, cell.clients))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(order("--workload i,u10,R1,m --threads 1,2"), "r1/1 r1/2 u10/1 u10/2 m/1 m/2 i/1 i/2");
        assert_eq!(order("--workload tpcb,i,s10,rmw1,r1 --threads 1"), "s10/1 r1/1 tpcb/1 rmw1/1 i/1");
        assert_eq!(order("--workload m --class sync --clients 1,8"), "m/1 m/8");
    }

    #[test]
    fn peers_are_those_that_can() {
        // Proves that only peers with the same promise are compared, and that servers must be named.
        let names =
            |line: &str| peers(&args(line)).unwrap().iter().map(|facts| facts.name).collect::<Vec<_>>();
        assert!(names("").contains(&"congee") && !names("").contains(&"postgres"));
        assert!(!names("").contains(&"redis"));
        assert!(names("--postgres x").contains(&"postgres") && names("--redis x").contains(&"redis"));
        assert!(!names("--class sync").contains(&"congee") && names("--class sync").contains(&"braid"));
        assert!(peers(&args("--class sync --peers congee")).is_err());
    }

    #[test]
    fn bad_arguments_are_refused() {
        // Proves that numbers out of bounds are refused.
        for line in
            ["--seconds 0", "--repeats 0", "--theta 11", "--branches 0", "--records 100G", "--workers 0"]
        {
            assert!(check(&args(line)).is_err(), "{line}");
        }
        assert!(check(&args("")).is_ok());
        assert!(cells(&args("--threads 0")).is_err() && cells(&args("--workload x")).is_err());
        assert!(Args::try_parse_from(["braid-peers", "--peers", "nobody"]).is_err());
    }
}
