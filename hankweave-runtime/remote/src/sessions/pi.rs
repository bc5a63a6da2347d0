//! Session files of pi: `sessions/--FOLDER--/TIME_ID.jsonl`, where FOLDER is the folder in which pi works. The first line of
//! the file names that folder too, and pi continues only there. So a record has the file without a folder, and each machine
//! fills in its own.

use std::path::{Path, PathBuf};

use hankweave_runtime::world::World;
use serde_json::{Value, json};

use super::{AgentFolder, MAX_BYTES, SessionFile, home, is_plain_name, session_files};
use crate::contents::{FileSource, RecordFile};
use crate::manifest::SESSIONS;

/// Longest name of a folder, in bytes.
const LONGEST_NAME: usize = 255;

/// Returns all session files.
pub(super) fn files(world: &World, work_dir: &Path) -> Vec<SessionFile> {
    sessions(world, work_dir).map_or_else(Vec::new, |folder| session_files(world, &folder))
}

/// Adds the session file of this session, without its folder.
pub(super) fn collect(world: &World, files: &[SessionFile], session: &str, contents: &mut Vec<RecordFile>) {
    let end = format!("_{session}.jsonl");
    let Some(found) = files.iter().find(|found| found.name.ends_with(&end)) else {
        return;
    };
    let path = &found.path;
    let bytes = world.disk.read(path, MAX_BYTES).unwrap_or_default();
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.filter(|name| belongs_to(name, session));
    if let (Some(bytes), Some(name)) = (working_in(&bytes, ""), name) {
        contents.push(RecordFile {
            path: format!("{SESSIONS}/pi/{name}"),
            source: FileSource::Bytes(bytes),
        });
    }
}

/// Whether pi keeps the file for this session.
pub(super) fn belongs_to(file: &str, session: &str) -> bool {
    let end = format!("_{session}.jsonl");
    is_plain_name(file) && file.len() > end.len() && file.ends_with(&end)
}

/// Returns the path of a file for a run in `work_dir`.
pub(super) fn place(world: &World, work_dir: &Path, file: &str) -> Option<PathBuf> {
    let plain = |character: char| match character {
        '/' | '\\' | ':' => '-',
        character => character,
    };
    let folder: String = work_dir
        .to_str()?
        .trim_start_matches('/')
        .chars()
        .map(plain)
        .collect();
    let folder = format!("--{folder}--");
    (folder.len() <= LONGEST_NAME).then_some(sessions(world, work_dir)?.join(folder).join(file))
}

/// Returns the session file with `work_dir` in the place of its folder; `None` when its first line is not that of a pi session.
pub(super) fn working_in(bytes: &[u8], work_dir: &str) -> Option<Vec<u8>> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (first, rest) = bytes.split_at(end);
    let first = std::str::from_utf8(first).ok()?;
    let header: Value = serde_json::from_str(first).ok()?;
    let known = header["cwd"].as_str().filter(|_| header["type"] == "session")?;
    let folder = |folder: &str| format!("\"cwd\":{}", json!(folder));
    let (before, after) = first.split_once(&folder(known))?;
    let text = format!("{before}{}{after}", folder(work_dir));
    Some([text.as_bytes(), rest].concat())
}

fn sessions(world: &World, work_dir: &Path) -> Option<PathBuf> {
    Some(home(world, work_dir, AgentFolder::PI)?.join("sessions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RUN-30
    #[test]
    fn a_file_of_pi_names_the_folder_of_each_machine_and_none_on_the_way() {
        let line = |folder: &str| {
            format!(
                "{{\"type\":\"session\",\"version\":3,\"id\":\"s-1\",\"cwd\":{folder}}}\n{{\"cwd\":\"/x\"}}\n"
            )
        };
        let here = line(r#""/home/a \"b\"""#);
        let travelling = working_in(here.as_bytes(), "").unwrap();
        assert_eq!(travelling, line("\"\"").as_bytes());
        let there = working_in(&travelling, "/srv/run").unwrap();
        assert_eq!(there, line("\"/srv/run\"").as_bytes());
        for other in [
            "",
            "{}\n",
            "x\n",
            "{\"type\":\"session\",\"cwd\":7}\n",
            "{\"type\":\"session\",\"cwd\":\"/x\"}",
        ] {
            assert_eq!(working_in(other.as_bytes(), "/srv"), None, "{other}");
        }
    }
}
