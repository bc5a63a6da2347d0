//! Checks of the directory in which agents would work, and of limits and abilities of the system.

use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::time::Timestamp;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::inspect::DiskUse;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use hankweave_runtime::world::disk::{DirLock, Disk as _, RealDisk, records_folder};
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::weaknesses;
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::{CheckStatus, Finding};
use crate::directory::is_served;

/// Free space in bytes; with less, an agent that builds something may fill the disk.
const LITTLE_SPACE: u64 = 1 << 30;

/// Number of files that a run with clients and many checkpoints may hold open; a lower limit is too low.
const FEW_FILES: u64 = 1024;

/// Number of processes that an agent with its tools may need; a lower limit is too low.
const FEW_PROCESSES: u64 = 256;

const GIBIBYTE: f64 = (1_u64 << 30) as f64;

/// Checks whether the directory can be written to and locked, whether a run works there, and how much space is free.
pub(super) fn directory(execution: &Path) -> Vec<Finding> {
    let finding = |name: &str, level, found: String| Finding::new("directory", name, level, found);
    let place = nearest(execution);
    let shown = place.display();
    let mut findings = vec![match access(&place, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => finding("writable", CheckStatus::Ok, shown.to_string()),
        Err(error) => finding(
            "writable",
            CheckStatus::Error,
            format!("{shown}: {}", io::Error::from(error)),
        )
        .hint("name another one with -e DIR"),
    }];
    findings.push(match RealDisk.lock_dir(&place) {
        Ok(DirLock::Unsupported) => finding(
            "locks",
            CheckStatus::Error,
            "the file system cannot lock".to_owned(),
        )
        .hint("use a local disk; with --allow-no-lock you vouch that nobody else works there"),
        // Also if a run holds the lock.
        Ok(_) => finding("locks", CheckStatus::Ok, "the file system locks".to_owned()),
        Err(error) => finding("locks", CheckStatus::Error, format!("{shown}: {error}")),
    });
    if is_served(execution) {
        findings.push(finding(
            "in use",
            CheckStatus::Note,
            "a run is live there".to_owned(),
        ));
    }
    findings.extend(space(&place));
    findings.extend(spare_record());
    findings
}

/// Checks whether the folder of spare records is writable: from there hankweave puts back files of the record that an agent removes (P11). `None` if nothing is
/// wrong.
fn spare_record() -> Option<Finding> {
    let records = records_folder(&Environment::of_process())?;
    let error = access(nearest(&records), Access::WRITE_OK | Access::EXEC_OK).err()?;
    let found = format!("{}: {}", records.display(), io::Error::from(error));
    let finding = Finding::new("directory", "spare record", CheckStatus::Warning, found);
    Some(finding.hint(
        "what an agent removes of .hankweave is put back from there: set XDG_STATE_HOME to a folder of yours",
    ))
}

fn space(place: &Path) -> Option<Finding> {
    let disk = statvfs(place).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{:.1} GiB free", free as f64 / GIBIBYTE);
    Some(match free < LITTLE_SPACE {
        false => Finding::new("directory", "space", CheckStatus::Ok, found),
        true => Finding::new("directory", "space", CheckStatus::Warning, found)
            .hint("a run stops with exit code 74 when the disk is full, and continues when there is room"),
    })
}

/// Compares the size of the record with its limit, if it has one.
pub(super) fn record(execution: &Path, limit: Option<u64>) -> Option<Finding> {
    let dir = ExecutionDir::new(execution.to_owned());
    let found = DiskUse::measure(&RealDisk, &dir, limit?).ok()?;
    let finding = |level| Finding::new("directory", "record", level, found.words());
    Some(match found.is_scarce() {
        false => finding(CheckStatus::Ok),
        true => finding(CheckStatus::Warning).hint(
            "`hankweave cleanup` removes what old runs left; at the limit a run pauses with exit code 3",
        ),
    })
}

/// Returns the folder, or its nearest parent that exists.
fn nearest(folder: &Path) -> PathBuf {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let there = whole
        .ancestors()
        .find(|place| RealDisk.metadata_followed(place).is_ok());
    there.unwrap_or(Path::new("/")).to_owned()
}

/// Checks the limits of the system (`ulimit`) for files and processes.
pub(super) fn limits() -> Vec<Finding> {
    let limit = |name: &str, resource, few: u64, flag: &str| {
        let Some(most) = getrlimit(resource).current else {
            return Finding::new("limits", name, CheckStatus::Ok, "none");
        };
        match most < few {
            false => Finding::new("limits", name, CheckStatus::Ok, most.to_string()),
            true => Finding::new(
                "limits",
                name,
                CheckStatus::Warning,
                format!("{most}, less than {few}"),
            )
            .hint(format!(
                "`ulimit {flag} {few}` raises it where the system lets you"
            )),
        }
    };
    vec![
        limit("open files", Resource::Nofile, FEW_FILES, "-n"),
        limit("processes", Resource::Nproc, FEW_PROCESSES, "-u"),
    ]
}

/// Returns the abilities that this system lacks for a run (S13).
pub(super) fn system() -> impl Iterator<Item = Finding> {
    let finding = |weakness: &&str| Finding::new("system", "weaker", CheckStatus::Note, *weakness);
    weaknesses().iter().map(finding)
}

/// Returns the number of whole days from the beginning of this day, such as `2026-11-01`, until now.
pub(super) fn days_since(day: &str) -> Option<u64> {
    let begin = Timestamp::parse(&format!("{day}T00:00:00Z")).ok()?;
    Some(SystemClock.now().since(begin).as_secs() / 86_400)
}
