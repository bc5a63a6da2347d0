//! Files of a task that another registry created.

use std::time::Duration;

use hankweave_task_model::registry::{NewTask, TaskRow};

use super::*;
use crate::layers::TaskLayers;

// covers: TASK-125
#[test]
fn files_of_another_registrys_task_are_refused_and_stay() {
    let stage = Stage::new();
    let layers = TaskLayers::new(World::real(), stage.folder.path());
    let now = World::real().clock.now();
    let created = |now| TaskRow::new(NewTask::new(TaskId::new(TASK).unwrap()), 0, now);
    let (row, line) = created(now);
    let (other, _) = created(now.after(Duration::from_millis(1)));
    let (own, others) = (layers.task_of(&row), layers.task_of(&other));
    // A folder whose log does not start with a creation, possibly of an older version, may be used by any task.
    others.update_state(Some(1), |_| {}).unwrap();
    assert_eq!(own.created().unwrap(), None);
    others.check_origin().unwrap();
    own.append_log(&[line]).unwrap();
    assert_eq!(own.created().unwrap(), Some(now));
    own.update_state(Some(2), |_| {}).unwrap();
    for refused in [
        others.update_state(Some(9), |_| {}).map(drop),
        others.load_state().map(drop),
        others.create_checkpoint(None).map(drop),
        others.remove(),
    ] {
        assert_eq!(refused.unwrap_err().code(), "FOLDER_TAKEN");
    }
    assert!(!others.has_completed_run());
    assert_eq!(own.load_state().unwrap().unwrap().fencing_token, Some(2));
}
