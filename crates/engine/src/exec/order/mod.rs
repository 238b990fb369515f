//! What is known of futures before they start, and which of them may be open together.

pub(crate) mod hint;
pub(crate) mod queue;
pub(crate) mod source;
