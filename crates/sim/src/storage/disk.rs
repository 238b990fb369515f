//! A disk: what is durable, what is not durable yet, and what the process sees. Only [`Effect`]s change it, so the same
//! effects make the same disk again.

use super::image::{Content, Image};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The number of versions kept of a sector that is written repeatedly without a sync. The oldest versions are
/// forgotten, which loses states of the disk and invents none.
const VERSIONS_MAX: usize = 8;

/// The number of sectors of removed files whose content may come to light again.
const FREED_MAX: usize = 32;

/// The number of operations on names that can wait for a sync. Beyond it, the oldest operation counts as durable.
const CHANGES_MAX: usize = 4096;

/// A file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InodeId(pub(super) u64);

pub(super) type Names = BTreeMap<Arc<str>, InodeId>;

/// The effect of an operation on the disk. Faults and choices are already in it.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Name(NameChange),
    SyncNames,
    /// A failed sync of the directory: some changes are durable, and the others never will be.
    DropNames {
        kept: Vec<bool>,
    },
    Write {
        inode: InodeId,
        sectors: Vec<(u64, Content)>,
        len_bytes: u64,
    },
    Sync {
        inode: InodeId,
    },
    /// A failed sync of a file: these sectors are durable, and the others never will be.
    Drop {
        inode: InodeId,
        kept: Vec<u64>,
        keeps_len: bool,
        evicts: bool,
    },
    /// No name or handle leads to the file any more.
    Forget {
        inode: InodeId,
    },
}

impl Effect {
    /// Returns how much of the history's limit this effect takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Effect::Write { sectors, .. } => 1 + sectors.len(),
            Effect::Drop { kept, .. } => 1 + kept.len(),
            _ => 1,
        }
    }
}

/// An operation on names.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Create { name: Arc<str>, inode: InodeId },
    Rename { to: Arc<str>, inode: InodeId, replaced: Option<InodeId> },
    Remove { inode: InodeId },
}

impl NameChange {
    /// Makes the change, unless it takes a name that should have been freed first and was not.
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Create { name, inode } => {
                names.entry(Arc::clone(name)).or_insert(*inode);
            }
            NameChange::Rename { to, inode, replaced } => {
                let there = names.get(to).copied();
                if there.is_none() || there == *replaced || there == Some(*inode) {
                    names.retain(|_, other| other != inode);
                    names.insert(Arc::clone(to), *inode);
                }
            }
            NameChange::Remove { inode } => names.retain(|_, other| other != inode),
        }
    }

    fn inode(&self) -> InodeId {
        match self {
            NameChange::Create { inode, .. }
            | NameChange::Rename { inode, .. }
            | NameChange::Remove { inode } => *inode,
        }
    }
}

/// A file. `seen` is what reads see, and `durable` is what is certainly on the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) seen: Image,
    pub(super) durable: Image,
    /// The versions of each sector since the last sync, oldest first.
    pub(super) unsynced: BTreeMap<u64, Vec<Content>>,
    /// The lengths of the file since the last sync, oldest first.
    pub(super) unsynced_lens: Vec<u64>,
}

impl Inode {
    /// Makes a file that is durable as a whole.
    pub(super) fn synced(image: Image) -> Inode {
        Inode { seen: image.clone(), durable: image, ..Inode::default() }
    }

    fn write(&mut self, sector: u64, content: Content) {
        if content.has_block() && !self.durable.get(sector).has_block() {
            // The file system may give the block to the file at any time. The content follows only with the data.
            self.durable.set(sector, Content::Unwritten);
        }
        self.seen.set(sector, content.clone());
        push_bounded(self.unsynced.entry(sector).or_default(), content);
    }

    fn set_len_bytes(&mut self, len_bytes: u64) {
        if len_bytes != self.seen.len_bytes() {
            self.seen.set_len_bytes(len_bytes);
            push_bounded(&mut self.unsynced_lens, len_bytes);
        }
    }

    /// Makes durable what `keeps` says, and forgets all other pending changes.
    fn settle(&mut self, keeps: impl Fn(u64) -> bool, keeps_len: bool) {
        for (sector, mut versions) in std::mem::take(&mut self.unsynced) {
            let last = versions.pop().expect("a sector that was written has a version");
            if keeps(sector) {
                self.durable.set(sector, last);
            }
        }
        let len_bytes = self.unsynced_lens.last().copied();
        self.unsynced_lens.clear();
        if let Some(len_bytes) = len_bytes.filter(|_| keeps_len) {
            self.durable.set_len_bytes(len_bytes);
        }
        if !keeps_len {
            self.durable.cut(self.durable.len_bytes());
        }
    }
}

fn push_bounded<T>(versions: &mut Vec<T>, version: T) {
    if versions.len() == VERSIONS_MAX {
        versions.remove(0);
    }
    versions.push(version);
}

/// A directory with its files. Clones share everything that neither changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) inodes: BTreeMap<InodeId, Arc<Inode>>,
    /// The names that the process sees.
    pub(super) names: Names,
    pub(super) durable_names: Names,
    pub(super) unsynced_names: Vec<NameChange>,
    /// The content of removed files. It may come to light in blocks to which nothing was written.
    pub(super) freed: VecDeque<Content>,
}

impl Disk {
    pub(super) fn inode(&self, inode: InodeId) -> &Inode {
        self.inodes.get(&inode).expect("a file is kept as long as a name or a handle leads to it")
    }

    fn inode_mut(&mut self, inode: InodeId) -> &mut Inode {
        let found = self.inodes.get_mut(&inode);
        Arc::make_mut(found.expect("a file is kept as long as a name or a handle leads to it"))
    }

    /// Returns true if some name leads to the file: seen, durable or pending.
    pub(super) fn is_named(&self, inode: InodeId) -> bool {
        let leads = |names: &Names| names.values().any(|other| *other == inode);
        let is_changed = self.unsynced_names.iter().any(|change| change.inode() == inode);
        is_changed || leads(&self.names) || leads(&self.durable_names)
    }

    pub(super) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Name(change) => self.change_name(change),
            Effect::SyncNames => self.settle_names(|_| true),
            Effect::DropNames { kept } => self.settle_names(|change| kept[change]),
            Effect::Write { inode, sectors, len_bytes } => {
                let file = self.inode_mut(*inode);
                for (sector, content) in sectors {
                    file.write(*sector, content.clone());
                }
                file.set_len_bytes(*len_bytes);
            }
            Effect::Sync { inode } => self.inode_mut(*inode).settle(|_| true, true),
            Effect::Drop { inode, kept, keeps_len, evicts } => {
                let file = self.inode_mut(*inode);
                file.settle(|sector| kept.binary_search(&sector).is_ok(), *keeps_len);
                if *evicts {
                    file.seen = file.durable.clone();
                }
            }
            Effect::Forget { inode } => self.forget(*inode),
        }
    }

    fn change_name(&mut self, change: &NameChange) {
        if let NameChange::Create { inode, .. } = change {
            self.inodes.insert(*inode, Arc::default());
        }
        change.apply(&mut self.names);
        if self.unsynced_names.len() == CHANGES_MAX {
            self.unsynced_names.remove(0).apply(&mut self.durable_names);
        }
        self.unsynced_names.push(change.clone());
    }

    fn settle_names(&mut self, keeps: impl Fn(usize) -> bool) {
        for (i, change) in std::mem::take(&mut self.unsynced_names).iter().enumerate() {
            if keeps(i) {
                change.apply(&mut self.durable_names);
            }
        }
    }

    fn forget(&mut self, inode: InodeId) {
        let file = self.inodes.remove(&inode).expect("a file is forgotten once");
        for sector in file.durable.blocks_from(0).take(FREED_MAX / 4) {
            let content = file.durable.get(sector);
            if matches!(content, Content::Data(_)) {
                self.freed.push_back(content.clone());
            }
        }
        let excess = self.freed.len().saturating_sub(FREED_MAX);
        self.freed.drain(..excess);
    }
}
