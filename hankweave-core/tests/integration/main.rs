//! Core as its users see it: one binary, so that it links once.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod budget;
mod changes;
mod claude_streams;
mod codex_streams;
mod decide;
mod error_classes;
mod fuzz;
mod hank;
mod laws;
mod ledger;
mod machine_codon;
mod machine_schema;
mod machines;
mod memory;
mod other_streams;
mod pi_streams;
mod policy;
mod protocol_page;
mod recover;
mod reducer;
mod reducer_rules;
mod reference;
mod schemas;
mod shape;
mod state_document;
mod state_fixtures;
mod state_rules;
mod thread;
mod unseen_streams;
mod view;
mod wire_commands;
