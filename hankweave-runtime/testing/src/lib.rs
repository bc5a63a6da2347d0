//! Tools for the tests of hankweave. Never published, never part of the shipped program.
//!
//! - [`model_server`]: a scripted model behind the real HTTP interfaces, so that real agent programs run without
//!   a network and without a key;
//! - [`acp_agent`]: an agent that speaks the Agent Client Protocol as a script wants;
//! - [`agents`]: those real agent programs, installed once under the target folder, or a reason to skip;
//! - [`clients`]: clients of the WebSocket that others wrote, installed there as well;
//! - [`corpus`]: parsers against a corpus and fixed series of mutations of it;
//! - [`git`]: git's own check of a repository that a test has made;
//! - [`project`]: a throw-away project in which the built `hankweave` binary runs, isolated from the user;
//! - [`postgres`]: a PostgreSQL server of their own;
//! - [`restate`]: a Restate server of their own, and a balancer in front of several workers;
//! - [`pty`]: a terminal that a test can close while a program uses it;
//! - [`swept`]: the moments of a sweep, fewer in a quick test run;
//! - [`TinyDisk`]: a file system that is too small;
//! - [`processes`]: the processes that a test has left running.

pub mod acp_agent;
pub mod agents;
pub mod clients;
pub mod corpus;
mod extent;
pub mod git;
pub mod model_server;
pub mod postgres;
pub mod processes;
pub mod project;
pub mod pty;
pub mod restate;
pub mod sshd;
mod tiny_disk;

pub use agents::Skip;
pub use extent::swept;
pub use model_server::{ModelServer, Scenario, Served};
pub use project::{Finished, Running, TestProject};
pub use tiny_disk::TinyDisk;
