//! `hankweave schema`

use std::process::ExitCode;

use hankweave_core::schema;

use crate::args::{SchemaArgs, SchemaName};
use crate::exit::CliError;
use crate::output;

pub(crate) fn schema(args: &SchemaArgs) -> Result<ExitCode, CliError> {
    output::print_json(&match args.document {
        SchemaName::Hank => schema::hank(),
        SchemaName::Sentinel => schema::sentinel(),
        SchemaName::Config => schema::config(),
        SchemaName::State => schema::state(),
        SchemaName::Event => schema::event(),
        SchemaName::Command => schema::command(),
    })
}
