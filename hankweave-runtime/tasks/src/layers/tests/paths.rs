use std::os::unix::fs::symlink;

use super::*;
use crate::model::LogQuery;

// covers: TASK-51
#[test]
fn no_link_in_a_root_leads_out_of_it() {
    let stage = Stage::with_task();
    stage.files.create_checkpoint(None).unwrap();
    let elsewhere = stage.folder.path().join("elsewhere");
    for (name, target) in [
        (STATE, "file"),
        (LOGS, "file"),
        (DECISIONS, "file"),
        (CHECKPOINTS, "folder"),
    ] {
        std::fs::create_dir_all(elsewhere.join("folder")).unwrap();
        std::fs::write(elsewhere.join("file"), "secret").unwrap();
        std::fs::rename(stage.path(name), elsewhere.join(format!("real {name}"))).unwrap();
        symlink(elsewhere.join(target), stage.path(name)).unwrap();
        let answers = match name {
            STATE => vec![
                code(stage.files.load_state()),
                code(stage.files.update_state(Some(1), |_| {})),
            ],
            LOGS => vec![
                code(stage.files.load_log(&LogQuery::default())),
                code(stage.files.append_log(&[line(&stage.files, 1)])),
            ],
            DECISIONS => vec![
                code(stage.files.load_decisions()),
                code(stage.files.append_decision(&decision())),
            ],
            _ => vec![
                code(stage.files.checkpoints()),
                code(stage.files.create_checkpoint(None)),
            ],
        };
        assert!(
            answers
                .iter()
                .all(|code| ["STATE_LOAD_FAILED", "STATE_SAVE_FAILED"].contains(code)),
            "{name} {answers:?}"
        );
        std::fs::remove_file(stage.path(name)).unwrap();
        std::fs::rename(elsewhere.join(format!("real {name}")), stage.path(name)).unwrap();
    }
    let whole = stage.files.path().with_extension("moved");
    std::fs::rename(stage.files.path(), &whole).unwrap();
    symlink(&whole, stage.files.path()).unwrap();
    assert_eq!(code(stage.files.load_state()), "STATE_LOAD_FAILED");
    assert_eq!(
        code(stage.files.update_state(Some(1), |_| {})),
        "STATE_SAVE_FAILED"
    );
    stage.files.layers.sweep().unwrap();
    assert_eq!(std::fs::read_to_string(elsewhere.join("file")).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 2);
}
