//! Files of checkpoints that are no longer needed.

use super::files::names;
use super::format::Name;
use super::{Manifest, Result};
use crate::storage::Storage;
use std::collections::BTreeSet;

/// Returns the files that are not needed while these checkpoints are kept: manifests of other checkpoints, rows that
/// none of these names, and unfinished files. Manifests come first. This must not be called while a checkpoint is
/// being written, because no manifest names its files yet.
pub fn unneeded(storage: &dyn Storage, keep: &[Manifest]) -> Result<Vec<String>> {
    Ok(unneeded_names(storage, keep)?.iter().map(Name::to_string).collect())
}

fn unneeded_names(storage: &dyn Storage, keep: &[Manifest]) -> Result<BTreeSet<Name>> {
    let kept: BTreeSet<Name> = keep.iter().flat_map(Manifest::names).collect();
    let is_unneeded = |name: &Name| match name {
        Name::Identity | Name::Closed => false,
        Name::Manifest(_) | Name::Rows(..) => !kept.contains(name),
        Name::NewIdentity | Name::NewClosed | Name::NewManifest(_) => true,
    };
    // The order of `Name` puts manifests before rows.
    Ok(names(storage)?.into_iter().filter(is_unneeded).collect())
}

/// Removes the files that [`unneeded`] returns. A crash in between leaves no manifest without its files. Until the
/// directory has been synced, files may come back with a later crash; they are unneeded then, too.
pub fn remove_unneeded(storage: &dyn Storage, keep: &[Manifest]) -> Result<()> {
    let (manifests, others): (Vec<Name>, Vec<Name>) =
        unneeded_names(storage, keep)?.into_iter().partition(|name| matches!(name, Name::Manifest(_)));
    if !manifests.is_empty() {
        // The names of what is kept have to be durable first. After a crash of the process alone, a manifest may have
        // been read whose rename is not durable yet.
        storage.sync_directory()?;
        remove(storage, &manifests)?;
        storage.sync_directory()?;
    }
    remove(storage, &others)
}

fn remove(storage: &dyn Storage, names: &[Name]) -> Result<()> {
    names.iter().try_for_each(|name| Ok(storage.remove(&name.to_string())?))
}
