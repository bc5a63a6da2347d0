//! Usage and limits on Linux, from `/proc` and control groups.

use std::path::Path;
use std::time::Duration;

use hankweave_runtime::world::disk::Disk;
use procfs::process::{Process, Stat, all_processes};
use procfs::sys::kernel::pid_max;
use procfs::{Current as _, Meminfo, ProcessCGroup, page_size, ticks_per_second};

use super::{ProcessTreeUsage, ProcessUsage};

/// Folder of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Longest text of a number, in bytes.
const LONGEST_NUMBER: u64 = 64;

/// Returns all processes, without those that end meanwhile.
pub(super) fn processes() -> Vec<ProcessUsage> {
    let all = all_processes().into_iter().flatten();
    all.filter_map(|process| Some(usage(&process.ok()?.stat().ok()?)))
        .collect()
}

/// Returns the usage of a process, with the time of its children that have ended.
fn usage(process: &Stat) -> ProcessUsage {
    let ended = process.cutime.saturating_add(process.cstime);
    let ticks = process.utime + process.stime + u64::try_from(ended).unwrap_or(0);
    ProcessUsage {
        pid: process.pid,
        parent: process.ppid,
        used: ProcessTreeUsage {
            memory: process.rss * page_size(),
            worked: Duration::from_secs_f64(ticks as f64 / ticks_per_second() as f64),
            processes: u64::try_from(process.num_threads).unwrap_or(0),
        },
    }
}

/// Returns the limits of memory in bytes, and of processes with their threads.
pub(super) fn limits(disk: &dyn Disk) -> (u64, u64) {
    let memory = Meminfo::current().map_or(u64::MAX, |memory| memory.mem_total);
    let numbers = pid_max().map_or(u64::MAX, |most| u64::try_from(most).unwrap_or(u64::MAX));
    let groups = Process::myself().and_then(|process| process.cgroups());
    let groups = groups.map_or_else(|_| Vec::new(), |groups| groups.0);
    let lowest = |controller, files| lowest(disk, Path::new(GROUPS), &groups, controller, files);
    (
        memory.min(lowest("memory", ["memory.limit_in_bytes", "memory.max"])),
        numbers.min(lowest("pids", ["pids.max", "pids.max"])),
    )
}

/// Returns the lowest limit of a controller in a group and the groups above it; the greatest number if there is no limit. `files` are the file names
/// in the first version of groups, where each controller has its own hierarchy, and in the second.
fn lowest(disk: &dyn Disk, root: &Path, groups: &[ProcessCGroup], controller: &str, files: [&str; 2]) -> u64 {
    let limits = groups.iter().flat_map(|group| {
        let (hierarchy, file) = match group.controllers.iter().any(|name| name == controller) {
            true => (root.join(controller), files[0]),
            false if group.hierarchy == 0 => (root.to_owned(), files[1]),
            false => return Vec::new(),
        };
        let group = group.pathname.trim_start_matches('/');
        let levels = Path::new(group)
            .ancestors()
            .map(|level| hierarchy.join(level).join(file));
        levels.filter_map(|path| number(disk, &path)).collect()
    });
    limits.min().unwrap_or(u64::MAX)
}

/// Returns the number in a file; `None` if the file is missing or contains `max`.
fn number(disk: &dyn Disk, path: &Path) -> Option<u64> {
    let text = disk.read(path, LONGEST_NUMBER).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use hankweave_runtime::world::disk::RealDisk;
    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    // covers: TASK-110
    #[test]
    fn what_a_process_uses_counts_with_what_it_started_and_what_of_that_has_ended() {
        let busy = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
        let script = format!("sleep 60 & {busy}; echo; wait");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script])
            .process_group(0)
            .stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let used = ProcessTreeUsage::of_tree(child.id());
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(used.processes, 2, "{used:?}");
        assert!(
            used.memory > 0 && used.worked > Duration::from_millis(20),
            "{used:?}"
        );
        assert_eq!(ProcessTreeUsage::of_tree(child.id()), ProcessTreeUsage::default());
    }

    // covers: TASK-110
    #[test]
    fn the_lowest_limit_of_a_group_and_those_above_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let group = |hierarchy, controllers: &[&str], pathname: &str| ProcessCGroup {
            hierarchy,
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            pathname: pathname.to_owned(),
        };
        let memory = |groups: &[ProcessCGroup]| {
            lowest(
                &RealDisk,
                root,
                groups,
                "memory",
                ["memory.limit_in_bytes", "memory.max"],
            )
        };
        let unified = [group(0, &[], "/slice/worker")];
        assert_eq!(memory(&unified), u64::MAX);
        write("slice/worker/memory.max", "max\n");
        write("slice/memory.max", "7000\n");
        write("memory.max", "9000\n");
        assert_eq!(memory(&unified), 7000);
        write("memory/docker/memory.limit_in_bytes", "5000\n");
        assert_eq!(memory(&[group(4, &["memory"], "/docker/1")]), 5000);
        assert_eq!(memory(&[group(8, &["pids"], "/")]), u64::MAX);
    }
}
