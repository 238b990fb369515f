//! Models of the registry of snapshots under weak memory.

use crate::cc::common::registry::{Outcome, Registry};
use crate::memory::Memory;
use crate::record::{Stamp, Tag};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::loom::{Planted, check};
use loom::thread;

/// Proves that no open snapshot is older than the snapshot that reclamation takes for the oldest, however the two meet.
#[test]
fn floors_hold_reclamation() {
    check("floors", &[Planted::Fences], || {
        let registry = Arc::new(Registry::new(&Memory::new(u64::MAX)));
        let [mine, first, second] = [(); 3].map(|()| registry.join().expect("room"));
        let floor = registry.floor();
        let worker = thread::spawn({
            let registry = Arc::clone(&registry);
            move || {
                registry.raise(&floor);
                let begin = registry.open(first);
                registry.follow(&floor, begin);
                registry.follow(&floor, registry.open(second));
                begin // the older snapshot
            }
        });
        registry.draw(mine);
        let oldest = registry.oldest();
        let begin = worker.join().expect("no panic");
        assert!(oldest <= begin, "what the snapshot {begin:?} sees is reclaimed up to {oldest:?}");
    });
}

/// Proves that a snapshot sees the whole commit if the commit's time is not later, and nothing of it otherwise.
#[test]
fn commits_are_whole() {
    check("commits", &[Planted::Updates], || {
        let registry = Arc::new(Registry::new(&Memory::new(u64::MAX)));
        let (mine, theirs) = (registry.join().expect("room"), registry.join().expect("room"));
        let tag = Tag::new(theirs, 1);
        registry.announce(theirs, tag);
        let version = Arc::new(AtomicU64::new(tag.word()));
        let writer = thread::spawn({
            let (registry, version) = (Arc::clone(&registry), Arc::clone(&version));
            move || {
                let at = registry.draw(theirs);
                registry.settle(theirs, at);
                version.store(at.0, Ordering::Release);
                at
            }
        });
        let begin = registry.open(mine);
        let seen = loop {
            let stamp = Stamp(version.load(Ordering::Acquire));
            let Some(tag) = stamp.tag() else { break Some(stamp.is_committed_by(begin)) };
            match registry.outcome(tag) {
                Outcome::Active => break Some(false),
                Outcome::Committed(at) => break Some(at <= begin),
                Outcome::Pending(at) if at > begin => break Some(false),
                // Waiting is always correct.
                Outcome::Pending(_) | Outcome::Committing => break None,
                Outcome::Ended => thread::yield_now(),
            }
        };
        let at = writer.join().expect("no panic");
        assert!(
            seen.is_none_or(|seen| seen == (at <= begin)),
            "begun at {begin:?}, committed at {at:?}: {seen:?}"
        );
    });
}
