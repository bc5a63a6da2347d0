//! Looking at the workspace without recording it: which files a checkpoint would hold now, and what tells whether they changed.

use super::Patterns;
use super::select::{FileSelection, SelectedFile, select};
use super::store::{CheckpointError, SurveyedFile};
use super::workspace::{Contents, Workspace};

/// The files that match and are not ignored, in the order of the walk.
pub(super) fn survey(
    workspace: &Workspace,
    patterns: &Patterns,
    most_bytes: u64,
) -> Result<Vec<SurveyedFile>, CheckpointError> {
    let selection = FileSelection {
        patterns,
        tracked: &[],
        in_the_way: false,
        most_bytes,
    };
    let selected = select(workspace, &selection).map_err(|error| CheckpointError::Workspace {
        path: error.path,
        source: error.source,
    })?;
    Ok(matching(&selected.files))
}

/// Those of the files of a walk that match.
pub(super) fn matching(files: &[SelectedFile]) -> Vec<SurveyedFile> {
    let matching = files.iter().filter(|found| found.matches);
    matching
        .map(|found| SurveyedFile {
            path: found.path.clone(),
            stat: found.stat,
        })
        .collect()
}

/// The content of a file; `None` when it is gone, unreadable or larger than `most` bytes.
pub(super) fn content(workspace: &Workspace, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
    if file.size() > most {
        return None;
    }
    match workspace.read(&file.path) {
        Ok(Contents::Read { read, .. }) => Some(read),
        Ok(Contents::Gone | Contents::Unreadable) | Err(_) => None,
    }
}
