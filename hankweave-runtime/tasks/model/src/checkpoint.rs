//! Checkpoints of a task: their names, their manifests, and what a restore writes (TASK-18, TASK-19).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checksum::digest;
use crate::error::TaskError;
use crate::logs::{LogEntry, LogLevel, lines};
use crate::state::TaskState;
use crate::task::TaskStatus;

const STATE: &str = "state.json";
const LOGS: &str = "logs.jsonl";

/// Name of a checkpoint: `checkpoint_` and the time at which it was made, in milliseconds, with at most 16 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(u64);

impl CheckpointId {
    /// Parses a name that a user or a folder gives.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::InvalidCheckpointId`].
    pub fn parse(text: &str) -> Result<Self, TaskError> {
        let digits = text.strip_prefix("checkpoint_");
        let digits =
            digits.filter(|digits| digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        let id = digits.and_then(|digits| digits.parse().ok()).map(Self);
        // A name with leading zeros would lead to another folder than the one it was read from.
        id.filter(|id| id.to_string() == text)
            .ok_or_else(|| TaskError::InvalidCheckpointId(text.to_owned()))
    }

    /// Returns the milliseconds in the name.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0
    }

    /// Returns the name of a checkpoint made now. It is later than `newest`, even if the clock was set back.
    #[must_use]
    pub fn next(now: Timestamp, newest: Option<Self>) -> Self {
        let now = u64::try_from(now.as_millis()).unwrap_or(0);
        Self(newest.map_or(now, |newest| now.max(newest.0 + 1)))
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint_{}", self.0)
    }
}

/// Manifest of a checkpoint, which is written after its other files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCheckpointManifest {
    /// Version of this format, 1.
    pub manifest_version: u32,
    /// Name of the checkpoint.
    pub id: String,
    /// Id of the task.
    pub task_id: String,
    /// Time at which the checkpoint was made.
    pub timestamp: Timestamp,
    /// Description, for people.
    pub description: String,
    /// Names of the other files in the checkpoint's folder.
    pub files: Vec<String>,
    /// SHA-256 of each file, in 64 lower-case hexadecimal digits.
    pub checksums: BTreeMap<String, String>,
    /// Version of the saved state, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_version: Option<u64>,
}

impl TaskCheckpointManifest {
    /// Returns the manifest for these files.
    #[must_use]
    pub fn of(
        id: CheckpointId,
        task_id: &str,
        made_at: Timestamp,
        description: Option<String>,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Self {
        let sums = files.iter().map(|(name, bytes)| (name.clone(), digest(bytes)));
        Self {
            manifest_version: 1,
            id: id.to_string(),
            task_id: task_id.to_owned(),
            timestamp: made_at,
            description: description.unwrap_or_else(|| format!("Checkpoint created at {made_at}")),
            files: files.keys().cloned().collect(),
            checksums: sums.collect(),
            state_version: None,
        }
    }

    /// Whether the manifest lists exactly these files, with these contents.
    #[must_use]
    pub fn is_of(&self, files: &BTreeMap<String, Vec<u8>>) -> bool {
        let sums = files.iter().map(|(name, bytes)| (name, digest(bytes)));
        sums.eq(self.checksums.iter().map(|(name, sum)| (name, sum.clone())))
    }

    /// Parses `manifest.json` from the folder of a checkpoint of this task.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::CheckpointCorrupt`] when it is unreadable or belongs to another checkpoint.
    pub fn read(id: CheckpointId, task_id: &str, bytes: &[u8]) -> Result<Self, TaskError> {
        let manifest: Option<Self> = serde_json::from_slice(bytes).ok();
        let fits = |manifest: &Self| {
            let listed: BTreeSet<&String> = manifest.files.iter().collect();
            manifest.manifest_version == 1
                && manifest.id == id.to_string()
                && manifest.task_id == task_id
                && listed.iter().copied().eq(manifest.checksums.keys())
        };
        manifest.filter(fits).ok_or_else(|| TaskError::CheckpointCorrupt {
            id: id.to_string(),
            file: "manifest.json".to_owned(),
        })
    }
}

/// Checkpoint that is complete and undamaged.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskCheckpoint {
    /// Manifest.
    pub manifest: TaskCheckpointManifest,
    /// Saved state.json.
    state: TaskState,
    /// Saved logs.jsonl; empty if the checkpoint has none.
    logs: String,
}

impl TaskCheckpoint {
    /// Checks the files of a checkpoint's folder, by name: `manifest.json` and the others.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::CheckpointCorrupt`] with the first damaged file.
    pub fn check(
        id: CheckpointId,
        task_id: &str,
        manifest: &[u8],
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, TaskError> {
        let corrupt = |file: &str| TaskError::CheckpointCorrupt {
            id: id.to_string(),
            file: file.to_owned(),
        };
        let manifest = TaskCheckpointManifest::read(id, task_id, manifest)?;
        for (name, sum) in &manifest.checksums {
            if files.get(name).is_none_or(|bytes| digest(bytes) != *sum) {
                return Err(corrupt(name));
            }
        }
        let text = |name: &str| match manifest.checksums.contains_key(name) {
            true => std::str::from_utf8(&files[name]).map_err(|_| corrupt(name)),
            false => Ok(""),
        };
        let task = TaskId::new(task_id).map_err(|_| corrupt("manifest.json"))?;
        let state = TaskState::read(text(STATE)?.as_bytes(), &task).map_err(|_| corrupt(STATE))?;
        let logs = text(LOGS)?.to_owned();
        Ok(Self {
            manifest,
            state,
            logs,
        })
    }

    /// Returns the saved state.
    #[must_use]
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// Returns the effect of a restore: the saved data, and the saved log lines that `live_log` lacks. `status` and `version` are those of the task
    /// in the registry, and `live_log` is its log. A second restore only adds a second note (TASK-19).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StateSaveFailed`] when the note is no JSON.
    pub fn restore(
        &self,
        status: TaskStatus,
        version: u64,
        live_log: &str,
        now: Timestamp,
    ) -> Result<Restored, TaskError> {
        let mut state = self.state.clone();
        (state.status, state.version, state.last_updated) = (status, Some(version + 1), now);
        let note = LogEntry {
            timestamp: now,
            level: LogLevel::Info,
            message: "Checkpoint restored".to_owned(),
            data: Some(json!({"checkpointId": self.manifest.id})),
            seq: None,
        };
        let note = lines(&[note], false).map_err(|_| TaskError::StateSaveFailed("a log line is no JSON"))?;
        let is_torn = !live_log.is_empty() && !live_log.ends_with('\n');
        let separator = if is_torn { "\n" } else { "" };
        Ok(Restored {
            state,
            log: format!("{separator}{}{note}", missing_lines(&self.logs, live_log)),
        })
    }
}

/// Effect of a restore.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Restored {
    /// The new state.
    pub state: TaskState,
    /// Text to append to logs.jsonl.
    pub log: String,
}

/// Returns the lines of `saved` that `live` lacks, in order, each as often as it is missing.
fn missing_lines(saved: &str, live: &str) -> String {
    let mut live_counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in live.lines() {
        *live_counts.entry(line).or_default() += 1;
    }
    let mut missing = String::new();
    for line in saved.lines() {
        match live_counts.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => {
                missing.push_str(line);
                missing.push('\n');
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::checksum::seal;

    const TASK: &str = "report-7";

    fn files() -> BTreeMap<String, Vec<u8>> {
        let state = json!({"taskId": TASK, "status": "running", "data": {"pages": 3}, "version": 4, "other": true, "lastUpdated": "2026-02-03T09:15:00.250Z"});
        let mut state = state.as_object().unwrap().clone();
        seal(&mut state).unwrap();
        let logs = b"{\"a\":1}\n{\"b\":2}\n{\"a\":1}\n".to_vec();
        BTreeMap::from([
            (STATE.to_owned(), serde_json::to_vec_pretty(&state).unwrap()),
            (LOGS.to_owned(), logs),
        ])
    }

    fn id() -> CheckpointId {
        CheckpointId::parse("checkpoint_1770110100250").unwrap()
    }

    fn manifest(files: &BTreeMap<String, Vec<u8>>) -> Value {
        let manifest = TaskCheckpointManifest::of(id(), TASK, Timestamp::from_millis(0), None, files);
        serde_json::to_value(manifest).unwrap()
    }

    fn check(manifest: &Value, files: &BTreeMap<String, Vec<u8>>) -> Result<TaskCheckpoint, TaskError> {
        TaskCheckpoint::check(id(), TASK, manifest.to_string().as_bytes(), files)
    }

    // covers: TASK-18
    #[test]
    fn names_are_milliseconds_and_never_come_twice() {
        for wrong in [
            "checkpoint_",
            "checkpoint_x",
            "checkpoint_12345678901234567",
            "../checkpoint_1",
            "checkpoint_007",
            "Checkpoint_1",
            "checkpoint_+1",
        ] {
            assert_eq!(
                CheckpointId::parse(wrong).unwrap_err().code(),
                "INVALID_CHECKPOINT_ID",
                "{wrong}"
            );
        }
        let (now, earlier) = (Timestamp::from_millis(1_000), Timestamp::from_millis(10));
        let first = CheckpointId::next(now, None);
        assert_eq!(first.to_string(), "checkpoint_1000");
        assert_eq!(
            CheckpointId::next(now, Some(first)).to_string(),
            "checkpoint_1001"
        );
        assert_eq!(
            CheckpointId::next(earlier, Some(first)).to_string(),
            "checkpoint_1001"
        );
    }

    // covers: TASK-18
    #[test]
    fn what_is_missing_or_spoiled_is_named() {
        let whole = files();
        assert!(check(&manifest(&whole), &whole).is_ok());
        let named = |manifest: &Value, files: &BTreeMap<String, Vec<u8>>| match check(manifest, files) {
            Err(TaskError::CheckpointCorrupt { file, .. }) => file,
            other => panic!("{other:?}"),
        };
        for name in [STATE, LOGS] {
            let mut spoiled = whole.clone();
            spoiled.get_mut(name).unwrap().push(b' ');
            assert_eq!(named(&manifest(&whole), &spoiled), name);
            spoiled.remove(name);
            assert_eq!(named(&manifest(&whole), &spoiled), name);
        }
        for (key, value) in [
            ("taskId", json!("other")),
            ("id", json!("checkpoint_1")),
            ("manifestVersion", json!(2)),
            ("files", json!(["state.json"])),
            ("checksums", json!({})),
        ] {
            let mut wrong = manifest(&whole);
            wrong[key] = value;
            assert_eq!(named(&wrong, &whole), "manifest.json", "{key}");
        }
        // The checksum inside the file fits, but the manifest's does not.
        let mut forged = whole.clone();
        let text = String::from_utf8(forged[STATE].clone())
            .unwrap()
            .replace('3', "4");
        forged.insert(STATE.to_owned(), text.into_bytes());
        assert_eq!(named(&manifest(&forged), &forged), STATE);
        let mut without = whole.clone();
        without.remove(STATE);
        assert_eq!(named(&manifest(&without), &without), STATE);
    }

    // covers: TASK-19
    #[test]
    fn data_come_back_and_a_second_restore_adds_only_a_note() {
        let whole = files();
        let checkpoint = check(&manifest(&whole), &whole).unwrap();
        let live = "{\"b\":2}\n{\"c\":3}";
        let restored = checkpoint
            .restore(TaskStatus::Failed, 9, live, Timestamp::from_millis(0))
            .unwrap();
        let state: Value = serde_json::from_str(&restored.state.text().unwrap()).unwrap();
        assert_eq!(
            (
                &state["data"],
                &state["status"],
                &state["version"],
                &state["other"]
            ),
            (&json!({"pages": 3}), &json!("failed"), &json!(10), &json!(true))
        );
        let note = "{\"timestamp\":\"1970-01-01T00:00:00.000Z\",\"level\":\"info\",\"message\":\"Checkpoint restored\",\"data\":{\"checkpointId\":\"checkpoint_1770110100250\"}}\n";
        assert_eq!(restored.log, format!("\n{{\"a\":1}}\n{{\"a\":1}}\n{note}"));
        let twice = format!("{live}{}", restored.log);
        let again = checkpoint
            .restore(TaskStatus::Failed, 10, &twice, Timestamp::from_millis(0))
            .unwrap();
        assert_eq!(again.log, note);
    }
}
