//! `hankweave task health`: figures of a registry and its workers, and checks that it can be used.

use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::time::short_duration;
use hankweave_task_model::lock::LockMode;
use serde_json::{Map, Value, json};

use super::list::{counts, running};
use crate::args::{Global, TaskHealthArgs};
use crate::present_workers::{present, words};
use crate::registry::{Registry, within};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::one_line;

/// Time that the figures and checks may take together before the registry counts as away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which a task of a worker that has ended is reported.
pub(super) const ORPHAN_AFTER: Duration = Duration::from_secs(5 * 60);

/// Check of the registry, after the figures have shown that it answers; made in this order (TASK-116).
#[derive(Debug, Clone, Copy)]
enum HealthCheck {
    /// The registry can be written.
    Registry,
    /// The folder of the files of all tasks can be read.
    Files,
    /// No task is orphaned.
    Orphans,
}

/// Findings, for people and for programs.
#[derive(Default)]
struct HealthReport {
    /// Figures by their names in JSON.
    figures: Map<String, Value>,
    /// Workers in words.
    workers: String,
    /// Checks that were made, each with its problem; `None` if it passed.
    checks: Vec<(HealthCheck, Option<String>)>,
}

pub(super) async fn health(
    global: &Global,
    registry: &Registry,
    args: &TaskHealthArgs,
) -> Result<ExitCode, CliError> {
    let away = || {
        let message = format!(
            "the registry `{}` does not answer within {} s",
            shown(&registry.url),
            PATIENCE.as_secs()
        );
        CliError::new(CliErrorKind::Io, message)
    };
    let found = within(PATIENCE, run_checks(registry, args))
        .await
        .ok_or_else(away)??;
    match global.json() {
        true => output::print_json(&found.document()).map(drop)?,
        false => output::print(found.text())?,
    }
    match found.failed() {
        Some((check, why)) if args.fail_fast => {
            let message = format!("the check `{}` failed: {why}", check.name());
            Err(CliError::new(CliErrorKind::Failed, message))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Collects the figures and makes the checks in their order; with `--fail-fast` none after the first that fails.
async fn run_checks(registry: &Registry, args: &TaskHealthArgs) -> Result<HealthReport, CliError> {
    let mut found = HealthReport::default();
    add_figures(registry, args, &mut found).await?;
    for check in [HealthCheck::Registry, HealthCheck::Files, HealthCheck::Orphans] {
        let trouble = match check.problem(registry, args, &mut found).await {
            Ok(trouble) => trouble,
            Err(failure) => Some(failure.message().to_owned()),
        };
        let is_last = args.fail_fast && trouble.is_some();
        found.checks.push((check, trouble));
        if is_last {
            break;
        }
    }
    Ok(found)
}

async fn add_figures(
    registry: &Registry,
    args: &TaskHealthArgs,
    found: &mut HealthReport,
) -> Result<(), CliError> {
    let failed = |error| registry.failure(&error);
    let began = tokio::time::Instant::now();
    registry.coordinator.now().await.map_err(failed)?;
    let answer = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let counts = counts(registry).await?;
    let now = registry.coordinator.now().await.map_err(failed)?;
    let held = registry.coordinator.held().await.map_err(failed)?;
    // An expired lock holds nothing; its task counts as one without a worker.
    let locks: Vec<_> = held.into_iter().filter(|lock| lock.lives(now)).collect();
    let running = running(registry).await?;
    found.add_figure("registry", json!(shown(&registry.url)));
    found.add_figure("answerMs", json!(answer));
    found.add_figure("tasks", json!(counts.values().sum::<u64>()));
    found.add_figure("running", json!(counts["running"]));
    found.add_figure("unheld", json!(running.unheld));
    let absent = running
        .absent
        .iter()
        .map(|(id, absent)| json!({"task": id, "worker": absent.in_short()}));
    found.add_figure("absent", absent.collect());
    found.add_figure("locks", json!(locks.len()));
    let workers = present(registry).await?;
    found.workers = words(&workers, &registry.command("worker"));
    found.add_figure("workers", json!(workers));
    if args.details {
        found.add_figure("held", json!(locks));
    }
    Ok(())
}

impl HealthCheck {
    const fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Files => "files",
            Self::Orphans => "orphans",
        }
    }

    /// Makes the check; returns the problem, if there is one.
    async fn problem(
        self,
        registry: &Registry,
        args: &TaskHealthArgs,
        found: &mut HealthReport,
    ) -> Result<Option<String>, CliError> {
        match self {
            Self::Registry => check_writable(registry).await.map(|()| None),
            Self::Files => {
                let layers = registry.layers.clone();
                let read = registry.world.blocking.run(move || layers.tasks()).await;
                read.map(|_| None).map_err(|error| registry.layer_failure(&error))
            }
            Self::Orphans => {
                let orphans = registry.coordinator.orphans(ORPHAN_AFTER).await;
                let orphans = orphans.map_err(|error| registry.failure(&error))?;
                found.add_figure("orphans", json!(orphans.len()));
                if args.details {
                    found.add_figure("leftBehind", orphans.iter().map(|row| json!(row.id())).collect());
                }
                Ok(match orphans.len() {
                    0 => None,
                    1 => Some("1 orphaned task; the next worker requeues it".to_owned()),
                    left => Some(format!("{left} orphaned tasks; the next worker requeues them")),
                })
            }
        }
    }
}

/// Takes and releases a lock of its own name, to test that the registry can be written: on a full disk, reads still succeed.
async fn check_writable(registry: &Registry) -> Result<(), CliError> {
    let locks = &registry.locks;
    let name = format!("health:{}", registry.world.ids.nonce());
    let request = locks.request(name, "health", LockMode::Exclusive);
    let granted = locks.acquire(request).await;
    let guard = granted.map_err(|error| registry.failure(&error))?.guard;
    guard
        .release(None)
        .await
        .map_err(|error| registry.failure(&error))
}

impl HealthReport {
    fn add_figure(&mut self, name: &str, value: Value) {
        self.figures.insert(name.to_owned(), value);
    }

    /// Returns the first check that failed, and why.
    fn failed(&self) -> Option<(HealthCheck, &str)> {
        self.checks
            .iter()
            .find_map(|(check, trouble)| Some((*check, trouble.as_deref()?)))
    }

    fn document(&self) -> Value {
        let checks = self.checks.iter().map(
            |(check, trouble)| json!({"name": check.name(), "ok": trouble.is_none(), "message": trouble}),
        );
        let mut document = Value::Object(self.figures.clone());
        document["checks"] = checks.collect();
        document
    }

    fn text(&self) -> String {
        let number = |name: &str| self.figures[name].as_u64().unwrap_or(0);
        let unheld = match number("unheld") {
            0 => String::new(),
            unheld => format!(" ({unheld} without a worker)"),
        };
        let absent = self.figures["absent"].as_array().into_iter().flatten();
        let absent: String = absent
            .map(|absent| {
                let word = |name: &str| one_line(absent[name].as_str().unwrap_or_default());
                format!("  {}: {}\n", word("task"), word("worker"))
            })
            .collect();
        let mut text = format!(
            "{} answers in {} ms\nworkers: {}\ntasks: {}, running: {}{unheld}, locks held: {}\n{absent}",
            self.figures["registry"].as_str().unwrap_or_default(),
            number("answerMs"),
            self.workers,
            number("tasks"),
            number("running"),
            number("locks"),
        );
        for (check, trouble) in &self.checks {
            match (check, trouble) {
                (_, Some(trouble)) => text.push_str(&format!("{}: {}\n", check.name(), one_line(trouble))),
                (HealthCheck::Orphans, None) => text.push_str(&format!(
                    "no orphaned task: none has been without a worker for {}\n",
                    short_duration(ORPHAN_AFTER)
                )),
                (_, None) => {}
            }
        }
        let listed = |name: &str| {
            self.figures
                .get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        for id in listed("leftBehind") {
            text.push_str(&format!("  left behind: {}\n", id.as_str().unwrap_or_default()));
        }
        for lock in listed("held") {
            let name = |name: &str| one_line(lock[name].as_str().unwrap_or_default());
            let owner = name("owner");
            let owner = owner.strip_prefix("lifecycle:").unwrap_or(&owner);
            text.push_str(&format!("  {} is held by {owner}\n", name("resource")));
        }
        text
    }
}

/// Returns the address without its password.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(
            shown("postgres://ann:secret@db:5432/tasks"),
            "postgres://…@db:5432/tasks"
        );
        assert_eq!(shown("sqlite:/x/a@b.db"), "sqlite:/x/a@b.db");
    }
}
