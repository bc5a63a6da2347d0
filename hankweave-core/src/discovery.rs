//! Files and variables by which a client finds the server of a live run and gets its token, and the check whether the process of a `server.lock` still lives.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{CodonId, RunId};
use crate::time::Timestamp;

/// The name of the state directory inside the execution directory.
pub const STATE_DIR: &str = ".hankweave";

/// The file in the state directory with the process that works there: a [`ServerLockRecord`].
pub const LOCK_FILE: &str = "server.lock";

/// The file in the state directory with the token for reading and commands.
pub const TOKEN_FILE: &str = "token";

/// The file in the state directory with the token for reading.
pub const READ_ONLY_TOKEN_FILE: &str = "token-readonly";

/// The variable whose token replaces that of [`TOKEN_FILE`].
pub const TOKEN_VARIABLE: &str = "HANKWEAVE_TOKEN";

/// The variable whose token replaces that of [`READ_ONLY_TOKEN_FILE`].
pub const READ_ONLY_TOKEN_VARIABLE: &str = "HANKWEAVE_READONLY_TOKEN";

/// Largest [`LOCK_FILE`] that is read, in bytes.
pub const MAX_LOCK_FILE_BYTES: u64 = 64 * 1024;

/// Largest token file that is read, in bytes.
pub const MAX_TOKEN_FILE_BYTES: u64 = 1_024;

/// Process that works in an execution directory: the contents of `server.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerLockRecord {
    /// The holder's process.
    pub pid: u32,
    /// When that process started, in clock ticks since boot; a process that reuses the pid has another start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_start_ticks: Option<u64>,
    /// The boot that the pid and the ticks belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Name space of the pid; a container has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<String>,
    /// [Name](directory_name) of the execution directory that the record was written in; a copy of the directory has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Id of this holder: new each time the lock is taken.
    pub lock_id: String,
    /// The port of the server, once it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Address for clients on this machine, unless it is 127.0.0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The run in progress, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Current activity of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// Whether the run was requested to stop and is ending.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub stopping: bool,
    /// Whether the holder waits for the answer to a question in its terminal, before it does anything.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub asking: bool,
    /// Uptime of the machine, in milliseconds, at which the holder suspended itself, as by Ctrl+Z; `None` once it has continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_at_uptime_ms: Option<u64>,
    /// When the lock was taken.
    pub start_time: Timestamp,
    /// When the holder last wrote the file.
    pub last_heartbeat: Timestamp,
}

/// Activity of a run. Its times are uptimes of the machine, which every process reads alike and no setting of the wall clock moves (D9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Activity {
    /// A codon runs.
    Codon {
        /// Id of the codon.
        codon_id: CodonId,
        /// Start of the codon, in milliseconds of uptime; suspensions since then are added to it.
        began_at_uptime_ms: u64,
    },
    /// The run waits before it retries a codon.
    Wait {
        /// Id of the codon.
        codon_id: CodonId,
        /// End of the wait, in milliseconds of uptime.
        ends_at_uptime_ms: u64,
    },
}

impl Activity {
    /// Returns a codon that starts at the uptime `began`.
    #[must_use]
    pub fn codon(codon_id: &CodonId, began: Duration) -> Self {
        Self::Codon {
            codon_id: codon_id.clone(),
            began_at_uptime_ms: millis(began),
        }
    }

    /// Returns a wait that ends at the uptime `ends`.
    #[must_use]
    pub fn wait(codon_id: &CodonId, ends: Duration) -> Self {
        Self::Wait {
            codon_id: codon_id.clone(),
            ends_at_uptime_ms: millis(ends),
        }
    }

    /// Excludes a suspension from the time of a codon, by a later start. A wait continues during a suspension and does not change.
    pub fn exclude_suspension(&mut self, suspended: Duration) {
        if let Self::Codon {
            began_at_uptime_ms, ..
        } = self
        {
            *began_at_uptime_ms = began_at_uptime_ms.saturating_add(millis(suspended));
        }
    }

    /// Returns how long the codon `id` has run at the uptime `up`; `None` if it does not run.
    #[must_use]
    pub fn elapsed(&self, id: &CodonId, up: Duration) -> Option<Duration> {
        match self {
            Self::Codon {
                codon_id,
                began_at_uptime_ms,
            } if codon_id == id => Some(up.saturating_sub(Duration::from_millis(*began_at_uptime_ms))),
            Self::Codon { .. } | Self::Wait { .. } => None,
        }
    }

    /// Returns the rest of the wait for a retry of the codon `id` at the uptime `up`; `None` without such a wait.
    #[must_use]
    pub fn remaining(&self, id: &CodonId, up: Duration) -> Option<Duration> {
        match self {
            Self::Wait {
                codon_id,
                ends_at_uptime_ms,
            } if codon_id == id => Some(Duration::from_millis(*ends_at_uptime_ms).saturating_sub(up)),
            Self::Codon { .. } | Self::Wait { .. } => None,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Facts that the system reports about the pid in a record and about the directory of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Current boot of the machine; `None` where the system does not report it.
    pub boot_id: Option<String>,
    /// When the process with this pid started, in clock ticks since boot; `None` if there is none, if it is a zombie, or if the system does not report it.
    pub start_ticks: Option<u64>,
    /// Whether a process with this pid exists and is no zombie.
    pub is_alive: bool,
    /// Name space of pids of this process; `None` where the system does not report it.
    pub pid_namespace: Option<String>,
    /// [Name](directory_name) of the execution directory; `None` where the system does not report it.
    pub directory: Option<String>,
    /// When the facts were read.
    pub at: Timestamp,
}

/// Time after the last heartbeat for which a process of another name space of pids counts as alive: three heartbeats.
const FOREIGN_TIMEOUT: Duration = Duration::from_secs(15);

impl ServerLockRecord {
    /// Returns how long the codon `id` has run at the uptime `up`, at most until the holder was suspended; `None` if it does not run.
    #[must_use]
    pub fn elapsed(&self, id: &CodonId, up: Duration) -> Option<Duration> {
        let until = match self.suspended_at_uptime_ms.map(Duration::from_millis) {
            Some(suspended_at) => up.min(suspended_at),
            None => up,
        };
        self.activity.as_ref()?.elapsed(id, until)
    }

    /// Sets the uptime at which the holder suspends itself; `None` once it has continued.
    pub fn set_suspended(&mut self, up: Option<Duration>) {
        self.suspended_at_uptime_ms = up.map(millis);
    }

    /// Returns the server's address for clients on this machine.
    #[must_use]
    pub fn reachable(&self) -> Option<SocketAddr> {
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        Some(SocketAddr::new(address, self.port?))
    }

    /// Whether the process that wrote the record is alive and works in the directory of the record. The pid may have been reused since, and the directory may
    /// be a copy (L2, L5).
    #[must_use]
    pub fn is_live(&self, facts: &ProcessFacts) -> bool {
        // No process survives a restart of the machine. An unknown boot proves nothing.
        let boots = self.boot_id.as_ref().zip(facts.boot_id.as_ref());
        if boots.is_some_and(|(written, current)| written != current) {
            return false;
        }
        // Before the checks of the process: a pid of another name space may be that of any process here, so only the heartbeat shows life.
        if self.is_foreign(facts) {
            return facts.at.since(self.last_heartbeat) <= FOREIGN_TIMEOUT;
        }
        // Before the check of the pid: the process of the original may live, but does not work in the copy.
        if self.is_copied(facts.directory.as_deref()) {
            return false;
        }
        match self.process_start_ticks {
            Some(ticks) => facts.start_ticks == Some(ticks),
            None => facts.is_alive,
        }
    }

    /// Whether the directory that the record is in, named `current`, is a copy of the one in which the record was written.
    #[must_use]
    pub fn is_copied(&self, current: Option<&str>) -> bool {
        let directories = self.directory.as_deref().zip(current);
        directories.is_some_and(|(written, found)| written != found)
    }

    /// Whether the pid is of another name space, as that of a container.
    fn is_foreign(&self, facts: &ProcessFacts) -> bool {
        let spaces = self.pid_namespace.as_ref().zip(facts.pid_namespace.as_ref());
        spaces.is_some_and(|(written, current)| written != current)
    }

    /// Returns the record as the file has it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a record holds numbers and texts only");
        bytes.push(b'\n');
        bytes
    }
}

/// Returns the unique name of a directory, of its inode `number` and the time since 1970 at which it was created. A move keeps both, a copy has others.
#[must_use]
pub fn directory_name(number: u64, born: Duration) -> String {
    format!("{number:x}-{:x}", born.as_nanos())
}

/// Returns when the process of a `/proc/<pid>/stat` line started, in clock ticks since boot; `None` if it [has ended](has_ended).
#[must_use]
pub fn start_ticks(stat: &str) -> Option<u64> {
    match has_ended(stat) {
        true => None,
        false => field(stat, StatField::StartTime)?.parse().ok(),
    }
}

/// Whether the process of a `/proc/<pid>/stat` line is a zombie: it has ended, and its parent has not reaped it, which may never happen. The first thread of
/// a process can end before the others and looks like a zombie then, so a process with several threads has not ended.
#[must_use]
pub fn has_ended(stat: &str) -> bool {
    let threads = || field(stat, StatField::Threads)?.parse::<u32>().ok();
    matches!(field(stat, StatField::State), Some("Z" | "X")) && threads().is_none_or(|threads| threads <= 1)
}

/// Whether the process of a `/proc/<pid>/stat` line was suspended, as by Ctrl+Z or `kill -STOP`.
#[must_use]
pub fn is_stopped(stat: &str) -> bool {
    field(stat, StatField::State) == Some("T")
}

/// Returns the parent of the process of a `/proc/<pid>/stat` line.
#[must_use]
pub fn parent_pid(stat: &str) -> Option<u32> {
    field(stat, StatField::Parent)?.parse().ok()
}

/// Field of a `/proc/<pid>/stat` line, with its number in `proc(5)`.
#[derive(Clone, Copy)]
enum StatField {
    State = 3,
    Parent = 4,
    Threads = 20,
    StartTime = 22,
}

/// Returns a field. The second field, the name of the program in parentheses, may contain spaces and parentheses, so fields are counted from the third one on,
/// after the last parenthesis.
fn field(stat: &str, field: StatField) -> Option<&str> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name
        .split_ascii_whitespace()
        .nth(field as usize - StatField::State as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000 5 1844";
        assert_eq!(start_ticks(stat), Some(987_654));
        assert_eq!(start_ticks("42"), None);
    }

    // covers: L2
    #[test]
    fn a_process_that_was_not_reaped_has_ended() {
        let stat = |state: &str, threads: u32| {
            format!(
                "42 (a) b) {state} 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 987654 1000 5 1844"
            )
        };
        for (state, threads, ticks) in [
            ("S", 1, Some(987_654)),
            ("Z", 1, None),
            ("X", 0, None),
            ("Z", 3, Some(987_654)),
        ] {
            let stat = stat(state, threads);
            assert_eq!(
                (start_ticks(&stat), has_ended(&stat)),
                (ticks, ticks.is_none()),
                "{stat}"
            );
        }
        assert!(!has_ended("42"));
        assert_eq!(
            ["S", "T", "t", "Z"].map(|state| is_stopped(&stat(state, 1))),
            [false, true, false, false]
        );
        assert_eq!([parent_pid(&stat("S", 1)), parent_pid("42")], [Some(1), None]);
    }

    // covers: L2
    #[test]
    fn a_reused_pid_is_not_the_process_that_wrote_the_record() {
        let record: ServerLockRecord = serde_json::from_str(
            r#"{"pid": 7, "processStartTicks": 100, "bootId": "today", "lockId": "x", "port": 4000,
            "startTime": "2025-01-04T12:00:00Z", "lastHeartbeat": "2025-01-04T12:00:00Z"}"#,
        )
        .unwrap();
        let facts = |boot: &str, start_ticks, is_alive| ProcessFacts {
            directory: Some("here".to_owned()),
            boot_id: Some(boot.to_owned()),
            start_ticks,
            is_alive,
            pid_namespace: Some("here".to_owned()),
            at: Timestamp::parse("2025-01-04T12:00:10Z").unwrap(),
        };
        assert!(record.is_live(&facts("today", Some(100), true)));
        assert!(!record.is_live(&facts("today", Some(101), true)));
        assert!(!record.is_live(&facts("today", None, false)));
        assert!(!record.is_live(&facts("tomorrow", Some(100), true)));
        let written_in = |directory: &str| ServerLockRecord {
            directory: Some(directory.to_owned()),
            ..record.clone()
        };
        let process = facts("today", Some(100), true);
        assert!(written_in("here").is_live(&process) && !written_in("elsewhere").is_live(&process));
        // The pid of a process in a container is another one here: its heartbeat counts.
        let of = |space: &str| ServerLockRecord {
            pid_namespace: Some(space.to_owned()),
            ..record.clone()
        };
        let none = facts("today", None, false);
        assert!(!of("here").is_live(&none) && of("there").is_live(&none));
        let later = ProcessFacts {
            at: Timestamp::parse("2025-01-04T12:00:16Z").unwrap(),
            ..none
        };
        assert!(!of("there").is_live(&later));
        let without_ticks = ServerLockRecord {
            process_start_ticks: None,
            ..record
        };
        assert!(without_ticks.is_live(&facts("today", Some(101), true)));
        assert!(!without_ticks.is_live(&facts("today", None, false)));
    }
}
