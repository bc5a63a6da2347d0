//! Restores that do not reach their end, and what follows.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::thread::CodonPoint;

use super::commands::{Live, back, live};
use super::*;
use crate::checkpoint::{
    Checkpoint, CheckpointError, CheckpointRequest, CheckpointsBySha, Counts, HistoryError, InitialRequest,
    ObjectError, PathChange, Protection, RestoreError, RestorePlan, RestoreReport, RestoreRequest,
    SkipReason, SurveyedFile, TreePath,
};
use crate::runner::{AcceptedCommand, RollbackError, RollbackTarget, RunCommand, RunError, RunResult};
use crate::shutdown::Shutdown;
use hankweave_core::codon::CodonExecution;
use hankweave_core::run::RunStatus;
use hankweave_core::wire::IdleReason;

/// Checkpoints with which things go wrong.
#[derive(Debug)]
struct Troubled {
    store: Arc<dyn CheckpointStore>,
    /// 1: the next restore breaks off after it has changed files; 2: it refuses before; 3: the next
    /// checkpoint fails because of the workspace; 4: all of them do because of the disk.
    trouble: AtomicU8,
    /// The checkpoint that cannot be read any more.
    lost: OnceLock<CheckpointSha>,
}

impl Troubled {
    fn new(store: &Arc<dyn CheckpointStore>, trouble: u8) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            trouble: AtomicU8::new(trouble),
            lost: OnceLock::new(),
        })
    }
}

impl CheckpointStore for Troubled {
    fn initial(&self, request: &InitialRequest) -> Result<Checkpoint, CheckpointError> {
        self.store.initial(request)
    }
    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError> {
        let source = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        match self.trouble.load(Ordering::Relaxed) {
            3 => {
                self.trouble.store(0, Ordering::Relaxed);
                Err(CheckpointError::Workspace {
                    path: "done.txt".into(),
                    source: source(),
                })
            }
            4 => Err(CheckpointError::Store(ObjectError {
                action: "write an object",
                source: source().into(),
            })),
            _ => self.store.create(request),
        }
    }
    fn create_start(&self, request: &CheckpointRequest) -> Result<Option<Checkpoint>, CheckpointError> {
        self.store.create_start(request)
    }
    fn list(&self) -> Result<CheckpointsBySha, HistoryError> {
        self.store.list()
    }
    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        self.store.contains(sha)
    }
    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        self.store.verify(shas)
    }
    fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError> {
        self.store.files(sha)
    }
    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError> {
        self.store.diff(from, to)
    }
    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError> {
        self.store.plan_restore(request)
    }
    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError> {
        self.store.protect(request)
    }
    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError> {
        if let Some(sha) = self.lost.get().filter(|lost| **lost == request.target) {
            return Err(RestoreError::History(HistoryError::Unknown { sha: sha.clone() }));
        }
        let path = TreePath::new(b"done.txt").unwrap();
        match self.trouble.swap(0, Ordering::Relaxed) {
            1 => Err(RestoreError::Write {
                path,
                source: std::io::ErrorKind::StorageFull.into(),
            }),
            2 => Err(RestoreError::InTheWay {
                path,
                reason: SkipReason::Unreadable,
            }),
            _ => self.store.restore(request),
        }
    }
    fn survey(&self, patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError> {
        self.store.survey(patterns)
    }
    fn content(&self, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
        self.store.content(file, most)
    }
    fn progress(&self) -> Option<Counts> {
        self.store.progress()
    }
    fn prune(&self, keep: &[CheckpointSha]) -> Result<Vec<String>, HistoryError> {
        self.store.prune(keep)
    }
    fn clean(&self, gone: &BTreeSet<CheckpointSha>, keep: &[CheckpointSha]) -> Result<u64, HistoryError> {
        self.store.clean(gone, keep)
    }
    fn measure_clean(
        &self,
        gone: &BTreeSet<CheckpointSha>,
        keep: &[CheckpointSha],
    ) -> Result<u64, HistoryError> {
        self.store.measure_clean(gone, keep)
    }
}

async fn done(trouble: u8) -> Stage {
    troubled(trouble).await.0
}

/// A hank that is done, and its checkpoints.
async fn troubled(trouble: u8) -> (Stage, Arc<Troubled>) {
    let mut stage = Stage::new(&["one", "two"]);
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    let checkpoints = Troubled::new(&stage.checkpoints, trouble);
    stage.checkpoints = checkpoints.clone();
    (stage, checkpoints)
}

fn to_first() -> RollbackTarget {
    RollbackTarget::Codon("a".parse().unwrap(), CodonPoint::End)
}

// covers: G8 (the disk is full in the middle of a restore)
#[tokio::test]
async fn a_restore_that_broke_off_is_finished_by_the_next_start() {
    let stage = done(1).await;
    let hankweave = stage.open().await;
    let broken = hankweave.roll_back(&to_first()).await;
    assert!(
        matches!(broken, Err(RollbackError::Interrupted { .. })),
        "{broken:?}"
    );
    let pending = hankweave.state().pending_rollback.clone().unwrap();
    assert!(!pending.restored && stage.done() == "one\ntwo\n");
    let safety = pending.safety.unwrap();

    stage.write(&["one", "again"], &json!({}));
    hankweave.close().await.unwrap();
    let known = stage.checkpoints.list().unwrap();
    let recovery = |known: &CheckpointsBySha| known.values().filter(|it| it.kind() == "safety").count();
    assert!(known.contains_key(&safety) && recovery(&known) == 1);
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!((outcome.result, outcome.codons.len()), (RunResult::Completed, 1));
    assert_eq!(stage.done(), "one\nagain\n");
    assert_eq!(
        recovery(&stage.checkpoints.list().unwrap()),
        1,
        "the first is kept"
    );
}

/// A restore that broke off, and whose checkpoint was lost then: a run that only continues is refused.
async fn cut_off() -> Stage {
    let (stage, checkpoints) = troubled(1).await;
    let hankweave = stage.open().await;
    assert!(hankweave.roll_back(&to_first()).await.is_err());
    let pending = hankweave.state().pending_rollback.clone().unwrap();
    checkpoints.lost.set(pending.source.checkpoint_sha).unwrap();
    hankweave.close().await.unwrap();
    let refused = stage.open().await.run(Shutdown::new()).await;
    assert!(
        matches!(refused, Err(RunError::Rollback(RollbackError::CutOff { .. }))),
        "{refused:?}"
    );
    assert_eq!(stage.done(), "one\ntwo\n");
    stage
}

// covers: G8, G10, F21
#[tokio::test]
async fn whoever_begins_anew_leaves_a_restore_that_cannot_be_finished() {
    let mut stage = cut_off().await;
    stage.options.fresh = true;
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!((outcome.result, outcome.codons.len()), (RunResult::Completed, 2));
    assert_eq!(stage.done(), "one\ntwo\none\ntwo\n", "the files stay as they are");
    assert_eq!(stage.open().await.state().pending_rollback, None);
}

// covers: G8, G10, F21
#[tokio::test]
async fn another_way_back_takes_the_place_of_one_that_cannot_be_finished() {
    let stage = cut_off().await;
    std::fs::write(stage.work().join("done.txt"), "half").unwrap();
    let hankweave = stage.open().await;
    assert!(hankweave.roll_back(&to_first()).await.is_err());
    assert!(
        !hankweave.state().pending_rollback.clone().unwrap().restored,
        "still known"
    );
    let to_last = RollbackTarget::Codon("b".parse().unwrap(), CodonPoint::End);
    let rollback = hankweave.roll_back(&to_last).await.unwrap();
    assert!(rollback.safety.is_some() && hankweave.state().pending_rollback.clone().unwrap().restored);
    assert_eq!(stage.done(), "one\ntwo\n");
}

/// The user has to repair either the workspace or the disk, so the two failures have different results.
// covers: G5, RUN-11, F15
#[tokio::test]
async fn a_codon_without_its_checkpoint_has_failed_and_none_follows() {
    let id: CodonId = "a".parse().unwrap();
    for (trouble, result) in [(3, RunResult::Failed(id.clone())), (4, RunResult::Unsaved(id))] {
        let mut stage = Stage::new(&["one", "two"]);
        stage.checkpoints = Troubled::new(&stage.checkpoints, trouble);
        let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
        assert_eq!(outcome.result, result);
        assert_eq!((outcome.codons.len(), &*stage.done()), (1, "one\n"));
        let hankweave = stage.open().await;
        let state = hankweave.state();
        let CodonExecution::Failed(codon) = &*state.runs[0].codons[0] else {
            panic!("{state:?}");
        };
        let reason = codon.failure_reason.message.as_deref().unwrap();
        assert!(reason.starts_with("checkpoint failed: "), "{reason}");
        assert_eq!(state.runs[0].status, RunStatus::Failed);
    }
}

// covers: G9
#[tokio::test]
async fn no_file_is_taken_back_while_a_process_of_ours_lives() {
    let stage = done(1).await;
    let mut hankweave = stage.open().await;
    hankweave.opened.possession.survivors = 1;
    let refused = hankweave.roll_back(&to_first()).await;
    assert!(
        matches!(refused, Err(RollbackError::Survivors { count: 1 })),
        "{refused:?}"
    );
    assert_eq!(hankweave.state().pending_rollback, None);
    hankweave.opened.possession.survivors = 0;
    assert!(hankweave.roll_back(&to_first()).await.is_err());
    hankweave.opened.possession.survivors = 1;
    let unfinished = hankweave.run(Shutdown::new()).await;
    assert!(
        matches!(
            unfinished,
            Err(RunError::Rollback(RollbackError::Survivors { .. }))
        ),
        "{unfinished:?}"
    );
    assert_eq!(stage.done(), "one\ntwo\n");
}

#[tokio::test]
async fn a_restore_that_changed_nothing_is_given_up() {
    let stage = done(2).await;
    let hankweave = stage.open().await;
    assert!(hankweave.roll_back(&to_first()).await.is_err());
    assert_eq!(hankweave.state().pending_rollback, None);
    assert!(hankweave.roll_back(&to_first()).await.is_ok());
    assert!(hankweave.state().pending_rollback.clone().unwrap().restored);
    assert_eq!(stage.done(), "one\n");
}

/// A run in which every codon has ended, and that is still open.
async fn open_run(trouble: u8) -> (Stage, Live) {
    let mut stage = done(trouble).await;
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    live.idle(IdleReason::AllCodonsCompleted).await;
    (stage, live)
}

#[tokio::test]
async fn a_run_whose_files_stay_as_they_are_goes_on() {
    let (stage, mut live) = open_run(2).await;
    live.refused(back("a", true), "ROLLBACK_FAILED").await;
    live.idle(IdleReason::AllCodonsCompleted).await;
    let state = live.state();
    assert_eq!((state.runs.len(), state.runs[0].status), (2, RunStatus::Running));
    assert_eq!(state.pending_rollback, None);
    live.send(back("a", false)).await.unwrap();
    live.idle(IdleReason::RollbackCompleted).await;
    assert_eq!((live.state().runs.len(), &*stage.done()), (3, "one\n"));
    live.stop().await;
}

// The files from before a rollback can be restored like any others, and a waiting client learns that a
// rollback led there.
#[tokio::test]
async fn a_live_run_goes_back_to_its_beginning_and_forward_again() {
    let (stage, mut live) = open_run(0).await;
    let to = |sha: &CheckpointSha| RunCommand::RollBack {
        target: RollbackTarget::Checkpoint(sha.as_str().to_owned()),
        restart: false,
    };
    let initial = live.state().initial_checkpoint.clone().unwrap();
    let Ok(AcceptedCommand::RolledBack(back_there)) = live.send(to(&initial)).await else {
        panic!("there is a way back to {initial}");
    };
    live.idle(IdleReason::RollbackCompleted).await;
    assert_eq!(back_there.next.as_ref().map(CodonId::as_str), Some("a"));
    assert_eq!(stage.done(), "");
    live.send(to(&back_there.safety.unwrap())).await.unwrap();
    // Nothing is left that could start, and a rollback is why.
    live.idle(IdleReason::RollbackCompleted).await;
    assert_eq!(stage.done(), "one\ntwo\n");
    // Nothing starts by itself in this run, whatever the rollback asks for.
    live.send(back("a", true)).await.unwrap();
    live.idle(IdleReason::RollbackCompleted).await;
    live.stop().await;
}

// covers: G8
#[tokio::test]
async fn a_run_whose_restore_broke_off_ends_and_the_next_one_finishes_it() {
    let (stage, mut live) = open_run(1).await;
    live.refused(back("a", true), "ROLLBACK_FAILED").await;
    live.idle(IdleReason::RollbackCompleted).await;
    let state = live.state();
    assert_eq!(
        (state.runs.len(), state.runs[1].status),
        (3, RunStatus::Completed)
    );
    assert_eq!((state.pending_rollback.clone(), &*stage.done()), (None, "one\n"));
    live.stop().await;
}

// Changes of a person between the rollback and the next run are not undone a second time.
#[tokio::test]
async fn files_that_are_back_are_not_brought_back_again() {
    let stage = done(0).await;
    let hankweave = stage.open().await;
    hankweave.roll_back(&to_first()).await.unwrap();
    hankweave.close().await.unwrap();
    std::fs::write(stage.work().join("done.txt"), "edited\n").unwrap();
    stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(stage.done(), "edited\ntwo\n");
}
