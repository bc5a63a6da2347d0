//! Notices for the user about what was repaired, moved aside or closed to others when the records were opened.

use hankweave_core::document::StateProblem;
use hankweave_core::state::StateSource;

use super::records::OpenedRecords;
use crate::checkpoint::OpenReport;
use crate::state_manager::LoadedState;

impl OpenedRecords {
    /// Returns the notices: about the directory, then about the state, then about the checkpoints.
    pub(super) fn notices(&self) -> Vec<String> {
        let mut notices: Vec<String> = self.lock.put_back_notice().into_iter().collect();
        notices.extend(self.set_aside.iter().cloned());
        notices.extend(self.lock.permissions_notice());
        notices.extend(of_the_state(&self.loaded));
        notices.extend(of_the_repository(&self.report));
        notices
    }
}

fn of_the_state(loaded: &LoadedState) -> Vec<String> {
    let mut notices = Vec::new();
    match loaded.source {
        StateSource::Primary => {}
        StateSource::Backup => notices.push("state.json could not be used; the backup was loaded".to_owned()),
        StateSource::Log => notices.push("state.json was rebuilt from the recorded events".to_owned()),
        StateSource::Fresh if loaded.history_was_reset => {
            notices.push("the recorded history could not be read; it starts again".to_owned());
        }
        StateSource::Fresh => {}
    }
    let problem = |problem: &StateProblem| format!("state.json: {problem}");
    notices.extend(loaded.primary_problems.iter().map(problem));
    notices.extend(
        loaded
            .quarantined
            .iter()
            .map(|path| format!("the damaged file is kept as {}", path.display())),
    );
    notices
}

fn of_the_repository(report: &OpenReport) -> Vec<String> {
    let moved = report.moved_aside.iter().map(|path| {
        format!(
            "the checkpoint repository could not be read and is kept as {}; its checkpoints are out of reach",
            path.display()
        )
    });
    let repaired = "the checkpoint repository had lost its first commit and has a new one; checkpoints that are whole are within reach";
    let repaired = report.mended.then(|| repaired.to_owned());
    let set_aside = report.set_aside.iter();
    let set_aside = set_aside.map(|(what, kept)| format!("{what}; it is kept as {}", kept.display()));
    moved.chain(repaired).chain(set_aside).collect()
}
