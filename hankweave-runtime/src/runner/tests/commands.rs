//! Commands to a live run (WIRE-12, WIRE-13).

use std::collections::VecDeque;
use std::sync::Arc as Shared;

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::document::{
    ContinuationReason, ContinuationSource, HankweaveState, RunStatus, StartingConditions,
};
use hankweave_core::thread::CodonPoint;
use hankweave_core::wire::{Event, IdleReason, JournalEntry};
use tokio::task::JoinHandle;

use super::*;
use crate::options::Recovery;
use crate::runner::{
    AcceptedCommand, Commander, Refusal, RollbackTarget, RunCommand, RunError, RunOutcome, RunResult,
};
use crate::shutdown::{Shutdown, StopCause};
use crate::state_manager::{Delivery, StateManager, Subscription};

/// A run in the background.
pub(super) struct Live {
    commander: Commander,
    events: Subscription,
    /// Entries that came with the event that was waited for last.
    arrived: VecDeque<JournalEntry>,
    manager: StateManager,
    shutdown: Shutdown,
    task: JoinHandle<Result<RunOutcome, RunError>>,
}

pub(super) async fn live(stage: &Stage) -> Live {
    let hankweave = stage.open().await;
    let shutdown = Shutdown::new();
    Live {
        commander: hankweave.commander(),
        events: hankweave.subscribe(),
        arrived: VecDeque::new(),
        manager: hankweave.opened.possession.manager.clone(),
        shutdown: shutdown.clone(),
        task: tokio::spawn(hankweave.run(shutdown)),
    }
}

impl Live {
    /// Waits for an event.
    async fn until(&mut self, wanted: impl Fn(&Event) -> bool) {
        loop {
            while let Some(entry) = self.arrived.pop_front() {
                if wanted(&entry.event) {
                    return;
                }
            }
            match self.events.next().await.unwrap() {
                Some(Delivery::Events(events)) => self.arrived.extend(events.entries()),
                Some(Delivery::Lagged) => {}
                None => panic!("the run ended first"),
            }
        }
    }

    /// Waits for an event and returns it.
    pub(super) async fn event(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        let found = std::cell::RefCell::new(None);
        self.until(|event| {
            let is_wanted = wanted(event);
            if is_wanted {
                found.replace(Some(event.clone()));
            }
            is_wanted
        })
        .await;
        found.into_inner().unwrap()
    }

    pub(super) async fn started(&mut self, id: &str) {
        self.until(|event| matches!(event, Event::CodonStarted { codon_id, .. } if codon_id.as_str() == id))
            .await;
    }

    pub(super) async fn idle(&mut self, wanted: IdleReason) {
        self.until(|event| matches!(event, Event::ServerIdle { reason, .. } if *reason == wanted))
            .await;
    }

    pub(super) async fn send(&self, command: RunCommand) -> Result<AcceptedCommand, Refusal> {
        self.commander.send(command).await
    }

    /// The command is refused with this code.
    pub(super) async fn refused(&self, command: RunCommand, code: &str) {
        let refusal = self.send(command).await.unwrap_err();
        assert_eq!(refusal.code(), code, "{refusal}");
        assert!(!refusal.hint().is_empty());
    }

    pub(super) fn state(&self) -> Shared<HankweaveState> {
        self.manager.snapshot()
    }

    pub(super) fn manager(&self) -> StateManager {
        self.manager.clone()
    }

    pub(super) async fn stop(self) -> RunOutcome {
        self.shutdown.request(StopCause::Request);
        self.end().await
    }

    pub(super) async fn end(self) -> RunOutcome {
        self.task.await.unwrap().unwrap()
    }
}

fn to(id: &str) -> RollbackTarget {
    RollbackTarget::Codon(id.parse().unwrap(), CodonPoint::End)
}

pub(super) fn back(id: &str, restart: bool) -> RunCommand {
    RunCommand::RollBack {
        target: to(id),
        restart,
    }
}

fn force() -> RunCommand {
    RunCommand::ForceStop { reason: None }
}

/// The statuses of the newest run's codons, as `a completed`.
fn codons(state: &HankweaveState) -> Vec<String> {
    let codons = state.runs[0].codons.iter();
    codons
        .map(|codon| format!("{} {}", codon.codon_id(), codon.status()))
        .collect()
}

// covers: RUN-10
#[tokio::test]
async fn a_running_codon_is_skipped_and_the_next_one_starts() {
    let stage = Stage::new(&["one", "wait", "three"]);
    let mut live = live(&stage).await;
    live.started("b").await;
    live.refused(RunCommand::Next, "CODON_RUNNING").await;
    live.refused(RunCommand::Redo, "CODON_RUNNING").await;
    live.refused(back("a", false), "CODON_RUNNING").await;
    let skipped = live.send(RunCommand::Skip).await.unwrap();
    assert_eq!(skipped, AcceptedCommand::Stopping("b".parse().unwrap()));
    let (commander, manager) = (live.commander.clone(), live.manager.clone());
    let outcome = live.task.await.unwrap().unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    let state = manager.snapshot();
    assert_eq!(codons(&state), ["a completed", "b skipped", "c completed"]);
    let CodonExecution::Skipped(skipped) = state.runs[0].codons[1].as_ref() else {
        panic!("{:?}", state.runs[0].codons[1]);
    };
    assert!(
        skipped.skip_checkpoint.is_some()
            && skipped.skipped_during == hankweave_core::codon::CodonPhase::Running
    );
    assert_eq!(
        commander.send(RunCommand::Next).await.unwrap_err().code(),
        "RUN_ENDED"
    );
}

// Nothing starts by itself afterwards, a redo opens a new run.
// covers: RUN-13, RUN-15
#[tokio::test]
async fn a_codon_that_was_stopped_by_force_waits_for_a_redo() {
    let mut stage = Stage::new(&["one", "wait"]);
    stage.options.attended = true;
    let mut live = live(&stage).await;
    live.started("b").await;
    live.send(RunCommand::ForceStop {
        reason: Some("too slow".to_owned()),
    })
    .await
    .unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    let state = live.state();
    let CodonExecution::Failed(failed) = state.runs[0].codons[1].as_ref() else {
        panic!("{:?}", state.runs[0].codons[1]);
    };
    let reason = &failed.failure_reason;
    assert_eq!((failed.exit_code, reason.retriable), (-1, true));
    assert_eq!(reason.message.as_deref(), Some("Force stopped: too slow"));
    live.refused(RunCommand::Next, "CODON_FAILED").await;
    live.refused(RunCommand::Skip, "NOTHING_RUNNING").await;

    assert_eq!(
        live.send(RunCommand::Redo).await.unwrap(),
        AcceptedCommand::Starting("b".parse().unwrap())
    );
    live.started("b").await;
    live.send(RunCommand::Skip).await.unwrap();
    let manager = live.manager.clone();
    assert_eq!(live.task.await.unwrap().unwrap().result, RunResult::Completed);
    let state = manager.snapshot();
    assert_eq!(
        (codons(&state), state.runs.len()),
        (vec!["b skipped".to_owned()], 2)
    );
    assert_eq!(state.runs[1].status, RunStatus::Failed);
    let conditions = serde_json::to_value(&state.runs[0].starting_conditions).unwrap();
    let source = json!({"runId": state.runs[1].run_id, "afterCodon": "a", "checkpointSha": ""});
    assert_eq!(
        conditions,
        json!({"type": "continuation", "source": source, "reason": "retry"})
    );
}

// covers: RUN-13
#[tokio::test]
async fn with_nobody_there_a_forced_stop_ends_the_run_whatever_the_policy() {
    let stage = Stage::new(&["wait"]);
    stage.write(&["wait"], &json!({"onFailure": "retry"}));
    let mut live = live(&stage).await;
    live.started("a").await;
    live.send(force()).await.unwrap();
    let outcome = live.task.await.unwrap().unwrap();
    assert_eq!(outcome.result, RunResult::Failed("a".parse().unwrap()));
}

// covers: RUN-9
#[tokio::test]
async fn without_autostart_every_codon_waits_for_its_command() {
    let mut stage = Stage::new(&["one", "two"]);
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    live.idle(IdleReason::Startup).await;
    live.refused(RunCommand::Redo, "NOTHING_TO_REDO").await;
    live.refused(force(), "NOTHING_RUNNING").await;
    assert_eq!(
        live.send(RunCommand::Next).await.unwrap(),
        AcceptedCommand::Starting("a".parse().unwrap())
    );
    live.idle(IdleReason::CodonCompleted).await;
    assert_eq!(codons(&live.state()), ["a completed"]);
    live.send(RunCommand::Next).await.unwrap();
    live.idle(IdleReason::AllCodonsCompleted).await;
    live.refused(RunCommand::Next, "NOTHING_NEXT").await;
    live.send(RunCommand::Redo).await.unwrap();
    live.idle(IdleReason::AllCodonsCompleted).await;
    assert_eq!(codons(&live.state()), ["b completed"]);
    assert_eq!(stage.done(), "one\ntwo\ntwo\n");
    let outcome = live.stop().await;
    assert_eq!(outcome.result, RunResult::Stopped(StopCause::Request));
}

// The plan of a run that is taken over continues in the next one: what it has done itself is what counts.
// covers: RUN-15
#[tokio::test]
async fn a_run_that_is_taken_over_ends_as_its_newest_codon_did() {
    let mut stage = Stage::new(&["one", "wait"]);
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    live.send(RunCommand::Next).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    live.send(RunCommand::Redo).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    assert_eq!(live.state().runs[1].status, RunStatus::Completed);
    live.send(RunCommand::Next).await.unwrap();
    live.started("b").await;
    live.send(force()).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    live.send(RunCommand::Redo).await.unwrap();
    live.started("b").await;
    assert_eq!(live.state().runs[1].status, RunStatus::Failed);
    live.stop().await;
}

// The old run ends, the new one continues with reason rollback; then idle, or the next codon.
// covers: RUN-19
#[tokio::test]
async fn a_live_run_goes_back_and_on_again() {
    let mut stage = Stage::new(&["one", "two"]);
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    for reason in [IdleReason::CodonCompleted, IdleReason::AllCodonsCompleted] {
        live.send(RunCommand::Next).await.unwrap();
        live.idle(reason).await;
    }
    live.refused(back("nobody", true), "ROLLBACK_FAILED").await;
    assert_eq!(live.state().runs.len(), 1, "what is refused closes no run");
    let AcceptedCommand::RolledBack(rollback) = live.send(back("a", false)).await.unwrap() else {
        panic!("not accepted");
    };
    assert_eq!(
        (rollback.next.unwrap().as_str(), stage.done().as_str()),
        ("b", "one\n")
    );
    assert!(rollback.safety.is_some());
    live.idle(IdleReason::RollbackCompleted).await;
    let state = live.state();
    assert_eq!(
        (state.runs.len(), state.runs[1].status),
        (2, RunStatus::Completed)
    );
    let reason = match &state.runs[0].starting_conditions {
        StartingConditions::Continuation { reason, .. } => *reason,
        fresh => panic!("{fresh:?}"),
    };
    assert_eq!(reason, Some(ContinuationReason::Rollback));
    live.send(RunCommand::Next).await.unwrap();
    live.idle(IdleReason::AllCodonsCompleted).await;
    assert_eq!(stage.done(), "one\ntwo\n");
    live.stop().await;
}

#[tokio::test]
async fn after_a_forced_stop_a_run_with_autostart_goes_back_and_starts_by_itself() {
    let mut stage = Stage::new(&["one", "wait"]);
    stage.options.attended = true;
    let mut live = live(&stage).await;
    live.started("b").await;
    live.send(force()).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    live.send(back("a", true)).await.unwrap();
    live.started("b").await;
    assert_eq!(stage.done(), "one\nwait\n");
    live.send(RunCommand::Skip).await.unwrap();
    assert_eq!(live.task.await.unwrap().unwrap().result, RunResult::Completed);
}

// covers: HANK-41
#[tokio::test]
async fn a_failure_that_could_be_mended_keeps_an_attended_run_alive() {
    let mut stage = Stage::new(&["fail"]);
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Failed("a".parse().unwrap()));
    stage.options.attended = true;
    let mut live = live(&stage).await;
    live.idle(IdleReason::CodonCompleted).await;
    live.send(RunCommand::Redo).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    assert_eq!(codons(&live.state()), ["a failed"]);
    assert!(matches!(live.stop().await.result, RunResult::Stopped(_)));
}

#[tokio::test]
async fn a_retry_that_waits_can_be_hastened_and_called_off() {
    let stage = Stage::new(&["fail"]);
    let config = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 5, "delayMs": 60000}});
    stage.write(&["fail"], &config);
    let mut live = live(&stage).await;
    let waits = |event: &Event| matches!(event, Event::Info { message } if message.contains("tried again"));
    live.until(waits).await;
    live.refused(RunCommand::Skip, "NOTHING_RUNNING").await;
    assert_eq!(
        live.send(RunCommand::Next).await.unwrap(),
        AcceptedCommand::Starting("a".parse().unwrap())
    );
    live.until(waits).await;
    live.send(force()).await.unwrap();
    let outcome = live.task.await.unwrap().unwrap();
    assert_eq!(
        (outcome.codons.len(), outcome.result),
        (2, RunResult::Failed("a".parse().unwrap()))
    );
}

// Both offers, decided by an option where no user can be asked.
// covers: RUN-2
#[tokio::test]
async fn after_a_failure_a_run_goes_back_or_on_from_where_it_stopped() {
    for (recovery, done, reason) in [
        (Recovery::LastSuccess, "one\ntwo\n", "rollback"),
        (Recovery::CrashPoint, "one\nfail\ntwo\n", "retry"),
    ] {
        let mut stage = Stage::new(&["one", "fail"]);
        stage.open().await.run(Shutdown::new()).await.unwrap();
        stage.write(&["one", "two"], &json!({}));
        stage.options.recovery = Some(recovery);
        let hankweave = stage.open().await;
        let manager = hankweave.opened.possession.manager.clone();
        let outcome = hankweave.run(Shutdown::new()).await.unwrap();
        assert_eq!((outcome.result, outcome.codons.len()), (RunResult::Completed, 1));
        assert_eq!(stage.done(), done);
        let state = manager.snapshot();
        let conditions = serde_json::to_value(&state.runs[0].starting_conditions).unwrap();
        assert_eq!(conditions["reason"], reason);
        assert_eq!(state.runs[0].codons[0].status(), CodonStatus::Completed);
    }
}

fn start(id: &str, skip_rig: bool) -> RunCommand {
    RunCommand::Start {
        codon_id: id.parse().unwrap(),
        skip_rig,
    }
}

// covers: WIRE-12
#[tokio::test]
async fn any_codon_of_the_plan_can_be_started_and_what_follows_it_is_next() {
    let mut stage = Stage::new(&["one", "two", "three"]);
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    live.idle(IdleReason::Startup).await;
    live.refused(start("z", false), "UNKNOWN_CODON").await;
    let accepted = live.send(start("b", false)).await.unwrap();
    assert_eq!(accepted, AcceptedCommand::Starting("b".parse().unwrap()));
    live.idle(IdleReason::CodonCompleted).await;
    live.send(RunCommand::Next).await.unwrap();
    live.idle(IdleReason::AllCodonsCompleted).await;
    assert_eq!(codons(&live.state()), ["b completed", "c completed"]);

    live.send(start("b", false)).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    let state = live.state();
    let conditions = &state.runs[0].starting_conditions;
    let expected = ContinuationSource::beginning_of(&state.runs[1].run_id);
    let StartingConditions::Continuation { source, reason, .. } = conditions else {
        panic!("{conditions:?}")
    };
    assert_eq!((source, *reason), (&expected, Some(ContinuationReason::Retry)));
    assert_eq!(state.runs[1].status, RunStatus::Completed);
    assert_eq!(codons(&state), ["b completed"]);
    live.send(RunCommand::Redo).await.unwrap();
    live.idle(IdleReason::CodonCompleted).await;
    live.stop().await;
    assert_eq!(stage.done(), "two\nthree\ntwo\ntwo\n");
}

#[tokio::test]
async fn a_chosen_codon_that_failed_is_run_again_by_the_next_start_and_not_everything() {
    let mut stage = Stage::new(&["one", "fail", "three"]);
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    live.idle(IdleReason::Startup).await;
    for command in [RunCommand::Next, RunCommand::Next, start("b", false)] {
        live.send(command).await.unwrap();
        live.idle(IdleReason::CodonCompleted).await;
    }
    assert_eq!(codons(&live.state()), ["b failed"]);
    live.stop().await;

    stage.write(&["one", "two", "three"], &json!({}));
    stage.options.autostart = true;
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    assert_eq!(stage.done(), "one\nfail\nfail\ntwo\nthree\n");
}

#[tokio::test]
async fn a_chosen_codon_goes_on_with_the_conversation_before_it_and_may_leave_its_rig_out() {
    let mut stage = Stage::new(&["one", "two"]);
    let rig = json!([{"type": "command", "command": {"run": "echo rig >> rig.txt"}}]);
    let extra = json!({"continuationMode": "continue-previous", "rigSetup": rig});
    stage.write(&["one", "two"], &extra);
    let path = stage.folder.path().join("hank/hank.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("continue-previous", "fresh", 1)).unwrap();
    stage.options.autostart = false;
    let mut live = live(&stage).await;
    live.idle(IdleReason::Startup).await;
    for _ in 0..2 {
        live.send(RunCommand::Next).await.unwrap();
        live.until(|event| matches!(event, Event::ServerIdle { .. }))
            .await;
    }
    live.send(start("b", true)).await.unwrap();
    live.until(|event| matches!(event, Event::ServerIdle { .. }))
        .await;
    let state = live.state();
    let CodonExecution::Completed(chosen) = state.runs[0].codons[0].as_ref() else {
        panic!("{:?}", state.runs[0].codons)
    };
    assert_eq!(chosen.previous_session_id, Some(chosen.agent_session_id.clone()));
    assert_eq!(chosen.rig_setup_checkpoint, None);
    live.stop().await;
    let rig = std::fs::read_to_string(stage.work().join("rig.txt")).unwrap();
    assert_eq!(rig, "rig\nrig\n");
}
