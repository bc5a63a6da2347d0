//! An agent that follows a script: the program itself, started as a child that prints the claude stream.
//!
//! It is started like a real agent, with a process group, pipes and signals. So dry runs, demonstrations and drills show
//! what would happen. The script format is described in `docs/scripted-agent.md`.
//!
//! `driver` runs in hankweave and starts the child; the other modules are the child: `play` follows the `script`, carries out its `tools`, prints the `stream`,
//! and remembers the `session`.

mod driver;
#[expect(
    clippy::disallowed_methods,
    reason = "the child's own side: another process, which really does what its script says"
)]
mod play;
mod script;
#[expect(
    clippy::disallowed_methods,
    reason = "the child's own side: another process, which really does what its script says"
)]
mod session;
mod stream;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the child's own side: another process, which really does what its script says"
)]
mod tools;

pub(super) use driver::NAME;
pub use driver::ScriptedDriver;
pub use play::play;
