//! Git's formats as checkpoints write them.

pub(super) mod loose;
pub(super) mod new_objects;
pub(super) mod pack;
pub(super) mod refs;
