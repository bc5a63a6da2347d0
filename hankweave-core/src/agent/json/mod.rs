//! JSON of any shape as one flat list of values, which stay where they are in the text.
//!
//! An agent prints many lines, up to hundreds in a second, of which a few members are wanted: a recorded line of claude has about 1 kB
//! and nearly 60 texts, and its events need a dozen. So one list serves many lines, and numbers and texts with escapes are turned into
//! what they mean only when somebody asks. With serde_json and a new list for each line, the same events took about a third more processor
//! time; a tree of `serde_json::Value` takes more than four times as long as the whole translation into events
//! (`cargo bench -p hankweave-core --bench agent`).
//!
//! What is JSON and what it means is as serde_json has it, and tests compare the two. serde_json itself says what a number means.

mod read;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub(super) use read::Tape;
pub(super) use value::Json;
