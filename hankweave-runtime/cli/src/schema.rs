//! `hankweave schema`

use std::process::ExitCode;

use hankweave_core::schema;
use hankweave_runtime::world::disk::{RealDisk, replace};

use crate::args::{SchemaArgs, SchemaName};
use crate::exit::{CliError, CliErrorKind};
use crate::output;

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
    replace(&RealDisk, file, format!("{schema:#}\n").as_bytes()).map_err(|error| {
        let message = format!("failed to write `{}`: {error}", file.display());
        CliError::new(CliErrorKind::Io, message)
    })?;
    Ok(ExitCode::SUCCESS)
}
