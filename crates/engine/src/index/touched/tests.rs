//! Marks, one thread at a time.

use super::*;
use crate::epoch::Local;
use crate::memory::Memory;

fn mark(touched: &Touched, key: &[u8]) {
    // SAFETY: no other thread uses it.
    unsafe { touched.mark(key) };
}

/// Proves that a key marks the range in which it lies, also if bounds share its first eight bytes, or are longer or
/// shorter.
#[test]
fn keys_mark_their_ranges() {
    let epochs = Epochs::new();
    let bounds: [&[u8]; 6] = [b"a", b"b\0", b"common", b"common prefix 1", b"common prefix 2", b"d"];
    let keys: [&[u8]; 14] = [
        b"",
        b"\0",
        b"a",
        b"a\0",
        b"b",
        b"b\0",
        b"b\0\0",
        b"common",
        b"common pref",
        b"common prefix 1",
        b"common prefix 10",
        b"common prefix 2",
        b"common prefix 3",
        b"d",
    ];
    for key in keys {
        let touched = Touched::new();
        touched.turn(&epochs, &bounds);
        mark(&touched, key);
        let expected = bounds.iter().filter(|bound| **bound <= key).count();
        let found = touched.take(&bounds);
        assert!(found.iter().enumerate().all(|(at, is_set)| *is_set == (at == expected)), "{key:?}");
    }
}

/// Proves that marks for other ranges count for each range with which they have keys in common, and for no other.
#[test]
fn marks_of_other_ranges_count() {
    let epochs = Epochs::new();
    let check = |before: &[&[u8]], key: &[u8], after: &[&[u8]], expected: &[bool]| {
        let touched = Touched::new();
        touched.turn(&epochs, before);
        mark(&touched, key);
        assert_eq!(touched.take(after), expected, "{before:?} {key:?} {after:?}");
    };
    check(&[], b"x", &[b"a", b"b"], &[true, true, true]);
    check(&[b"b"], b"a", &[b"a", b"b"], &[true, true, false]);
    check(&[b"b"], b"c", &[b"a", b"b", b"c"], &[false, false, true, true]);
    check(&[b"b", b"d"], b"c", &[b"a", b"c"], &[false, true, true]);
    check(&[b"b", b"d"], b"c", &[b"a", b"e"], &[false, true, false]);
    check(&[b"b", b"d"], b"c", &[], &[true]);
    check(&[b"b", b"d"], b"a", &[b"b", b"d"], &[true, false, false]);
}

/// Proves that marks are given once if every writer that may set one has gone on since they were replaced, and
/// repeatedly until then; and that marks are not replaced if none is set.
#[test]
fn marks_are_forgotten_when_they_have_settled() {
    let (epochs, bounds) = (Epochs::new(), [&b"m"[..]]);
    let worker = Local::new(&epochs, &Memory::new(1 << 20));
    let touched = Touched::new();
    touched.turn(&epochs, &bounds);
    assert!(touched.settle(&epochs));
    assert_eq!(touched.take(&bounds), [false, false]);
    let pointer = touched.current.load(Ordering::Relaxed);
    touched.turn(&epochs, &bounds);
    assert_eq!(touched.current.load(Ordering::Relaxed), pointer);
    worker.enter();
    mark(&touched, b"z");
    touched.turn(&epochs, &bounds);
    for _ in 0..3 {
        assert!(!touched.settle(&epochs));
        assert_eq!(touched.take(&bounds), [false, true]);
    }
    worker.leave();
    assert!(touched.settle(&epochs));
    assert_eq!(touched.take(&bounds), [false, true], "settled, and not taken since");
    assert_eq!(touched.take(&bounds), [false, false]);
    // This operation does not end.
    worker.enter();
    for key in [b"a", b"z"].iter().cycle().take(50) {
        mark(&touched, *key);
        touched.turn(&epochs, &bounds);
        assert!(!touched.settle(&epochs));
        touched.take(&bounds);
        assert!(lock(&touched.sets).len() <= SETS_MAX);
    }
    assert_eq!(touched.take(&bounds), [true, true]);
    worker.leave();
    touched.turn(&epochs, &bounds);
    assert!(touched.settle(&epochs));
    touched.take(&bounds);
    touched.turn(&epochs, &bounds);
    assert!(touched.settle(&epochs));
    touched.take(&bounds);
    assert_eq!(touched.take(&bounds), [false, false]);
}
