//! A database whose scheme is chosen when it is opened: [`AnyScheme`].
//!
//! A program compiles the engine once for each scheme that it names. Tests, simulations and checks run under all
//! schemes, and name [`AnyScheme`] instead. Each call of the contract branches to the scheme of its database, so the
//! code of that scheme runs unchanged. Benchmarks name the scheme itself.
//!
//! An access or a decision is made without a database. It is `New` until its first step, and belongs to the scheme
//! from then on.

use super::{
    Abort, Admission, Change, Changed, ConcurrencyControl, Copies, Declared, Env, Holder, InTheWay, Intent,
    NotBegun, Reads, Refused, Scanned, Target, Waiting, Waits, Written,
};
use crate::epoch::Local;
use crate::index::TableIndex;
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::metrics::ContentionStatistics;
use crate::record::{Record, RecordId};
use crate::suspend::Suspend;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The scheme that [`Options::lab`](crate::Options::lab) names, chosen when a database is opened.
///
/// A database of this type has every operation under every scheme, at the cost of a branch in each access. It is for
/// tools and tests that run under all schemes and are compiled once.
#[derive(Clone, Copy, Debug)]
pub struct AnyScheme;

type SharedOf<C> = <C as ConcurrencyControl>::Shared;
type WorkerOf<C> = <C as ConcurrencyControl>::Worker;
type TxnOf<C> = <C as ConcurrencyControl>::Txn;
type AccessOf<C> = <C as ConcurrencyControl>::Access;
type PrepareOf<C> = <C as ConcurrencyControl>::Prepare;

/// A scheme of the table, with its own variants of an access and a decision.
trait Member: ConcurrencyControl {
    /// Calls `step` with this scheme's variant of the access.
    fn with_access<T>(access: &mut Access, step: impl FnOnce(&mut Self::Access) -> T) -> T;
    /// Calls `step` with this scheme's variant of the decision.
    fn with_prepare<T>(prepare: &mut Prepare, step: impl FnOnce(&mut Self::Prepare) -> T) -> T;
}

macro_rules! define {
    ($d:tt; $($name:literal $module:ident $scheme:ident $promise:ident,)*) => {
        /// The name of a scheme.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SchemeName {
            $(
                #[doc = concat!("The scheme `", $name, "`.")]
                $scheme,
            )*
        }

        impl SchemeName {
            const VARIANTS: &'static [SchemeName] = &[$(SchemeName::$scheme),*];

            /// Returns the name that command lines use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(SchemeName::$scheme => $name,)*
                }
            }

            fn reads(self, options: LabOptions) -> Reads {
                match self {
                    $(SchemeName::$scheme => super::$scheme::reads(options),)*
                }
            }
        }

        #[doc(hidden)]
        pub enum Shared {
            $($scheme(SharedOf<super::$scheme>),)*
        }

        #[doc(hidden)]
        pub enum Worker {
            $($scheme(WorkerOf<super::$scheme>),)*
        }

        #[doc(hidden)]
        pub enum Txn {
            $($scheme(TxnOf<super::$scheme>),)*
        }

        #[doc(hidden)]
        #[derive(Clone, Copy, Default)]
        pub enum Access {
            #[default]
            New,
            $($scheme(AccessOf<super::$scheme>),)*
        }

        #[doc(hidden)]
        #[derive(Clone, Copy, Default)]
        pub enum Prepare {
            #[default]
            New,
            $($scheme(PrepareOf<super::$scheme>),)*
        }

        impl Shared {
            fn open(records: Arc<Slab>, memory: Arc<Memory>, options: LabOptions) -> Shared {
                match options.scheme {
                    $(SchemeName::$scheme => {
                        Shared::$scheme(super::$scheme::open(records, memory, options))
                    })*
                }
            }

            fn worker(&self) -> Worker {
                match self {
                    $(Shared::$scheme(shared) => Worker::$scheme(super::$scheme::worker(shared)),)*
                }
            }

            fn txn(&self) -> Txn {
                match self {
                    $(Shared::$scheme(shared) => Txn::$scheme(super::$scheme::txn(shared)),)*
                }
            }
        }

        $(
            impl Member for super::$scheme {
                fn with_access<T>(access: &mut Access, step: impl FnOnce(&mut Self::Access) -> T) -> T {
                    if let Access::New = access {
                        *access = Access::$scheme(Default::default());
                    }
                    match access {
                        Access::$scheme(own) => step(own),
                        _ => unreachable!("{MIXED}"),
                    }
                }

                fn with_prepare<T>(prepare: &mut Prepare, step: impl FnOnce(&mut Self::Prepare) -> T) -> T {
                    if let Prepare::New = prepare {
                        *prepare = Prepare::$scheme(Default::default());
                    }
                    match prepare {
                        Prepare::$scheme(own) => step(own),
                        _ => unreachable!("{MIXED}"),
                    }
                }
            }
        )*

        /// `under!(C; Txn(txn) => …)` evaluates the expression with `C` as the scheme of the parts, and with the
        /// parts of that scheme.
        macro_rules! under {
            ($d C:ident; $d($d kind:ident($d part:ident)),+ => $d body:expr) => {
                match ($d($d part,)+) {
                    $(($d($d kind::$scheme($d part),)+) => {
                        type $d C = super::$scheme;
                        $d body
                    })*
                    #[allow(unreachable_patterns, reason = "one part is of some scheme")]
                    _ => unreachable!("{MIXED}"),
                }
            };
        }
    };
}

const MIXED: &str = "all parts of a database are of one scheme";

/// The table of schemes, and forms of them for tests.
macro_rules! with_forms {
    ($($row:tt)*) => {
        define! {
            $($row)*
            "auto-all-hot" auto_all_hot AllHot Serial,
            "auto-hot-by-chance" auto_hot_by_chance HotByChance Serial,
        }
    };
}
super::schemes!(with_forms $);

macro_rules! count {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => { [$($name),*].len() };
}

impl SchemeName {
    /// Every scheme, in the order of the engine's table.
    pub const ALL: &'static [SchemeName] = SchemeName::VARIANTS.split_at(super::schemes!(count)).0;
}

/// Settings that only schemes of the laboratory have.
#[derive(Clone, Copy, Debug)]
pub struct LabOptions {
    /// The scheme of a database of type `Database<AnyScheme>`. The type of any other database names its scheme.
    /// Default: [`Serializable`](crate::Serializable).
    pub scheme: SchemeName,
    /// The number of partitions of the database, for [`HStore`](crate::HStore) alone: a power of two, at most 64. A
    /// transaction has one or more partitions to itself, and takes all of them to write a table that is not
    /// partitioned. Default: 64, several times the cores of most machines.
    pub partitions: u32,
}

/// The number of bits in which transactions note their partitions.
pub(crate) const PARTITIONS_MAX: u32 = 64;

impl Default for LabOptions {
    fn default() -> Self {
        LabOptions { scheme: SchemeName::default(), partitions: PARTITIONS_MAX }
    }
}

impl Default for SchemeName {
    /// Returns the first scheme of the table.
    fn default() -> Self {
        SchemeName::VARIANTS[0]
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SchemeName {
    type Err = String;

    fn from_str(name: &str) -> Result<SchemeName, String> {
        SchemeName::ALL.iter().copied().find(|scheme| scheme.name() == name).ok_or_else(|| {
            let names: Vec<_> = SchemeName::ALL.iter().map(|scheme| scheme.name()).collect();
            format!("unknown scheme {name:?}: expected one of {}", names.join(", "))
        })
    }
}

macro_rules! debug {
    ($($part:ident)*) => {$(
        impl fmt::Debug for $part {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($part)).finish_non_exhaustive()
            }
        }
    )*};
}
debug!(Shared Worker Txn Access Prepare);

type Scope<'e> = Env<'e, AnyScheme>;

/// Makes the environment of the scheme `C`.
fn env<'e, C: ConcurrencyControl>(
    shared: &'e C::Shared,
    worker: &'e C::Worker,
    local: &'e Local,
) -> Env<'e, C> {
    Env { shared, worker, local }
}

// SAFETY: each scheme keeps the contract, and each call reaches the scheme to which all parts of a database belong.
// `KEEPS_UNTRACKED` promises only what all schemes keep.
unsafe impl ConcurrencyControl for AnyScheme {
    const TRACKS_READS: bool = true;
    const KEEPS_UNTRACKED: bool = false;

    type Shared = Shared;
    type Worker = Worker;
    type Txn = Txn;
    type Access = Access;
    type Prepare = Prepare;

    fn reads(options: LabOptions) -> Reads {
        options.scheme.reads(options)
    }

    fn open(records: Arc<Slab>, memory: Arc<Memory>, options: LabOptions) -> Shared {
        Shared::open(records, memory, options)
    }

    fn has_partitions(shared: &Shared) -> bool {
        under!(C; Shared(shared) => C::has_partitions(shared))
    }

    fn now(shared: &Shared) -> u64 {
        under!(C; Shared(shared) => C::now(shared))
    }

    fn in_the_way(shared: &Shared, at: u64) -> InTheWay {
        under!(C; Shared(shared) => C::in_the_way(shared, at))
    }

    fn advance(shared: &Shared) -> u64 {
        under!(C; Shared(shared) => C::advance(shared))
    }

    fn worker(shared: &Shared) -> Worker {
        shared.worker()
    }

    fn enter(Env { shared, worker, local }: Scope<'_>) {
        under!(C; Shared(shared), Worker(worker) => C::enter(env(shared, worker, local)));
    }

    fn leave(Env { shared, worker, local }: Scope<'_>) {
        under!(C; Shared(shared), Worker(worker) => C::leave(env(shared, worker, local)));
    }

    fn refresh(Env { shared, worker, local }: Scope<'_>) {
        under!(C; Shared(shared), Worker(worker) => C::refresh(env(shared, worker, local)));
    }

    fn maintain(Env { shared, worker, local }: Scope<'_>) -> bool {
        under!(C; Shared(shared), Worker(worker) => C::maintain(env(shared, worker, local)))
    }

    fn relieve(Env { shared, worker, local }: Scope<'_>) -> bool {
        under!(C; Shared(shared), Worker(worker) => C::relieve(env(shared, worker, local)))
    }

    fn retire(shared: &Shared, worker: &mut Worker) {
        under!(C; Shared(shared), Worker(worker) => C::retire(shared, worker));
    }

    fn garbage(shared: &Shared, worker: &Worker) -> usize {
        under!(C; Shared(shared), Worker(worker) => C::garbage(shared, worker))
    }

    fn txn(shared: &Shared) -> Txn {
        shared.txn()
    }

    fn drop_txn(shared: &Shared, txn: &mut Txn) {
        under!(C; Shared(shared), Txn(txn) => C::drop_txn(shared, txn));
    }

    fn waits(shared: &Shared) -> &Waits {
        under!(C; Shared(shared) => C::waits(shared))
    }

    fn contention(shared: &Shared) -> ContentionStatistics {
        under!(C; Shared(shared) => C::contention(shared))
    }

    fn place(txn: &Txn) -> u32 {
        under!(C; Txn(txn) => C::place(txn))
    }

    fn set_interactive(shared: &Shared, txn: &Txn, now_ns: u64) {
        under!(C; Shared(shared), Txn(txn) => C::set_interactive(shared, txn, now_ns));
    }

    fn interactive_since(shared: &Shared, place: u32) -> Option<u64> {
        under!(C; Shared(shared) => C::interactive_since(shared, place))
    }

    fn await_end(shared: &Shared, place: u32) {
        under!(C; Shared(shared) => C::await_end(shared, place));
    }

    unsafe fn holder(shared: &Shared, txn: &Txn, record: *const Record) -> Option<Holder> {
        // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
        under!(C; Shared(shared), Txn(txn) => unsafe { C::holder(shared, txn, record) })
    }

    fn is_open(shared: &Shared, holder: Holder) -> bool {
        under!(C; Shared(shared) => C::is_open(shared, holder))
    }

    unsafe fn holds(txn: &Txn, record: *const Record) -> bool {
        // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
        under!(C; Txn(txn) => unsafe { C::holds(txn, record) })
    }

    unsafe fn shares(txn: &Txn, record: *const Record) -> bool {
        // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
        under!(C; Txn(txn) => unsafe { C::shares(txn, record) })
    }

    fn begin<S: Suspend>(
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        declared: Declared,
        s: &mut S,
    ) -> Option<Result<(), NotBegun>> {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::begin(env(shared, worker, local), txn, declared, s)
        })
    }

    fn declare_read_only(Env { shared, worker, local }: Scope<'_>, txn: &mut Txn) {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::declare_read_only(env(shared, worker, local), txn);
        });
    }

    fn reads_freely(txn: &Txn) -> bool {
        under!(C; Txn(txn) => C::reads_freely(txn))
    }

    fn read_copies(txn: &mut Txn, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        under!(C; Txn(txn) => C::read_copies(txn, scanned, copies))
    }

    fn snapshot_timestamp(txn: &Txn) -> u64 {
        under!(C; Txn(txn) => C::snapshot_timestamp(txn))
    }

    fn newest_seen(shared: &Shared, txn: &Txn) -> u64 {
        under!(C; Shared(shared), Txn(txn) => C::newest_seen(shared, txn))
    }

    fn see_newest(txn: &mut Txn) {
        under!(C; Txn(txn) => C::see_newest(txn));
    }

    fn savepoint(txn: &Txn) -> usize {
        under!(C; Txn(txn) => C::savepoint(txn))
    }

    fn rollback_to(
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        at: usize,
        keeps: bool,
    ) -> Result<(), OutOfMemory> {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::rollback_to(env(shared, worker, local), txn, at, keeps)
        })
    }

    fn forget_undone(Env { shared, worker, local }: Scope<'_>, txn: &mut Txn) {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::forget_undone(env(shared, worker, local), txn);
        });
    }

    fn declare_partitions(shared: &Shared, txn: &mut Txn, partitions: u64) {
        under!(C; Shared(shared), Txn(txn) => C::declare_partitions(shared, txn, partitions));
    }

    fn admit<S: Suspend>(
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        need: u64,
        waits: bool,
        s: &mut S,
    ) -> Admission {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::admit(env(shared, worker, local), txn, need, waits, s)
        })
    }

    fn refused(txn: &Txn) -> Option<Refused> {
        under!(C; Txn(txn) => C::refused(txn))
    }

    fn awaited(shared: &Shared, txn: &mut Txn) -> Option<(RecordId, Holder)> {
        under!(C; Shared(shared), Txn(txn) => C::awaited(shared, txn))
    }

    unsafe fn may_queue(
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Waiting, OutOfMemory> {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            unsafe { C::may_queue(env(shared, worker, local), txn, record) }
        })
    }

    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::with_access(access, |own| {
                // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
                unsafe { C::access(own, record, intent, env(shared, worker, local), txn, s) }
            })
        })
    }

    unsafe fn value(
        access: &Access,
        record: *const Record,
        intent: Intent,
        txn: &mut Txn,
    ) -> Result<Option<*const [u8]>, Refused> {
        under!(C; Txn(txn) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            C::with_access(&mut { *access }, |own| unsafe { C::value(own, record, intent, txn) })
        })
    }

    fn read_range(txn: &mut Txn, scanned: &Scanned<'_>) -> bool {
        under!(C; Txn(txn) => C::TRACKS_READS && C::read_range(txn, scanned))
    }

    fn read_in_range(txn: &mut Txn, record: *const Record) {
        under!(C; Txn(txn) => C::read_in_range(txn, record));
    }

    fn skips_dead_as_of(txn: &Txn) -> u64 {
        under!(C; Txn(txn) => C::skips_dead_as_of(txn))
    }

    fn note_dead_end(Env { shared, worker, local }: Scope<'_>, index: &TableIndex, is_reverse: bool) {
        under!(C; Shared(shared), Worker(worker) => {
            C::note_dead_end(env(shared, worker, local), index, is_reverse);
        });
    }

    fn lists_records(txn: &Txn) -> bool {
        under!(C; Txn(txn) => C::lists_records(txn))
    }

    fn accessed(txn: &Txn) -> usize {
        under!(C; Txn(txn) => C::accessed(txn))
    }

    fn read_absent(txn: &mut Txn, record: *const Record, target: &Target) {
        under!(C; Txn(txn) => {
            if C::TRACKS_READS {
                C::read_absent(txn, record, target);
            }
        });
    }

    unsafe fn write(
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        record: *const Record,
        target: &Target,
        change: Change<'_>,
    ) -> Result<Written, Refused> {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            unsafe { C::write(env(shared, worker, local), txn, record, target, change) }
        })
    }

    unsafe fn create(
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        record: *mut Record,
        value: &[u8],
    ) -> Result<(), OutOfMemory> {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            unsafe { C::create(env(shared, worker, local), txn, record, value) }
        })
    }

    unsafe fn created(txn: &mut Txn, record: *const Record, target: &Target) -> Result<(), Abort> {
        // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
        under!(C; Txn(txn) => unsafe { C::created(txn, record, target) })
    }

    unsafe fn discard(Env { shared, worker, local }: Scope<'_>, record: *const Record, target: &Target) {
        under!(C; Shared(shared), Worker(worker) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            unsafe { C::discard(env(shared, worker, local), record, target) }
        });
    }

    unsafe fn restore(
        Env { shared, worker, local }: Scope<'_>,
        record: *mut Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        under!(C; Shared(shared), Worker(worker) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            unsafe { C::restore(env(shared, worker, local), record, value, at) }
        })
    }

    unsafe fn restore_over(
        Env { shared, worker, local }: Scope<'_>,
        record: *const Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        under!(C; Shared(shared), Worker(worker) => {
            // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
            unsafe { C::restore_over(env(shared, worker, local), record, value, at) }
        })
    }

    fn resume(shared: &Shared, at: u64) {
        under!(C; Shared(shared) => C::resume(shared, at));
    }

    fn prepare<S: Suspend>(
        prepare: &mut Prepare,
        Env { shared, worker, local }: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<u64, Abort>> {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::with_prepare(prepare, |own| C::prepare(own, env(shared, worker, local), txn, s))
        })
    }

    fn obstacle(txn: &Txn) -> Option<Target> {
        under!(C; Txn(txn) => C::obstacle(txn))
    }

    fn unprepare(Env { shared, worker, local }: Scope<'_>, txn: &mut Txn, prepare: &mut Prepare) -> bool {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::with_prepare(prepare, |own| C::unprepare(env(shared, worker, local), txn, own))
        })
    }

    fn has_changes(txn: &Txn) -> bool {
        under!(C; Txn(txn) => C::has_changes(txn))
    }

    unsafe fn changes(txn: &Txn, note: impl FnMut(Changed<'_>)) {
        // SAFETY: the scheme asks for what the contract asks for, and all parts are of this scheme.
        under!(C; Txn(txn) => unsafe { C::changes(txn, note) });
    }

    fn finish(Env { shared, worker, local }: Scope<'_>, txn: &mut Txn, at: u64) {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::finish(env(shared, worker, local), txn, at);
        });
    }

    fn abort(Env { shared, worker, local }: Scope<'_>, txn: &mut Txn) {
        under!(C; Shared(shared), Worker(worker), Txn(txn) => {
            C::abort(env(shared, worker, local), txn);
        });
    }
}
