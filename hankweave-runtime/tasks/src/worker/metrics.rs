//! The figures of a worker, in the text form of Prometheus (TASK-59).

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hankweave_task_model::task::TaskStatus;

use crate::layers::Figure;

/// To which status a step can lead.
const STATUSES: [TaskStatus; 6] = [
    TaskStatus::Pending,
    TaskStatus::Running,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
    TaskStatus::Deleted,
];

/// What a worker has done so far.
#[derive(Debug, Default)]
pub struct Metrics {
    steps: [AtomicU64; 6],
    step_micros: AtomicU64,
    claimed: AtomicU64,
    ended: AtomicU64,
    lost: AtomicU64,
}

impl Metrics {
    pub(super) fn step(&self, to: TaskStatus, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.steps[to as usize].fetch_add(1, Ordering::Relaxed);
        self.step_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn claimed(&self) {
        self.claimed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, is_lost: bool) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.lost.fetch_add(is_lost.into(), Ordering::Relaxed);
    }

    /// All of it, with what was done with the files.
    #[must_use]
    pub fn text(&self, files: &[Figure]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, files);
        text
    }

    fn write(&self, text: &mut String, files: &[Figure]) -> std::fmt::Result {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        head(
            text,
            "hankweave_task_transitions_total",
            "counter",
            "Steps of tasks that this worker took.",
        )?;
        for status in STATUSES {
            let count = read(&self.steps[status as usize]);
            writeln!(
                text,
                "hankweave_task_transitions_total{{to=\"{status}\"}} {count}"
            )?;
        }
        let seconds = Duration::from_micros(read(&self.step_micros)).as_secs_f64();
        head(
            text,
            "hankweave_task_transition_seconds_total",
            "counter",
            "How long the registry took for them.",
        )?;
        writeln!(text, "hankweave_task_transition_seconds_total {seconds}")?;
        let (claimed, ended) = (read(&self.claimed), read(&self.ended));
        for (name, kind, help, value) in [
            (
                "hankweave_tasks_claimed_total",
                "counter",
                "Tasks that this worker claimed.",
                claimed,
            ),
            (
                "hankweave_tasks_lost_total",
                "counter",
                "Tasks that others have taken over.",
                read(&self.lost),
            ),
            (
                "hankweave_tasks_running",
                "gauge",
                "Tasks that this worker has now.",
                claimed.saturating_sub(ended),
            ),
        ] {
            head(text, name, kind, help)?;
            writeln!(text, "{name} {value}")?;
        }
        write_files(text, files)
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn write_files(text: &mut String, files: &[Figure]) -> std::fmt::Result {
    type Value = fn(&Figure) -> f64;
    #[expect(clippy::cast_precision_loss, reason = "Prometheus counts in such numbers")]
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
        head(text, name, "counter", help)?;
        for figure in files {
            let (layer, operation) = (figure.layer.as_str(), figure.operation.as_str());
            writeln!(
                text,
                "{name}{{layer=\"{layer}\",operation=\"{operation}\"}} {}",
                value(figure)
            )?;
        }
    }
    Ok(())
}
