//! Arguments of commands that print descriptions from the code.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct DiagramArgs {
    /// State machine
    #[arg(value_enum)]
    pub(crate) machine: MachineName,
    /// Format of the drawing
    #[arg(long = "as", value_enum, default_value_t = DiagramFormat::Mermaid, value_name = "FORM")]
    pub(crate) form: DiagramFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MachineName {
    /// One run of an agent
    Codon,
    /// One life of the server
    Run,
    /// A task of the task system
    Task,
    /// One acquisition of a lock
    Lock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiagramFormat {
    /// Mermaid, which many pages draw by themselves
    Mermaid,
    /// Graphviz
    Dot,
    /// PlantUML
    Plantuml,
    /// JSON
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Document of the schema
    #[arg(value_enum)]
    pub(crate) document: SchemaName,
    /// File to write instead of printing; an existing one is replaced
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaName {
    /// hank.json
    Hank,
    /// A sentinel in a file of its own
    Sentinel,
    /// hankweave.json
    Config,
    /// .hankweave/state.json
    State,
    /// One state event, as in state.log and the journal
    Event,
    /// One command, as a client sends it over the WebSocket
    Command,
}
