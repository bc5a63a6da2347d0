//! Resource usage and limits of processes (TASK-110).

// The part that depends on the system.
#[cfg_attr(all(target_os = "linux", not(feature = "portable")), path = "system/linux.rs")]
#[cfg_attr(
    not(all(target_os = "linux", not(feature = "portable"))),
    path = "system/portable.rs"
)]
mod side;

use std::collections::BTreeSet;
use std::time::Duration;

use hankweave_runtime::world::disk::Disk;

/// Usage of a process and all its descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessTreeUsage {
    /// Memory in bytes; shared memory counts for each process.
    pub(super) memory: u64,
    /// Processor time of these processes, and of those of their children that have ended.
    pub(super) worked: Duration,
    /// Number of processes, with their threads.
    pub(super) processes: u64,
}

/// Amounts that the worker and its runs may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SystemLimits {
    /// Memory in bytes.
    pub(super) memory: u64,
    /// Number of processors.
    pub(super) processors: usize,
    /// Number of processes, with their threads.
    pub(super) processes: u64,
}

/// Process with its own usage.
struct ProcessUsage {
    pid: i32,
    /// Id of the parent process.
    parent: i32,
    used: ProcessTreeUsage,
}

impl ProcessTreeUsage {
    /// Returns the usage of a process and its descendants; nothing if the process has ended.
    pub(super) fn of_tree(pid: u32) -> Self {
        let all = side::processes();
        let tree = tree(pid, &all);
        let in_tree = all.iter().filter(|process| tree.contains(&process.pid));
        in_tree.fold(Self::default(), |used, process| used.and(process.used))
    }

    fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory + other.memory,
            worked: self.worked + other.worked,
            processes: self.processes + other.processes,
        }
    }
}

/// Returns the ids of the process `root` and of all its descendants.
fn tree(root: u32, all: &[ProcessUsage]) -> BTreeSet<i32> {
    let mut tree: BTreeSet<i32> = i32::try_from(root).into_iter().collect();
    loop {
        let is_new = |process: &&ProcessUsage| tree.contains(&process.parent) && !tree.contains(&process.pid);
        let new: Vec<i32> = all.iter().filter(is_new).map(|process| process.pid).collect();
        match new.is_empty() {
            true => return tree,
            false => tree.extend(new),
        }
    }
}

impl SystemLimits {
    /// Returns the limits of this process and its children: those of their control groups, or else those of the machine.
    pub(super) fn of_this_process(disk: &dyn Disk) -> Self {
        let (memory, processes) = side::limits(disk);
        Self {
            memory,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            processes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use hankweave_runtime::world::disk::RealDisk;

    use super::*;

    // covers: TASK-110
    #[test]
    fn a_process_counts_with_what_it_has_started() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        // The system counts the memory of a process that has just started with a delay.
        let alone = loop {
            let alone = ProcessTreeUsage::of_tree(child.id());
            if alone.memory > 0 {
                break alone;
            }
        };
        let used = ProcessTreeUsage::of_tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alone.processes == 1 && used.processes > 1, "{alone:?} {used:?}");
        assert!(used.memory > alone.memory, "{alone:?} {used:?}");
        assert_eq!(ProcessTreeUsage::of_tree(child.id()), ProcessTreeUsage::default());
        let limits = SystemLimits::of_this_process(&RealDisk);
        assert!(limits.memory > alone.memory && limits.processes > 2 && limits.processors > 0);
    }
}
