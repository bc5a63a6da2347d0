//! Surveys of the workspace that record nothing: the files that a checkpoint would hold now, and the stats that show
//! whether they changed.

use super::Patterns;
use super::select::{FileSelection, SelectedFile, select};
use super::store::{CheckpointError, SurveyedFile, WorkspaceSurvey};
use super::workspace::{Contents, Workspace};

/// The files that match and are not ignored, in the order of the walk.
pub(super) fn survey(
    workspace: &Workspace,
    patterns: &Patterns,
    most_bytes: u64,
) -> Result<Vec<SurveyedFile>, CheckpointError> {
    Ok(matching(&walk(workspace, patterns, most_bytes, false)?))
}

/// All files of the workspace: those that match and are not ignored as `listed`, the others as `unlisted`.
pub(super) fn survey_all(
    workspace: &Workspace,
    patterns: &Patterns,
    most_bytes: u64,
) -> Result<WorkspaceSurvey, CheckpointError> {
    let files = walk(workspace, patterns, most_bytes, true)?;
    let others = files.iter().filter(|found| !found.matches);
    Ok(WorkspaceSurvey {
        unlisted: others.map(surveyed).collect(),
        listed: matching(&files),
    })
}

fn walk(
    workspace: &Workspace,
    patterns: &Patterns,
    most_bytes: u64,
    unlisted: bool,
) -> Result<Vec<SelectedFile>, CheckpointError> {
    let selection = FileSelection {
        patterns,
        tracked: &[],
        in_the_way: false,
        unlisted,
        most_bytes,
    };
    let selected = select(workspace, &selection).map_err(|error| CheckpointError::Workspace {
        path: error.path,
        source: error.source,
    })?;
    Ok(selected.files)
}

/// Returns the matching files of a walk.
pub(super) fn matching(files: &[SelectedFile]) -> Vec<SurveyedFile> {
    let matching = files.iter().filter(|found| found.matches);
    matching.map(surveyed).collect()
}

fn surveyed(found: &SelectedFile) -> SurveyedFile {
    SurveyedFile {
        path: found.path.clone(),
        is_ignored: found.is_ignored,
        stat: found.stat,
    }
}

/// Returns the content of a file; `None` if the file no longer exists, is unreadable or is larger than `most` bytes.
pub(super) fn content(workspace: &Workspace, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
    if file.size() > most {
        return None;
    }
    match workspace.read(&file.path) {
        Ok(Contents::Read { read, .. }) => Some(read),
        Ok(Contents::Gone | Contents::Unreadable) | Err(_) => None,
    }
}
