//! Manifest of a record: the file in each record that lists its files, branches and sessions, and the rules for them (RUN-29).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hankweave_core::hank::FILE_NAMES;
use hankweave_core::hank::reserved::{check_written, repository_among};
use hankweave_core::id::{CheckpointSha, SessionId};
use hankweave_runtime::{GivenOption, OptionScope};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::contents::{PIECE, piece_path};
use crate::error::RemoteError;
use crate::execution::RemoteExecution;

/// Path of the manifest in the tree.
pub(crate) const FILE: &str = "manifest.json";

/// Version of the format of a record; no other is written or read.
pub const FORMAT: u64 = 1;

/// Folder of the state directory's files in a record.
pub(crate) const STATE: &str = "state";

/// Folder of the hank's files, if the hank is in the execution directory.
pub(crate) const HANK: &str = "hank";

/// Folder of the agents' own session files.
pub(crate) const SESSIONS: &str = "sessions";

/// Manifest of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordManifest {
    pub(crate) format: u64,
    pub(crate) execution: RemoteExecution,
    /// Fencing token of the task under which the record was pushed; 0 for a push by hand.
    pub(crate) token: u64,
    /// Number of records before this one.
    pub(crate) number: u64,
    /// Last event number in the journal.
    pub(crate) last_event: u64,
    /// File of the hank, relative to the execution directory; `None` if it is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hank: Option<String>,
    /// Remaining facts about the invocation of the run.
    pub(crate) meta: ExecutionMeta,
    /// Checkpoint with the files that the next run finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<CheckpointSha>,
    /// Branches of the checkpoints: name and newest commit.
    pub(crate) branches: BTreeMap<String, String>,
    /// Files of the record: path and length in bytes.
    pub(crate) files: BTreeMap<String, u64>,
    /// Sessions in the record.
    pub(crate) sessions: Vec<SessionId>,
    /// Sessions that are not in the record, because hankweave does not know where their agent keeps them.
    pub(crate) left_behind: Vec<SessionId>,
}

/// Contents of execution-meta.json that another machine may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExecutionMeta {
    /// Path of the hank, if it is not in the execution directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hank_path: Option<String>,
    /// Options of the run that start no program, reach no address and name no path (RUN-33).
    pub(crate) options: Vec<Value>,
}

impl ExecutionMeta {
    /// Returns the part of `file`, an execution-meta.json, that another machine may use. `has_hank`: the record has the hank, so its
    /// path on this machine is left out.
    pub(crate) fn of(file: &[u8], has_hank: bool) -> Self {
        let file: Value = serde_json::from_slice(file).unwrap_or_default();
        let options = file["invocation"]["options"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let hank_path = file["hankPath"].as_str().filter(|_| !has_hank);
        Self {
            hank_path: hank_path.map(str::to_owned),
            options: harmless(&options),
        }
    }

    /// Returns the contents of execution-meta.json for a run in `root`, whose hank is at `hank` in there; `None` when no hank is known.
    pub(crate) fn file(&self, root: &Path, hank: Option<&str>) -> Option<Value> {
        let path = match hank {
            Some(hank) => root.join(hank),
            None => PathBuf::from(self.hank_path.as_ref()?),
        };
        let mut file = json!({"hankPath": path});
        if let Some(hank) = hank {
            let place = place_of(hank);
            file["invocation"] = json!({"folder": root, "hank": place, "options": harmless(&self.options)});
            if place != "." {
                file["invocation"]["execution"] = json!(root);
            }
        }
        Some(file)
    }
}

/// Returns the options that the hint for continuing the run may repeat on another machine (RUN-33).
fn harmless(options: &[Value]) -> Vec<Value> {
    let is_harmless = |option: &&Value| {
        let given = GivenOption::deserialize(*option);
        given.is_ok_and(|given| given.scope() == OptionScope::AnyMachine)
    };
    options.iter().filter(is_harmless).cloned().collect()
}

/// Returns the argument that names a hank on a command line: its folder, if the file has a usual name.
fn place_of(hank: &str) -> &str {
    match hank.rsplit_once('/') {
        Some((folder, file)) if FILE_NAMES.contains(&file) => folder,
        None if FILE_NAMES.contains(&hank) => ".",
        _ => hank,
    }
}

impl RecordManifest {
    /// Parses a manifest that comes from another machine.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, RemoteError> {
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        let damaged = |error: serde_json::Error| RemoteError::corrupt(format!("{FILE}: {error}"));
        let Format { format } = serde_json::from_slice(bytes).map_err(damaged)?;
        if format != FORMAT {
            return Err(RemoteError::Format { found: format });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Returns all pieces, in order: the file, and the path of the piece in the tree of the record.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&str, String)> {
        self.files.iter().flat_map(|(file, length)| {
            let numbers = 0..length.div_ceil(PIECE);
            numbers.map(move |number| (file.as_str(), piece_path(file, number)))
        })
    }

    /// Whether both manifests describe one history, whoever pushed them. Safety checkpoints are ignored.
    pub(crate) fn is_same_history_as(&self, other: &Self) -> bool {
        let is_safety = |name: &String| name.starts_with("recovery/");
        let branches = |manifest: &Self| {
            let branches = manifest.branches.clone().into_iter();
            branches.filter(|(name, _)| !is_safety(name)).collect()
        };
        let history_of = |manifest: &Self| Self {
            token: 0,
            number: 0,
            branches: branches(manifest),
            ..manifest.clone()
        };
        history_of(self) == history_of(other)
    }

    /// Checks the paths and names in the manifest.
    fn check(&self) -> Result<(), RemoteError> {
        for path in self.files.keys() {
            if !is_allowed(path) {
                return Err(RemoteError::corrupt(format!(
                    "the file `{}`",
                    path.escape_debug()
                )));
            }
        }
        self.check_hank()?;
        let is_branch = |name: &String| name.bytes().all(|byte| byte.is_ascii_graphic());
        let shas = self.branches.values().map(String::as_str);
        let shas = shas.chain(self.checkpoint.iter().map(CheckpointSha::as_str));
        match self.branches.keys().all(is_branch) && shas.clone().all(is_sha) {
            true => Ok(()),
            false => Err(RemoteError::corrupt("the names of its checkpoints")),
        }
    }
}

impl RecordManifest {
    /// Checks the path of the hank, and that the hank's files would make no folder a git repository.
    fn check_hank(&self) -> Result<(), RemoteError> {
        let files = self
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(HANK)?.strip_prefix('/'));
        if let Some(folder) = repository_among(files.map(str::as_bytes)) {
            let folder = String::from_utf8_lossy(folder);
            return Err(RemoteError::corrupt(format!(
                "it brings a git repository at `{}`",
                folder.escape_debug()
            )));
        }
        let is_beneath = |hank: &String| is_allowed(&format!("{HANK}/{hank}"));
        match self.hank.as_ref().is_none_or(is_beneath) {
            true => Ok(()),
            false => Err(RemoteError::corrupt("the place of its hank")),
        }
    }
}

/// Whether this is the full name of a commit.
pub(crate) fn is_sha(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether an entry of the state directory belongs to one machine alone, such as locks, tokens and unfinished work, or
/// reaches others in another way, as the checkpoints do. No version has ever put such an entry into a record.
fn is_of_this_machine(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "execution-meta.json",
        "remote.json",
        "tmp",
        "logs",
        "token",
        "token-readonly",
        "port",
        "server.lock",
        "remote",
        "aftermath.json",
        "sessions-elsewhere.json",
    ];
    // Checkpoint repositories, also those that were moved aside; the backup and other copies of state.json; hidden files.
    let has_local_start = ["checkpoints", "state.json.", "."]
        .iter()
        .any(|begin| name.starts_with(begin));
    has_local_start || NAMES.contains(&name) || name.ends_with(".tmp")
}

/// Whether an entry of the state directory, or a path inside one, goes into a record: only the history of runs does.
pub(crate) fn is_of_a_record(path: &str) -> bool {
    const NAMES: [&str; 9] = [
        "state.json",
        "state.log",
        "events",
        "runs",
        "outputs",
        "sentinels",
        "data.json",
        "archive-manifest.json",
        // Sessions of the scripted agent; all other entries of `tmp` belong to this machine.
        "tmp/scripted-sessions",
    ];
    let is_beneath = |name: &&str| {
        let rest = path.strip_prefix(*name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    NAMES.iter().any(is_beneath)
}

/// Whether a record may hold a file at this path: it must be in one of the three folders, and no file that git itself reads.
fn is_allowed(path: &str) -> bool {
    if check_written(path.as_bytes()).is_err() {
        return false;
    }
    let names: Vec<&str> = path.split('/').collect();
    let plain = |name: &&str| !matches!(*name, "" | "." | "..") && !name.contains(['\0', '\n']);
    let all_plain = names.iter().all(plain);
    match names.split_first() {
        Some((&STATE, [first, ..])) => {
            let is_session = names[1..].len() == 3 && names[1..3] == ["tmp", "scripted-sessions"];
            all_plain && (is_session || !is_of_this_machine(first))
        }
        Some((&HANK, [_, ..])) => all_plain,
        Some((&SESSIONS, [_, _, ..])) => all_plain,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HANK-70
    #[test]
    fn a_hank_under_a_usual_name_is_named_by_its_folder() {
        for (hank, place) in [
            ("hank.json", "."),
            ("hank.jsonc", "."),
            ("a/b/hank.jsonc", "a/b"),
            ("a/mine.json", "a/mine.json"),
            ("mine.json", "mine.json"),
        ] {
            assert_eq!(place_of(hank), place);
        }
    }

    // covers: RUN-29
    #[test]
    fn a_record_leads_to_its_three_places_and_nowhere_else() {
        for good in [
            "state/state.json",
            "state/events/000001.jsonl",
            "state/tmp/scripted-sessions/a.json",
            "hank/hank.json",
            "sessions/claude/s-1.jsonl",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "state.json",
            "state/../x",
            "state/token",
            "state/server.lock",
            "state/checkpoints/config",
            "state/remote/remote.json",
            "state/tmp/x",
            "state/tmp/scripted-sessions/a/b",
            "state//x",
            "hank/.git/config",
            "hank/sub/.git/config",
            "hank/.GIT/config",
            "hank/sub/git~1/config",
            "hank/sub/.git./config",
            "state/outputs/.git/config",
            "hank/.hankweave/token",
            "hank/a\nb",
            "sessions/x",
            "/etc/passwd",
            "manifest.json/000000",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    // covers: RUN-29
    #[test]
    fn a_manifest_of_others_is_told_from_a_damaged_one() {
        let other = RecordManifest::parse(br#"{"format": 2}"#).unwrap_err();
        assert!(matches!(other, RemoteError::Format { found: 2 }));
        for damaged in ["", "{", "{}", r#"{"format": 1}"#, "[]"] {
            let error = RecordManifest::parse(damaged.as_bytes()).unwrap_err();
            assert!(matches!(error, RemoteError::Corrupt { .. }), "{damaged}");
        }
    }
}
