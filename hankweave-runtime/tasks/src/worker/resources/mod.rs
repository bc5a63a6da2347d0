//! Resource usage of a run's processes, sampled while it runs (TASK-110).

mod system;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::World;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::metrics::{Counter, MetricsPage, label};
use system::{ProcessTreeUsage, SystemLimits};

/// Interval between samples of a run's processes, and the shares of resources, from 0 to 1, from which a worker warns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourceWatch {
    /// Time between two samples.
    pub every: Duration,
    /// Share of the memory of the worker's control group, or else of the machine.
    pub memory: f64,
    /// Share of the processors that the worker may use.
    pub cpu: f64,
    /// Share of the processes and threads that the worker's control group, or else the machine, allows.
    pub processes: f64,
}

impl Default for ResourceWatch {
    /// Returns a sample every 5 s, and warnings from 85 % of the memory, 80 % of the processors and 80 % of the processes.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            memory: 0.85,
            cpu: 0.80,
            processes: 0.80,
        }
    }
}

/// Sampled use of a resource.
struct Resource {
    name: &'static str,
    /// Use, in bytes of memory, busy processors, or processes with their threads.
    used: f64,
    /// Available amount, in the unit of `used`.
    limit: f64,
    /// Share, from 0 to 1, from which a worker warns.
    warns_from: f64,
}

impl Resource {
    fn share(&self) -> f64 {
        self.used / self.limit
    }

    fn warning(&self) -> Warning {
        let percent = (self.share() * 100.0).round();
        let (name, used, limit) = (self.name, self.used, self.limit);
        Warning {
            message: format!("The run uses {percent} % of the {name}"),
            data: json!({"resource": name, "percent": percent, "used": used, "limit": limit}),
        }
    }
}

/// Names of the resources in warnings and metrics, in the order of [`Monitor::resources`].
const NAMES: [&str; 3] = ["memory", "processors", "processes"];

/// Warning for the log of the task.
#[derive(Debug, PartialEq)]
pub(super) struct Warning {
    pub(super) message: String,
    pub(super) data: Value,
}

/// Newest samples of a worker's runs, and numbers of warnings, for the metrics.
#[derive(Debug, Default)]
pub(super) struct ResourceUsage {
    /// Uses by the task of a run, in the order of [`NAMES`].
    samples: Mutex<BTreeMap<TaskId, [f64; 3]>>,
    warnings: [Counter; 3],
}

/// Monitor of one run's processes. Dropping it removes the run from the metrics.
pub(super) struct Monitor {
    watch: ResourceWatch,
    task: TaskId,
    usage: Arc<ResourceUsage>,
    /// Time of the next sample.
    next: Instant,
    /// Time of the newest sample.
    sampled_at: Instant,
    /// Processor time of the run until the newest sample.
    worked: Duration,
    /// Whether each resource was above its share in the newest sample.
    is_above: [bool; 3],
}

impl Monitor {
    /// Returns the monitor of a run that starts now.
    pub(super) fn start(watch: ResourceWatch, task: TaskId, usage: Arc<ResourceUsage>) -> Self {
        let now = Instant::now();
        Self {
            watch,
            task,
            usage,
            next: now + watch.every,
            sampled_at: now,
            worked: Duration::ZERO,
            is_above: [false; 3],
        }
    }

    /// Returns when to take the next sample.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Samples the process `pid` and its descendants. Returns a warning for each resource that has risen above its share since the sample before.
    pub(super) async fn sample(&mut self, world: &World, pid: u32) -> Vec<Warning> {
        // Counted from now, not from the due time, so that a delay on a busy machine does not cause several samples at once.
        self.next = Instant::now() + self.watch.every;
        let disk = world.disk.clone();
        let read = move || {
            (
                ProcessTreeUsage::of_tree(pid),
                SystemLimits::of_this_process(&*disk),
            )
        };
        let (used, limits) = world.blocking.run(read).await;
        self.take(Instant::now(), used, limits)
    }

    /// Stores a sample for the metrics and returns its warnings.
    fn take(&mut self, now: Instant, used: ProcessTreeUsage, limits: SystemLimits) -> Vec<Warning> {
        let resources = self.resources(now, used, limits);
        (self.sampled_at, self.worked) = (now, used.worked);
        let figures = resources.each_ref().map(|resource| resource.used);
        self.usage.lock().insert(self.task.clone(), figures);
        let mut warnings = Vec::new();
        let states = self.is_above.iter_mut().zip(&self.usage.warnings);
        for (resource, (was_above, counter)) in resources.iter().zip(states) {
            let is_above = resource.share() >= resource.warns_from;
            // One warning when the usage rises above the share, not one for each sample above it.
            if is_above && !*was_above {
                counter.add(1);
                warnings.push(resource.warning());
            }
            *was_above = is_above;
        }
        warnings
    }

    /// Returns the uses and limits, in the order of [`NAMES`].
    fn resources(&self, now: Instant, used: ProcessTreeUsage, limits: SystemLimits) -> [Resource; 3] {
        // Two samples at one moment must not divide by zero.
        let elapsed = (now - self.sampled_at).max(Duration::from_millis(1));
        // The tree's processor time can shrink: a process that has left the tree no longer counts.
        let worked = used.worked.saturating_sub(self.worked);
        let processors = worked.div_duration_f64(elapsed);
        let resource = |index: usize, used, limit, warns_from| Resource {
            name: NAMES[index],
            used,
            limit,
            warns_from,
        };
        [
            resource(0, used.memory as f64, limits.memory as f64, self.watch.memory),
            resource(1, processors, limits.processors as f64, self.watch.cpu),
            resource(
                2,
                used.processes as f64,
                limits.processes as f64,
                self.watch.processes,
            ),
        ]
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.usage.lock().remove(&self.task);
    }
}

impl ResourceUsage {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<TaskId, [f64; 3]>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the metrics of all runs.
    pub(super) fn write(&self, page: &mut MetricsPage) {
        let metrics = [
            (
                "hankweave_task_memory_bytes",
                "Memory that the processes of a run have.",
            ),
            (
                "hankweave_task_processors",
                "Processors that the processes of a run kept busy between two samples.",
            ),
            ("hankweave_task_processes", "Processes and threads of a run."),
        ];
        let samples = self.lock().clone();
        for (index, (name, help)) in metrics.into_iter().enumerate() {
            let values = samples
                .iter()
                .map(|(task, used)| (label("task", task.as_str()), used[index]));
            page.gauges(name, help, values);
        }
        let warnings = NAMES.iter().zip(&self.warnings);
        page.counters(
            "hankweave_task_resource_warnings_total",
            "Number of times that runs came above the share of a resource.",
            warnings.map(|(name, counter)| (label("resource", name), counter.get())),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SystemLimits = SystemLimits {
        memory: 1000,
        processors: 2,
        processes: 100,
    };

    // covers: TASK-110
    #[tokio::test(start_paused = true)]
    async fn a_warning_comes_once_for_each_time_that_something_gets_short() {
        let usage = Arc::new(ResourceUsage::default());
        let task = TaskId::new("report-7").unwrap();
        let mut monitor = Monitor::start(ResourceWatch::default(), task, usage.clone());
        let began = Instant::now();
        assert_eq!(monitor.next() - began, Duration::from_secs(5));
        let mut take = |seconds, memory, worked, processes| {
            let used = ProcessTreeUsage {
                memory,
                worked: Duration::from_secs(worked),
                processes,
            };
            let warnings = monitor.take(began + Duration::from_secs(seconds), used, LIMITS);
            warnings
                .into_iter()
                .map(|warning| warning.message)
                .collect::<Vec<_>>()
        };
        assert_eq!(take(5, 849, 7, 79), [""; 0]);
        // 8 s of work in 5 s are 80 % of two processors.
        let all = [
            "85 % of the memory",
            "80 % of the processors",
            "80 % of the processes",
        ];
        assert_eq!(
            take(10, 850, 15, 80),
            all.map(|what| format!("The run uses {what}"))
        );
        assert_eq!(take(15, 990, 25, 90), [""; 0], "it was warned of");
        assert_eq!(take(20, 10, 25, 1), [""; 0]);
        assert_eq!(take(25, 999, 25, 1), ["The run uses 100 % of the memory"]);
        let text = |usage: &ResourceUsage| {
            let mut page = MetricsPage::default();
            usage.write(&mut page);
            page.text()
        };
        let page = text(&usage);
        for line in [
            "hankweave_task_memory_bytes{task=\"report-7\"} 999",
            "hankweave_task_processors{task=\"report-7\"} 0",
            "hankweave_task_resource_warnings_total{resource=\"memory\"} 2",
            "hankweave_task_resource_warnings_total{resource=\"processes\"} 1",
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
        }
        drop(monitor);
        assert!(!text(&usage).contains("report-7"));
    }
}
