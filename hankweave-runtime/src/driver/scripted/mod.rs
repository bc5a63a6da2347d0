//! An agent that follows a script: the program itself, started as a child that prints the claude stream.
//!
//! It takes the same path as a real agent — process group, pipes, signals — so that dry runs, demonstrations and drills
//! show what would happen. The script format is described in `docs/scripted-agent.md`.

mod driver;
mod play;
mod script;
mod session;
mod stream;
mod tools;

pub use driver::ScriptedDriver;
pub use play::play;
