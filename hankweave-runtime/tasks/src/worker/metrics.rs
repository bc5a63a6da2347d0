//! Metrics of a worker, for Prometheus (TASK-59).

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::cost::Usd;
use tokio::time::timeout;

use super::resources::ResourceUsage;
use crate::layers::{LayerMetric, TaskLayers};
use crate::lifecycle::StepMetrics;
use crate::locks::{LockMetrics, LockSummary, Locks};
use crate::metrics::{Counter, MetricsPage, label};

/// Time limit of the registry's answer about locks. Without an answer the page has no lines about locks.
const PATIENCE: Duration = Duration::from_secs(2);

/// Metrics of a worker.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Claimed tasks.
    pub claimed: Counter,
    /// Tasks that the worker no longer has, whatever their outcome.
    pub ended: Counter,
    /// Tasks that other workers have taken over.
    pub lost: Counter,
    /// Cost of its tasks' runs, in billionths of US dollars.
    pub nano_dollars: Counter,
}

/// Metrics of all workers of a process; with an engine there is one worker for each task. Copies share the metrics.
#[derive(Debug, Clone, Default)]
pub struct WorkerMetrics {
    pub(super) tasks: Arc<Metrics>,
    pub(super) steps: Arc<StepMetrics>,
    pub(super) usage: Arc<ResourceUsage>,
}

impl WorkerMetrics {
    /// Returns these metrics and those of the files, in the text format of Prometheus. For engines, which have no locks.
    #[must_use]
    pub fn page(&self, layers: &TaskLayers) -> String {
        let mut page = MetricsPage::default();
        self.write(&mut page, layers);
        page.text()
    }

    /// Returns these metrics and those of the files and locks, in the text format of Prometheus.
    pub(super) async fn page_with_locks(&self, layers: &TaskLayers, locks: &Locks) -> String {
        let mut page = MetricsPage::default();
        self.write(&mut page, layers);
        write_locks(&mut page, locks.metrics());
        if let Some(summary) = summary(locks).await {
            write_held(&mut page, &summary);
        }
        page.text()
    }

    fn write(&self, page: &mut MetricsPage, layers: &TaskLayers) {
        self.tasks.write(page);
        write_steps(page, &self.steps);
        write_files(page, &layers.figures());
        self.usage.write(page);
    }
}

impl Metrics {
    fn write(&self, page: &mut MetricsPage) {
        let (claimed, ended) = (self.claimed.get(), self.ended.get());
        page.counter(
            "hankweave_tasks_claimed_total",
            "Tasks that this worker claimed.",
            claimed,
        );
        page.counter(
            "hankweave_tasks_lost_total",
            "Tasks that others have taken over.",
            self.lost.get(),
        );
        page.counter(
            "hankweave_task_cost_usd_total",
            "What the runs of this worker cost, in US dollars.",
            Usd::from_nanos(self.nano_dollars.get()).as_dollars(),
        );
        page.gauge(
            "hankweave_tasks_running",
            "Tasks that this worker has now.",
            claimed.saturating_sub(ended),
        );
    }
}

fn write_steps(page: &mut MetricsPage, steps: &StepMetrics) {
    let to = steps
        .by_status()
        .map(|(status, count)| (label("to", status.as_str()), count));
    page.counters(
        "hankweave_task_transitions_total",
        "Steps of tasks that this worker took.",
        to,
    );
    page.counter(
        "hankweave_task_transitions_failed_total",
        "Steps that were refused or failed.",
        steps.failed.get(),
    );
    page.timer(
        "hankweave_task_transition_seconds",
        "How long steps took.",
        &steps.taken.read(),
    );
    page.timer(
        "hankweave_task_hook_seconds",
        "How long hooks took.",
        &steps.hooks.read(),
    );
    page.counter(
        "hankweave_task_hooks_failed_total",
        "Hooks that failed, panicked or took too long.",
        steps.failed_hooks.get(),
    );
}

fn write_locks(page: &mut MetricsPage, locks: &LockMetrics) {
    for (name, help, counter) in [
        ("granted", "Locks that this worker was granted.", &locks.granted),
        (
            "expired",
            "Locks that were over before they were given back.",
            &locks.expired,
        ),
        (
            "conflicts",
            "Requests that somebody was in the way of.",
            &locks.conflicts,
        ),
        ("waits", "Pauses before another try.", &locks.waits),
        ("retries", "Tries after such a pause.", &locks.retries),
        ("renewals", "Ends of locks that were moved.", &locks.renewals),
    ] {
        page.counter(&format!("hankweave_locks_{name}_total"), help, counter.get());
    }
    page.timer(
        "hankweave_lock_held_seconds",
        "How long locks were held that were given back.",
        &locks.held.read(),
    );
    page.timer(
        "hankweave_lock_waited_seconds",
        "How long requests for locks took.",
        &locks.waited.read(),
    );
}

async fn summary(locks: &Locks) -> Option<LockSummary> {
    timeout(PATIENCE, locks.summary()).await.ok()?.ok()
}

/// Writes all held locks, not only those of this worker.
fn write_held(page: &mut MetricsPage, summary: &LockSummary) {
    page.gauge(
        "hankweave_locks_active",
        "Locks that anybody holds now.",
        summary.active_locks,
    );
    let owners = summary.locks_by_owner.iter();
    page.gauges(
        "hankweave_locks_by_owner",
        "Locks that each owner holds now.",
        owners.map(|(owner, count)| (label("owner", owner), count)),
    );
    let age = summary.oldest_lock.as_ref().map_or(0, |oldest| oldest.age);
    page.gauge(
        "hankweave_lock_oldest_seconds",
        "How long the oldest of them has been held.",
        Duration::from_millis(age).as_secs_f64(),
    );
}

fn write_files(page: &mut MetricsPage, files: &[LayerMetric]) {
    type Value = fn(&LayerMetric) -> f64;
    let columns: [(&str, &str, Value); 3] = [
        (
            "hankweave_persistence_operations_total",
            "Uses of the files of tasks.",
            |figure| figure.done as f64,
        ),
        (
            "hankweave_persistence_failures_total",
            "Uses that failed.",
            |figure| figure.failed as f64,
        ),
        (
            "hankweave_persistence_seconds_total",
            "How long they took.",
            |figure| figure.took.as_secs_f64(),
        ),
    ];
    for (name, help, value) in columns {
        let labels = |figure: &LayerMetric| {
            let (layer, operation) = (figure.layer.as_str(), figure.operation.as_str());
            format!("{{layer=\"{layer}\",operation=\"{operation}\"}}")
        };
        page.counters(
            name,
            help,
            files.iter().map(|figure| (labels(figure), value(figure))),
        );
    }
}
