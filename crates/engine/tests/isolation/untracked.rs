//! Untracked reads, on which the transaction does not depend.

use super::skew;
use braiddb::{ConcurrencyControl, Serializable, Snapshot, Txn};

/// Plays a write skew through every kind of read, of present and of absent rows. `tracked` and `untracked` are the
/// numbers of transactions that commit.
fn check<C: ConcurrencyControl>(tracked: usize, untracked: usize) {
    for rows in [&[(1, 1), (2, 2)][..], &[]] {
        let committed = [
            skew::<C>(rows, async |tx, t, key| tx.get(t, key).await.map(drop)),
            skew::<C>(rows, async |tx, t, key| tx.contains(t, key).await.map(drop)),
            skew::<C>(rows, async |tx, t, key| tx.get_many(t, &[key, 7]).await.map(drop)),
            skew::<C>(rows, async |tx: &Txn<C>, t, key| tx.scan(t, key..=key).next().await.map(drop)),
        ];
        assert_eq!(committed, [tracked; 4], "{rows:?}");
        let committed = [
            skew::<C>(rows, async |tx, t, key| tx.get(t, key).untracked().await.map(drop)),
            skew::<C>(rows, async |tx, t, key| tx.contains(t, key).untracked().await.map(drop)),
            skew::<C>(rows, async |tx, t, key| tx.get_many(t, &[key, 7]).untracked().await.map(drop)),
            skew::<C>(rows, async |tx: &Txn<C>, t, key| {
                tx.scan(t, key..=key).untracked().next().await.map(drop)
            }),
        ];
        assert_eq!(committed, [untracked; 4], "{rows:?}");
    }
}

/// Proves that one transaction of a write skew aborts if reads are tracked, and none if they are not.
#[test]
fn untracked_skew_commits() {
    check::<Serializable>(1, 2);
    check::<Snapshot>(2, 2);
}

/// Proves that each read is tracked by itself: a tracked read before or after an untracked one counts.
#[test]
fn tracking_is_per_read() {
    let rows = &[(1, 1), (2, 2)];
    let before = skew::<Serializable>(rows, async |tx, t, key| {
        tx.get(t, key).await?;
        tx.get(t, key).untracked().await.map(drop)
    });
    let after = skew::<Serializable>(rows, async |tx: &Txn, t, key| {
        tx.scan(t, ..9).untracked().next().await?;
        tx.scan(t, key..=key).next().await.map(drop)
    });
    assert_eq!((before, after), (1, 1));
}
