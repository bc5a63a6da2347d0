//! `hankweave schema`

use std::process::ExitCode;

use hankweave_core::schema;

use super::args::{SchemaArgs, SchemaName};
use super::exit::Failure;

pub(super) fn schema(args: &SchemaArgs) -> Result<ExitCode, Failure> {
    super::state::print_json(&match args.document {
        SchemaName::Hank => schema::hank(),
        SchemaName::Config => schema::config(),
        SchemaName::State => schema::state(),
        SchemaName::Event => schema::event(),
        SchemaName::Command => schema::command(),
    })
}
