//! `hankweave diagram`: prints a state machine of hankweave as a diagram.

use std::process::ExitCode;

use hankweave_core::codon::CODON;
use hankweave_core::run::RUN;
use hankweave_task_model::lock::LOCK;
use hankweave_task_model::task::TASK;

use crate::args::{DiagramArgs, DiagramFormat, MachineName};
use crate::terminal::exit::CliError;
use crate::terminal::output;

pub(crate) fn diagram(args: &DiagramArgs) -> Result<ExitCode, CliError> {
    let machine = match args.machine {
        MachineName::Codon => &CODON,
        MachineName::Run => &RUN,
        MachineName::Task => &TASK,
        MachineName::Lock => &LOCK,
    };
    let text = match args.form {
        DiagramFormat::Mermaid => machine.to_mermaid(),
        DiagramFormat::Dot => machine.to_dot(),
        DiagramFormat::Plantuml => machine.to_plantuml(),
        DiagramFormat::Json => machine.to_json(),
    };
    output::print(format!("{}\n", text.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}
