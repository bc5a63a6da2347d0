//! `hankweave lock`

use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::{Holder, TaskError, Tries};
use hankweave_tasks::coordinator::{Acquire, Acquired, HeldLock, Release, Renew};
use serde_json::json;

use crate::args::{Global, LockAcquireArgs, LockArgs, LockCommand, LockHolder};
use crate::registry::{Registry, with_registry};
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::duration;
use crate::terminal::screen::{local_time, one_line};

pub(crate) fn lock(global: &Global, args: &LockArgs) -> Result<ExitCode, CliError> {
    with_registry(&args.place, async |registry: &Registry| {
        let done = match &args.command {
            LockCommand::List => list(global, registry).await?,
            LockCommand::Acquire(args) => acquire(global, registry, args).await?,
            LockCommand::Renew(args) => {
                let renewed = registry.coordinator.renew(Renew {
                    resource: args.resource.clone(),
                    token: args.token,
                    lease: args.lease,
                });
                let end = renewed.await.map_err(|error| registry.failure(&error))?;
                print_lock(
                    global,
                    json!({"expiresAt": end}),
                    format!("held until {}\n", local_time(end)),
                )?
            }
            LockCommand::Release(args) => release(global, registry, &args.holder).await?,
            LockCommand::Free { owner } => {
                let removed = registry.locks.emergency_clean_up(owner).await;
                removed_locks(global, removed.map_err(|error| registry.failure(&error))?)?
            }
            LockCommand::Cleanup => {
                let removed = registry.coordinator.clean_up().await;
                removed_locks(global, removed.map_err(|error| registry.failure(&error))?)?
            }
        };
        Ok(done)
    })
}

fn print_lock(global: &Global, json: serde_json::Value, text: String) -> Result<ExitCode, CliError> {
    if global.json() {
        return output::print_json(&json);
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn removed_locks(global: &Global, removed: u64) -> Result<ExitCode, CliError> {
    print_lock(
        global,
        json!({"removed": removed}),
        format!("{removed} locks removed\n"),
    )
}

async fn list(global: &Global, registry: &Registry) -> Result<ExitCode, CliError> {
    let failed = |error| registry.failure(&error);
    let now = registry.coordinator.now().await.map_err(failed)?;
    let held = registry.coordinator.held().await.map_err(failed)?;
    let text = held.iter().map(|lock| line(lock, now)).collect::<String>();
    let text = if held.is_empty() {
        "nothing is held\n".to_owned()
    } else {
        text
    };
    print_lock(global, json!({"locks": held}), text)
}

/// Returns the end of a lock in words: `until 14:02, 12s left`.
fn end(expires_at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(end) = expires_at else {
        return "until -".to_owned();
    };
    let left = u64::try_from(end.as_millis() - now.as_millis()).unwrap_or_default();
    match left {
        0 => format!("expired at {}", local_time(end)),
        left => format!(
            "until {}, {} left",
            local_time(end),
            duration(Duration::from_millis(left))
        ),
    }
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
        end(lock.held.expires_at, now),
    )
}

fn holder(args: &LockHolder) -> Holder {
    Holder::new(&*args.owner, &*args.scope)
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
    print_lock(global, json!({"held": held, "version": version}), text)
}

/// Acquires a lock. A shared lock is waited for, an exclusive one is not (TASK-1, TASK-7).
async fn try_to_acquire(registry: &Registry, args: &LockAcquireArgs) -> Result<Acquired, TaskError> {
    let tries = Tries::new(if args.collaborative { args.tries } else { 1 })?;
    let mut made = 0;
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
            in_order: false,
            task: None,
        };
        let acquired = registry.coordinator.acquire(acquire).await;
        made += 1;
        match (&acquired, tries.wait_after(made)) {
            (Err(TaskError::ResourceLocked { .. }), Some(wait)) => tokio::time::sleep(wait).await,
            _ => return acquired,
        }
    }
}

async fn release(global: &Global, registry: &Registry, args: &LockHolder) -> Result<ExitCode, CliError> {
    let released = registry.coordinator.release(Release {
        resource: args.resource.clone(),
        holder: holder(args),
        written: None,
    });
    let released = released.await.map_err(|error| registry.failure(&error))?;
    let text = match &released {
        Some(held) if held.count > 0 => format!("given back once; still held {} times\n", held.count),
        Some(_) => "given back\n".to_owned(),
        None => "nobody held it\n".to_owned(),
    };
    print_lock(
        global,
        json!({"released": released.is_some(), "count": released.map(|held| held.count)}),
        text,
    )
}
