//! The type of the crate `uuid`: its 16 bytes, in their own order. Uuids of version 7 are ordered by time.

use super::fixed::fixed;
use uuid::Uuid;

fixed!(Uuid, 16, "uuid", |value| *value.as_bytes(), |bytes| Some(Uuid::from_bytes(bytes)));
