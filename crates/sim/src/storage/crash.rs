//! The states that a crash of the machine can leave behind. Each is built from a seed and can be built again.

use super::disk::{Disk, Inode, Names};
use super::image::{Content, Image};
use super::{Entry, SimulatedStorage};
use crate::Random;
use braiddb::storage::SECTOR_BYTES;
use std::sync::Arc;

/// The seed of the crash in which only synced data survives.
pub const NOTHING: u64 = 0;
/// The seed of the crash in which everything survives.
pub const EVERYTHING: u64 = 1;

/// The maximum number of sectors of noise made per crash. Blocks share them.
const NOISE_SECTORS: u64 = 4;

/// A crash, and what is found after it.
#[derive(Debug)]
pub struct Crash {
    /// The number of operations before the crash that changed something: [`SimulatedStorage::boundary`] at that time.
    pub boundary: u64,
    /// The seed. With it and the boundary, [`SimulatedStorage::crash`] makes the same state again.
    pub seed: u64,
    /// The disk after the crash. It has a history of its own, so recovery can crash too.
    pub storage: SimulatedStorage,
}

/// Iterates over crashes at every boundary in turn, several at each. See [`SimulatedStorage::crash_states`].
#[derive(Debug)]
pub struct CrashStates {
    pub(super) disk: Disk,
    pub(super) effects: std::vec::IntoIter<Arc<Entry>>,
    pub(super) capacity_bytes: u64,
    pub(super) boundary: u64,
    pub(super) random: Random,
    pub(super) states_per_boundary: u64,
    /// The number of states made at this boundary.
    pub(super) made: u64,
}

impl Iterator for CrashStates {
    type Item = Crash;

    fn next(&mut self) -> Option<Crash> {
        if self.made == self.states_per_boundary {
            let entry = self.effects.next()?;
            self.disk.apply(&entry.effect);
            self.boundary += 1;
            self.made = 0;
        }
        let seed = if self.made <= EVERYTHING { self.made } else { self.random.any().max(EVERYTHING + 1) };
        self.made += 1;
        let disk = crash(&self.disk, seed);
        let storage = SimulatedStorage::restarted(disk, self.capacity_bytes);
        Some(Crash { boundary: self.boundary, seed, storage })
    }
}

/// How much of the unsynced data survives.
#[derive(Clone, Copy)]
enum Survival {
    Nothing,
    Everything,
    /// Each part survives this often in a hundred.
    Some(u64),
}

impl Survival {
    fn of(seed: u64, random: &mut Random) -> Survival {
        match seed {
            NOTHING => Survival::Nothing,
            EVERYTHING => Survival::Everything,
            _ => Survival::Some(*random.one_of(&[0, 10, 50, 90, 100])),
        }
    }

    fn keeps(self, random: &mut Random) -> bool {
        match self {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Some(per_cent) => random.chance(per_cent),
        }
    }

    /// Returns the last version, or any of them.
    fn version<T: Clone>(self, versions: &[T], random: &mut Random) -> T {
        assert!(!versions.is_empty(), "what was written has a version");
        let is_any = matches!(self, Survival::Some(_)) && random.chance(50);
        let at = if is_any { random.below(versions.len() as u64) as usize } else { versions.len() - 1 };
        versions[at].clone()
    }
}

/// Returns the disk that is found after a crash of this disk.
pub(super) fn crash(disk: &Disk, seed: u64) -> Disk {
    let mut random = Random::new(seed);
    let survival = Survival::of(seed, &mut random);
    let names = surviving_names(disk, survival, &mut random);
    let mut noise = Noise { disk, made: Vec::new() };
    let mut after = Disk { freed: disk.freed.clone(), ..Disk::default() };
    for inode in names.values() {
        let survival = Survival::of(seed, &mut random);
        let image = surviving_image(disk.inode(*inode), survival, &mut noise, &mut random);
        let former = after.inodes.insert(*inode, Arc::new(Inode::synced(image)));
        assert!(former.is_none(), "a file has one name");
    }
    after.durable_names.clone_from(&names);
    after.names = names;
    after
}

fn surviving_names(disk: &Disk, survival: Survival, random: &mut Random) -> Names {
    let mut names = disk.durable_names.clone();
    for change in &disk.unsynced_names {
        if survival.keeps(random) {
            change.apply(&mut names);
        }
    }
    names
}

fn surviving_image(file: &Inode, survival: Survival, noise: &mut Noise<'_>, random: &mut Random) -> Image {
    let mut image = file.durable.clone();
    for (sector, versions) in &file.unsynced {
        if survival.keeps(random) {
            image.set(*sector, survival.version(versions, random));
        }
    }
    let mut len_bytes = image.len_bytes();
    if !file.unsynced_lens.is_empty() && survival.keeps(random) {
        len_bytes = survival.version(&file.unsynced_lens, random);
    }
    if matches!(survival, Survival::Some(_)) {
        for chunk in image.unwritten_chunks() {
            if random.chance(25) {
                image.fill_unwritten(chunk, || noise.content(random));
            }
        }
    }
    image.cut(len_bytes);
    image
}

/// The content that is found in blocks to which nothing was written.
struct Noise<'a> {
    disk: &'a Disk,
    made: Vec<Content>,
}

impl Noise<'_> {
    fn content(&mut self, random: &mut Random) -> Content {
        match random.below(3) {
            0 => Content::Unwritten,
            1 if !self.disk.freed.is_empty() => {
                self.disk.freed[random.below(self.disk.freed.len() as u64) as usize].clone()
            }
            _ => self.noise(random),
        }
    }

    fn noise(&mut self, random: &mut Random) -> Content {
        let at = random.below(NOISE_SECTORS) as usize;
        if at < self.made.len() {
            return self.made[at].clone();
        }
        let mut sector = [0; SECTOR_BYTES];
        for word in sector.chunks_exact_mut(8) {
            word.copy_from_slice(&random.any().to_le_bytes());
        }
        self.made.push(Content::Data(Arc::new(sector)));
        self.made[self.made.len() - 1].clone()
    }
}
