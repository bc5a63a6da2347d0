//! `hankweave page`

use std::process::ExitCode;

use serde_json::json;

use super::{connect_failure, runtime};
use crate::cli::args::{Global, PageArgs};
use crate::cli::exit::Failure;
use crate::cli::typed::Typed;
use crate::client::{Access, Client, Endpoint, Options, Target};

/// Prints the address of the page with its token, which is tried first: a token that the run does not know opens nothing.
pub(in crate::cli) fn page(global: &Global, args: &PageArgs) -> Result<ExitCode, Failure> {
    crate::cli::logging::install(global);
    let typed = Typed::about(&args.execution.execution);
    let (access, name) = match args.control {
        true => (Access::Control, "control"),
        false => (Access::ReadOnly, "read-only"),
    };
    let endpoint = Endpoint::of_execution(&args.execution.execution, access);
    let endpoint = endpoint.map_err(|error| connect_failure(&error.into(), Some(&typed)))?;
    runtime()?.block_on(async {
        let target = Target::Endpoint(endpoint.clone());
        let client = Client::connect(target, Options::watching()).await;
        let client = client.map_err(|error| connect_failure(&error, Some(&typed)))?;
        client.close().await;
        Ok(())
    })?;
    let address = endpoint.page();
    match global.json() {
        true => crate::cli::state::print_json(&json!({"address": address, "access": name})),
        false => {
            crate::cli::print(format!("{address}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
