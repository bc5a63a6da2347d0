//! How a client finds a live run: which files and variables tell where its server is and what opens it.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{CodonId, RunId};
use crate::time::Timestamp;

/// The name of the state directory inside the execution directory.
pub const STATE_DIR: &str = ".hankweave";

/// The file in the state directory that says who works there: a [`ServerLockRecord`].
pub const LOCK_FILE: &str = "server.lock";

/// The file in the state directory with the token for everything.
pub const TOKEN_FILE: &str = "token";

/// The file in the state directory with the token for reading.
pub const READ_ONLY_TOKEN_FILE: &str = "token-readonly";

/// The variable that is used instead of [`TOKEN_FILE`].
pub const TOKEN_VARIABLE: &str = "HANKWEAVE_TOKEN";

/// The variable that is used instead of [`READ_ONLY_TOKEN_FILE`].
pub const READ_ONLY_TOKEN_VARIABLE: &str = "HANKWEAVE_READONLY_TOKEN";

/// Largest [`LOCK_FILE`] that is read, in bytes.
pub const MAX_LOCK_FILE_BYTES: u64 = 64 * 1024;

/// Largest token file that is read, in bytes.
pub const MAX_TOKEN_FILE_BYTES: u64 = 1_024;

/// Who works in an execution directory, as it stands in `server.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerLockRecord {
    /// The holder's process.
    pub pid: u32,
    /// When that process started, in clock ticks since boot; it tells a reused pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_start_ticks: Option<u64>,
    /// The boot that the pid and the ticks belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Name space of the pid, as a container has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<String>,
    /// [Name](directory_name) of the execution directory that the record was written in, which a copy does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Differs for each time the lock was taken.
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
    /// The run was asked to stop, and ends what still runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub stopping: bool,
    /// The holder asks a question in its terminal, before it does anything.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub asking: bool,
    /// Uptime of the machine at which the holder suspended itself, as by Ctrl+Z, until it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_at_uptime_ms: Option<u64>,
    /// When the lock was taken.
    pub start_time: Timestamp,
    /// When the holder last wrote the file.
    pub last_heartbeat: Timestamp,
}

/// Activity of a run, timed by the machine's uptime: another process can tell how long it has
/// taken or still takes, wherever the wall clock was set to meanwhile (D9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Activity {
    /// A codon is run.
    Codon {
        /// Which one.
        codon_id: CodonId,
        /// When it began.
        began_at_uptime_ms: u64,
    },
    /// A codon is run again after a wait.
    Wait {
        /// Which one.
        codon_id: CodonId,
        /// When the wait ends.
        ends_at_uptime_ms: u64,
    },
}

impl Activity {
    /// A codon that begins at this time.
    #[must_use]
    pub fn codon(codon_id: &CodonId, up: Duration) -> Self {
        Self::Codon {
            codon_id: codon_id.clone(),
            began_at_uptime_ms: millis(up),
        }
    }

    /// A wait that ends at this time.
    #[must_use]
    pub fn wait(codon_id: &CodonId, up: Duration) -> Self {
        Self::Wait {
            codon_id: codon_id.clone(),
            ends_at_uptime_ms: millis(up),
        }
    }

    /// Takes a suspension of the run out of the time of a codon; a wait passes meanwhile.
    pub fn take_out(&mut self, suspended: Duration) {
        if let Self::Codon {
            began_at_uptime_ms, ..
        } = self
        {
            *began_at_uptime_ms = began_at_uptime_ms.saturating_add(millis(suspended));
        }
    }

    /// For how long this codon has been run at the time `up`, if it is run.
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

    /// How long it still is at the time `up` until this codon is run again, if that is waited for.
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

/// Facts of the system about the pid in a record, and about the directory that the record lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The current boot of the machine; `None` where the system does not tell.
    pub boot_id: Option<String>,
    /// When the process with this pid started, in clock ticks since boot; `None` when there is none, when it has ended and was not reaped, or when the system
    /// does not tell.
    pub start_ticks: Option<u64>,
    /// Whether there is a process with this pid that has not ended.
    pub is_alive: bool,
    /// Name space of the pids that can be seen; `None` where the system does not tell.
    pub pid_namespace: Option<String>,
    /// [Name](directory_name) of the execution directory; `None` where the system does not tell.
    pub directory: Option<String>,
    /// When these facts were found.
    pub at: Timestamp,
}

/// How long a process of another name space of pids is known to live after its last heartbeat: three of them.
const HEARD: Duration = Duration::from_secs(15);

impl ServerLockRecord {
    /// Returns for how long this codon has been run at the time `up`, if it is run. While the holder is suspended that does not grow.
    #[must_use]
    pub fn elapsed(&self, id: &CodonId, up: Duration) -> Option<Duration> {
        let suspended = self.suspended_at_uptime_ms.map(Duration::from_millis);
        let up = suspended.map_or(up, |suspended| up.min(suspended));
        self.activity.as_ref()?.elapsed(id, up)
    }

    /// Notes that the holder suspends itself at this time, or that it has continued.
    pub fn set_suspended(&mut self, up: Option<Duration>) {
        self.suspended_at_uptime_ms = up.map(millis);
    }

    /// Returns the server's address for clients on this machine.
    #[must_use]
    pub fn reachable(&self) -> Option<SocketAddr> {
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        Some(SocketAddr::new(address, self.port?))
    }

    /// Whether the process that wrote the record lives and works where the record lies. `now` is what the system tells about its pid, which may be another's
    /// by now, and about the directory, which may be a copy (L2, L5).
    #[must_use]
    pub fn is_live(&self, now: &ProcessFacts) -> bool {
        let same_boot = match (&self.boot_id, &now.boot_id) {
            (Some(then), Some(now)) => then == now,
            _ => true,
        };
        let same_process = match self.process_start_ticks {
            // Its pid says nothing here, and its heartbeat all that there is.
            _ if self.is_foreign(now) => now.at.since(self.last_heartbeat) <= HEARD,
            _ if self.is_copied(now.directory.as_deref()) => false,
            Some(then) => now.start_ticks == Some(then),
            None => now.is_alive,
        };
        same_boot && same_process
    }

    /// Whether the record lies in another directory than the one it was written in, so that it says nothing about this one.
    #[must_use]
    pub fn is_copied(&self, lies_in: Option<&str>) -> bool {
        let directories = self.directory.as_deref().zip(lies_in);
        directories.is_some_and(|(written, found)| written != found)
    }

    /// Whether the process is in another name space of pids, as in a container, so that its pid says nothing.
    fn is_foreign(&self, now: &ProcessFacts) -> bool {
        let spaces = self.pid_namespace.as_ref().zip(now.pid_namespace.as_ref());
        spaces.is_some_and(|(own, seen)| own != seen)
    }

    /// The record as it is written.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a record holds numbers and texts only");
        bytes.push(b'\n');
        bytes
    }
}

/// Returns a name that no other directory has: its number and the time since 1970 at which it was made. A move keeps both, a copy neither.
#[must_use]
pub fn directory_name(number: u64, born: Duration) -> String {
    format!("{number:x}-{:x}", born.as_nanos())
}

/// Returns field 22 of a `/proc/<pid>/stat` line: when the process started, in clock ticks since boot. `None` for a process that [has ended](has_ended).
#[must_use]
pub fn start_ticks(stat: &str) -> Option<u64> {
    match has_ended(stat) {
        true => None,
        false => fields(stat)?.nth(19)?.parse().ok(),
    }
}

/// Whether a `/proc/<pid>/stat` line is that of a zombie: it has ended, and its parent, which may never do so, has not reaped it yet. While other threads of
/// a process run, its first one may be a zombie.
#[must_use]
pub fn has_ended(stat: &str) -> bool {
    let threads = || fields(stat)?.nth(17)?.parse::<u32>().ok();
    let state = fields(stat).and_then(|mut fields| fields.next());
    matches!(state, Some("Z" | "X")) && threads().is_none_or(|threads| threads <= 1)
}

/// Whether a `/proc/<pid>/stat` line is that of a process which was suspended, as by Ctrl+Z or `kill -STOP`.
#[must_use]
pub fn is_stopped(stat: &str) -> bool {
    fields(stat).and_then(|mut fields| fields.next()) == Some("T")
}

/// Returns the parent of the process of a `/proc/<pid>/stat` line.
#[must_use]
pub fn parent_pid(stat: &str) -> Option<u32> {
    fields(stat)?.nth(1)?.parse().ok()
}

/// The fields from the third on. The second one is the program's name in parentheses and may itself hold spaces and parentheses, so counting begins after
/// the last one.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(after_name.split_ascii_whitespace())
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
        // In a container it has another pid, and lives as long as it is heard of.
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
