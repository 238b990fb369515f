//! The epochs under weak memory. The last read of an object precedes its reclamation in the order that the processor
//! keeps, not only in time.

use super::{Epochs, Local};
use crate::memory::Memory;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::loom::{Planted, check};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::OnceLock;

/// One account for all models, which do not look at it. It is too large for the stacks that they run on.
static MEMORY: OnceLock<Arc<Memory>> = OnceLock::new();

/// Whether an object has been reclaimed. The checker reports an unordered read and write of it.
struct Object(UnsafeCell<bool>);

struct Model {
    present: AtomicUsize,
    objects: [Object; 2],
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
}
// SAFETY: that no two threads touch an object at once is what the test checks.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            present: AtomicUsize::new(0),
            objects: std::array::from_fn(|_| Object(UnsafeCell::new(false))),
            epochs: Epochs::new(),
            memory: Arc::clone(MEMORY.get_or_init(|| Memory::new(1 << 20))),
        })
    }

    /// Runs an operation that reads the present object.
    fn read(&self, local: &Local) {
        local.enter();
        let object = &self.objects[self.present.load(Ordering::Acquire)];
        // SAFETY: the object may be read inside the epoch; that is what the test checks.
        object.0.with(|is_reclaimed| assert!(!unsafe { *is_reclaimed }, "used after reclamation"));
        local.leave();
    }

    /// Replaces the object and does everything to have the old one reclaimed.
    fn replace(&self, local: &Local) {
        local.enter();
        let old = self.present.swap(1, Ordering::AcqRel);
        let object = (&raw const self.objects[old]).cast::<u8>().cast_mut();
        // SAFETY: no thread finds the object any more, and `reclaim` may run on any thread.
        unsafe { local.retire(object, 0, reclaim) };
        local.leave();
        for _ in 0..3 {
            local.refresh(None);
        }
    }
}

unsafe fn reclaim(_: &Local, object: *mut u8, _: u64) {
    // SAFETY: the object is part of a model that its threads hold.
    let object = unsafe { &*object.cast::<Object>() };
    // SAFETY: no thread reads the object any more; that is what the test checks.
    object.0.with_mut(|is_reclaimed| unsafe { *is_reclaimed = true });
}

/// Proves that the reclamation of an object is ordered after every read of it.
#[test]
fn readers_come_first() {
    MEMORY.get_or_init(|| Memory::new(1 << 20)); // here, on a large stack
    check("epoch", &[Planted::Stores, Planted::Fences], || {
        let model = Model::new();
        let reader = thread::spawn({
            let model = Arc::clone(&model);
            move || model.read(&Local::new(&model.epochs, &model.memory))
        });
        let writer = Local::new(&model.epochs, &model.memory);
        model.replace(&writer);
        reader.join().expect("no panic");
        drop(writer);
    });
}
