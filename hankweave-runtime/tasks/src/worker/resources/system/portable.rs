//! Usage and limits on other Unix systems, such as macOS. Built in place of `linux.rs`.

use std::time::Duration;

use hankweave_runtime::world::disk::Disk;
use rustix::process::{Resource, getrlimit};
use sysinfo::{MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::{ProcessTreeUsage, ProcessUsage};

/// Returns all processes, without the time of children that have ended. The number of threads is not available, so each process counts as one.
pub(super) fn processes() -> Vec<ProcessUsage> {
    let mut table = System::new();
    let wanted = ProcessRefreshKind::nothing()
        .with_cpu()
        .with_memory()
        .without_tasks();
    table.refresh_processes_specifics(ProcessesToUpdate::All, true, wanted);
    let number = |pid: Pid| i32::try_from(pid.as_u32()).unwrap_or_default();
    let usage = |process: &sysinfo::Process| ProcessUsage {
        pid: number(process.pid()),
        parent: process.parent().map_or(0, number),
        used: ProcessTreeUsage {
            memory: process.memory(),
            worked: Duration::from_millis(process.accumulated_cpu_time()),
            processes: 1,
        },
    };
    table.processes().values().map(usage).collect()
}

/// Returns the limits of memory in bytes, and of processes.
pub(super) fn limits(_disk: &dyn Disk) -> (u64, u64) {
    let mut machine = System::new();
    machine.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let processes = getrlimit(Resource::Nproc).current;
    (machine.total_memory(), processes.unwrap_or(u64::MAX))
}
