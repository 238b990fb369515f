//! Finds out how many futures a worker should keep open, while it works. See docs/design/adaptive.md.

pub(crate) mod group;
pub(crate) mod level;
pub(crate) mod measure;
pub(crate) mod search;
pub(crate) mod windows;
