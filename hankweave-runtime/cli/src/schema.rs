//! `hankweave schema`: prints the JSON schema of a file or message of hankweave, or writes it to a file.

use std::process::ExitCode;

use hankweave_core::schema;

use crate::args::{SchemaArgs, SchemaName};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;

#[expect(
    clippy::disallowed_methods,
    reason = "the file is the user's, with the rights that the user gives files"
)]
pub(crate) fn schema(args: &SchemaArgs) -> Result<ExitCode, CliError> {
    let schema = match args.document {
        SchemaName::Hank => schema::hank(),
        SchemaName::Sentinel => schema::sentinel(),
        SchemaName::Config => schema::config(),
        SchemaName::State => schema::state(),
        SchemaName::Event => schema::event(),
        SchemaName::Command => schema::command(),
    };
    let Some(file) = &args.output else {
        return output::print_json(&schema);
    };
    std::fs::write(file, format!("{schema:#}\n")).map_err(|error| {
        let message = format!("failed to write `{}`: {error}", file.display());
        CliError::new(CliErrorKind::Io, message)
    })?;
    Ok(ExitCode::SUCCESS)
}
