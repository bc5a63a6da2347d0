//! `hankweave page`: prints the address of the page that a live run serves.

use std::process::ExitCode;

use hankweave_client::{Access, Client, Options, RunAddress, ServerEndpoint};
use serde_json::json;

use super::{connect_failure, runtime};
use crate::args::{Global, PageArgs};
use crate::hints::HintCommands;
use crate::terminal::exit::CliError;
use crate::terminal::output;

/// Prints the address of the page with the token in it. Connects with the token first: with a token that the run does not know, the page would not open.
pub(crate) fn page(global: &Global, args: &PageArgs) -> Result<ExitCode, CliError> {
    crate::logging::install(global);
    let hints = HintCommands::about(&args.execution.execution);
    let (access, name) = match args.control {
        true => (Access::Control, "control"),
        false => (Access::ReadOnly, "read-only"),
    };
    let endpoint = ServerEndpoint::of_execution(&args.execution.execution, access);
    let endpoint = endpoint.map_err(|error| connect_failure(&error.into(), Some(&hints)))?;
    runtime()?.block_on(async {
        let target = RunAddress::Endpoint(endpoint.clone());
        let client = Client::connect(target, Options::watching()).await;
        let client = client.map_err(|error| connect_failure(&error, Some(&hints)))?;
        client.close().await;
        Ok(())
    })?;
    let address = endpoint.page();
    match global.json() {
        true => output::print_json(&json!({"address": address, "access": name})),
        false => {
            output::print(format!("{address}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
