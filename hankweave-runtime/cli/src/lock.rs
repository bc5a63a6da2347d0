//! `hankweave lock`: locks on named resources in a registry, for people and scripts that share something among themselves or with workers (CLI-40).

use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::{Holder, TaskError, Tries};
use hankweave_tasks::coordinator::{Acquire, Acquired, HeldLock, Release, Renew};
use serde_json::json;

use crate::args::{Global, LockAcquireArgs, LockArgs, LockCommand, LockHolder, LockRenewArgs};
use crate::registry::{Registry, with_registry};
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::{counted, duration};
use crate::terminal::screen::{local_time, one_line};

pub(crate) fn lock(global: &Global, args: &LockArgs) -> Result<ExitCode, CliError> {
    with_registry(&args.place, async |registry: &Registry| {
        match &args.command {
            LockCommand::List => list(global, registry).await,
            LockCommand::Acquire(args) => acquire(global, registry, args).await,
            LockCommand::Renew(args) => renew(global, registry, args).await,
            LockCommand::Release(args) => release(global, registry, &args.holder).await,
            LockCommand::Free { owner } => {
                // All locks of the owner, expired or not; the log has a warning of it.
                let removed = registry.locks.emergency_clean_up(owner).await;
                print_removed(global, removed.map_err(|error| registry.failure(&error))?)
            }
            LockCommand::Cleanup => {
                // Expired locks, of all owners.
                let removed = registry.coordinator.clean_up().await;
                print_removed(global, removed.map_err(|error| registry.failure(&error))?)
            }
        }
    })
}

async fn list(global: &Global, registry: &Registry) -> Result<ExitCode, CliError> {
    let failed = |error| registry.failure(&error);
    let now = registry.coordinator.now().await.map_err(failed)?;
    let held = registry.coordinator.held().await.map_err(failed)?;
    let text = match held.as_slice() {
        [] => "nothing is held\n".to_owned(),
        locks => locks.iter().map(|lock| line(lock, now)).collect(),
    };
    print(global, json!({"locks": held}), text)
}

fn line(lock: &HeldLock, now: Timestamp) -> String {
    let mode = match lock.held.mode {
        LockMode::Exclusive => "exclusive",
        LockMode::Collaborative => "shared",
    };
    format!(
        "{:<28}  {mode:<9}  {}  token {}  {}\n",
        one_line(&lock.resource),
        one_line(&lock.held.holder.owner),
        lock.held.token,
        time_left(lock.held.expires_at, now),
    )
}

/// End of a lock for people: `until 14:02, 12s left`.
fn time_left(expires_at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(end) = expires_at else {
        return "until -".to_owned();
    };
    match u64::try_from(end.as_millis() - now.as_millis()) {
        Ok(millis @ 1..) => {
            let left = duration(Duration::from_millis(millis));
            format!("until {}, {left} left", local_time(end))
        }
        // A negative number, or the very end.
        Ok(0) | Err(_) => format!("expired at {}", local_time(end)),
    }
}

async fn acquire(global: &Global, registry: &Registry, args: &LockAcquireArgs) -> Result<ExitCode, CliError> {
    let acquired = try_to_acquire(registry, args).await;
    let Acquired { held, version, .. } = acquired.map_err(|error| registry.failure(&error))?;
    let end = held.expires_at;
    let text = format!(
        "token {}, held until {}\n",
        held.token,
        end.map_or_else(|| "-".to_owned(), local_time)
    );
    print(global, json!({"held": held, "version": version}), text)
}

/// Tries to take a shared lock several times, with waits between; an exclusive one is granted at once or refused (TASK-28, TASK-7).
async fn try_to_acquire(registry: &Registry, args: &LockAcquireArgs) -> Result<Acquired, TaskError> {
    let tries = Tries::new(if args.collaborative { args.tries } else { 1 })?;
    let mut attempts = 0;
    loop {
        let acquire = Acquire {
            resource: args.holder.resource.clone(),
            holder: holder(&args.holder),
            mode: if args.collaborative {
                LockMode::Collaborative
            } else {
                LockMode::Exclusive
            },
            lease: Some(args.lease),
            // The order of locks (TASK-16) is for programs that hold several.
            in_order: false,
            task: None,
        };
        let acquired = registry.coordinator.acquire(acquire).await;
        attempts += 1;
        match (&acquired, tries.wait_after(attempts)) {
            (Err(TaskError::ResourceLocked { .. }), Some(wait)) => tokio::time::sleep(wait).await,
            _ => return acquired,
        }
    }
}

async fn renew(global: &Global, registry: &Registry, args: &LockRenewArgs) -> Result<ExitCode, CliError> {
    let renew = Renew {
        resource: args.resource.clone(),
        token: args.token,
        lease: args.lease,
    };
    let renewed = registry.coordinator.renew(renew).await;
    let end = renewed.map_err(|error| registry.failure(&error))?;
    let text = format!("held until {}\n", local_time(end));
    print(global, json!({"expiresAt": end}), text)
}

async fn release(global: &Global, registry: &Registry, args: &LockHolder) -> Result<ExitCode, CliError> {
    let release = Release {
        resource: args.resource.clone(),
        holder: holder(args),
        written: None,
    };
    let released = registry.coordinator.release(release).await;
    let released = released.map_err(|error| registry.failure(&error))?;
    let text = match released.as_ref().map(|held| held.count) {
        None => "it was not held\n".to_owned(),
        Some(0) => "released\n".to_owned(),
        Some(1) => "released once; still held once\n".to_owned(),
        Some(count) => format!("released once; still held {count} times\n"),
    };
    print(
        global,
        json!({"released": released.is_some(), "count": released.map(|held| held.count)}),
        text,
    )
}

fn print_removed(global: &Global, removed: u64) -> Result<ExitCode, CliError> {
    let number = usize::try_from(removed).unwrap_or(usize::MAX);
    let text = format!("{} removed\n", counted(number, "lock"));
    print(global, json!({"removed": removed}), text)
}

fn print(global: &Global, json: serde_json::Value, text: String) -> Result<ExitCode, CliError> {
    if global.json() {
        return output::print_json(&json);
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn holder(args: &LockHolder) -> Holder {
    Holder::new(&*args.owner, &*args.scope)
}
