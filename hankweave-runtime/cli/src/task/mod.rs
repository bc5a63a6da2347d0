//! `hankweave task`: commands on the tasks of a registry. Each subcommand opens the registry here and has its function in one of the modules.

mod by_worker;
mod change;
mod create;
mod create_many;
mod details;
mod earlier;
mod executions;
mod file_lines;
mod file_order;
mod files;
mod health;
mod list;
mod log;
mod metrics;
mod reasons;
mod row_line;
mod show;

use std::process::ExitCode;

use crate::args::{Global, TaskArgs, TaskCommand};
use crate::registry::{Registry, with_registry};
use crate::terminal::exit::CliError;

#[cfg(feature = "mcp")]
pub(crate) use change::cancel_or_ask;
#[cfg(feature = "mcp")]
pub(crate) use create::{free_ids, task_spec};
pub(crate) use earlier::EarlierTasks;
#[cfg(feature = "mcp")]
pub(crate) use list::STATUSES;
pub(crate) use list::{all_of, counts, running};
pub(crate) use reasons::reason;
#[cfg(feature = "mcp")]
pub(crate) use reasons::resume_command;
pub(crate) use row_line::line_with_reason;

pub(crate) fn task(global: &Global, args: &TaskArgs) -> Result<ExitCode, CliError> {
    // The question comes before the registry is opened.
    if let TaskCommand::Delete(args) = &args.command {
        change::confirm_delete(args)?;
    }
    with_registry(&args.place, async |registry: &Registry| match &args.command {
        TaskCommand::Create(args) => create::create(global, registry, args).await,
        TaskCommand::List(args) => match &args.search {
            Some(query) => list::find(global, registry, &args.find(query)).await,
            None if args.count => list::stats(global, registry).await,
            None if args.workers => by_worker::by_worker(global, registry).await,
            None => list::list(global, registry, args).await,
        },
        TaskCommand::Find(args) => list::find(global, registry, args).await,
        TaskCommand::Stats => list::stats(global, registry).await,
        TaskCommand::Metrics(args) => metrics::metrics(global, registry, args).await,
        TaskCommand::Health(args) => health::health(global, registry, args).await,
        TaskCommand::Show(args) if args.attempts => {
            executions::executions(global, registry, &args.task.id).await
        }
        TaskCommand::Show(args) if args.decisions => {
            show::decisions(global, registry, &args.decisions()).await
        }
        TaskCommand::Show(args) if args.report => show::report(global, registry, &args.task.id).await,
        TaskCommand::Show(args) => show::show(global, registry, &args.task.id).await,
        TaskCommand::History(args) => log::history(global, registry, args).await,
        TaskCommand::Decisions(args) => show::decisions(global, registry, args).await,
        TaskCommand::Checkpoint(args) => files::checkpoint(global, registry, args).await,
        TaskCommand::Restore(args) => files::restore(global, registry, args).await,
        TaskCommand::Recover(task) => files::recover(global, registry, &task.id).await,
        TaskCommand::Cancel(tasks) => change::cancel(global, registry, &tasks.ids).await,
        TaskCommand::Approve(args) => change::answer(global, registry, args, true).await,
        TaskCommand::Deny(args) => change::answer(global, registry, args, false).await,
        TaskCommand::Resume(args) => change::resume(global, registry, args).await,
        TaskCommand::Complete(args) => change::complete(global, registry, args).await,
        TaskCommand::Detach(args) => change::detach(global, registry, args).await,
        TaskCommand::Executions(task) => executions::executions(global, registry, &task.id).await,
        TaskCommand::Delete(args) => change::delete(global, registry, &args.task.id).await,
    })
}
