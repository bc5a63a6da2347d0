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

/// How often it is looked, and from which share on a worker warns, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watch {
    /// The time between two looks.
    pub every: Duration,
    /// Of the memory that its control group, or else the machine has.
    pub memory: f64,
    /// Of the processors that it may use.
    pub cpu: f64,
    /// Of the processes and threads that its control group, or else the machine allows.
    pub processes: f64,
}

impl Default for Watch {
    /// Every 5 s; from 85 % of the memory and 80 % of the others on.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            memory: 0.85,
            cpu: 0.80,
            processes: 0.80,
        }
    }
}

/// One thing that may be short.
struct ResourceShare {
    name: &'static str,
    used: f64,
    limit: f64,
    warns_from: f64,
}

impl ResourceShare {
    fn part(&self) -> f64 {
        self.used / self.limit
    }

    fn warning(&self) -> Warning {
        let percent = (self.part() * 100.0).round();
        let (name, used, limit) = (self.name, self.used, self.limit);
        Warning {
            message: format!("The run uses {percent} % of the {name}"),
            data: json!({"resource": name, "percent": percent, "used": used, "limit": limit}),
        }
    }
}

/// The names under which they are told, in the order of [`Monitor::shares`].
const NAMES: [&str; 3] = ["memory", "processors", "processes"];

/// Warning for the log of the task.
#[derive(Debug, PartialEq)]
pub(super) struct Warning {
    pub(super) message: String,
    pub(super) data: Value,
}

/// Current resource usage of a worker's runs, and how often it was too high.
#[derive(Debug, Default)]
pub(super) struct ResourceUsage {
    now: Mutex<BTreeMap<TaskId, [f64; 3]>>,
    warnings: [Counter; 3],
}

/// Looks after one run.
pub(super) struct Monitor {
    watch: Watch,
    task: TaskId,
    usage: Arc<ResourceUsage>,
    next: Instant,
    /// When it was looked last, and the time that processors had worked by then.
    last: (Instant, Duration),
    warned: [bool; 3],
}

impl Monitor {
    /// For a run that begins now.
    pub(super) fn start(watch: Watch, task: TaskId, usage: Arc<ResourceUsage>) -> Self {
        let now = Instant::now();
        Self {
            watch,
            task,
            usage,
            next: now + watch.every,
            last: (now, Duration::ZERO),
            warned: [false; 3],
        }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Looks at the processes beneath this one, and says what they use too much of since this look.
    pub(super) async fn sample(&mut self, world: &World, pid: u32) -> Vec<Warning> {
        self.next = Instant::now() + self.watch.every;
        let disk = world.disk.clone();
        let look = move || {
            (
                ProcessTreeUsage::of_tree(pid),
                SystemLimits::of_this_process(&*disk),
            )
        };
        let (used, limits) = world.blocking.run(look).await;
        self.take(Instant::now(), used, limits)
    }

    fn take(&mut self, now: Instant, used: ProcessTreeUsage, limits: SystemLimits) -> Vec<Warning> {
        let shares = self.shares(now, used, limits);
        self.last = (now, used.worked);
        let figures = shares.each_ref().map(|share| share.used);
        self.usage.lock().insert(self.task.clone(), figures);
        let mut warnings = Vec::new();
        for ((share, warned), counter) in shares.iter().zip(&mut self.warned).zip(&self.usage.warnings) {
            let is_above = share.part() >= share.warns_from;
            if is_above && !*warned {
                counter.add(1);
                warnings.push(share.warning());
            }
            *warned = is_above;
        }
        warnings
    }

    fn shares(&self, now: Instant, used: ProcessTreeUsage, limits: SystemLimits) -> [ResourceShare; 3] {
        let (then, worked) = self.last;
        let elapsed = (now - then).max(Duration::from_millis(1));
        let processors = used.worked.saturating_sub(worked).div_duration_f64(elapsed);
        let share = |place: usize, used, limit, warns_from| ResourceShare {
            name: NAMES[place],
            used,
            limit,
            warns_from,
        };
        [
            share(0, used.memory as f64, limits.memory as f64, self.watch.memory),
            share(1, processors, limits.processors as f64, self.watch.cpu),
            share(
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
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, page: &mut MetricsPage) {
        let metrics = [
            (
                "hankweave_task_memory_bytes",
                "Memory that the processes of a run have.",
            ),
            (
                "hankweave_task_processors",
                "Processors that they kept busy between two looks.",
            ),
            ("hankweave_task_processes", "Processes and threads of a run."),
        ];
        let now = self.lock().clone();
        for (place, (name, help)) in metrics.into_iter().enumerate() {
            let values = now
                .iter()
                .map(|(task, used)| (label("task", task.as_str()), used[place]));
            page.gauges(name, help, values);
        }
        let warnings = NAMES.iter().zip(&self.warnings);
        page.counters(
            "hankweave_task_resource_warnings_total",
            "How often runs came to use too much of something.",
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
        let mut monitor = Monitor::start(Watch::default(), task, usage.clone());
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
        // 8 of 10 seconds that two processors have.
        let all = [
            "85 % of the memory",
            "80 % of the processors",
            "80 % of the processes",
        ];
        assert_eq!(
            take(10, 850, 15, 80),
            all.map(|what| format!("The run uses {what}"))
        );
        assert_eq!(take(15, 990, 25, 90), [""; 0], "that is known");
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
