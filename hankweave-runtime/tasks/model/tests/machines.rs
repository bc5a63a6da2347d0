//! Machines of the task and the lock.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use hankweave_core::attempt::AttemptNumber;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::{self, LOCK, Lock, LockFailure, LockMode, LockRecord, Unlocked};
use hankweave_task_model::task::{self, Pending, TASK, Task, TaskPhase, TaskRecord, TaskTransition};
use serde_json::{Map, json};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn created_task() -> Task<Pending> {
    let (id, name, owner) = (TaskId::new("report-7").unwrap(), "Write report", "ann");
    Task::new(id, name.into(), None, owner.into(), at(0), Map::new())
}

fn writer() -> AgentId {
    AgentId::new("writer").unwrap()
}

fn asked_for_lock() -> Lock<Unlocked> {
    let mode = LockMode::Collaborative;
    Lock::new("task:fix-3".into(), "lifecycle:coder".into(), "h1".into(), mode)
}

// covers: STATE-62
#[test]
fn a_task_that_failed_is_resumed_as_its_next_attempt_and_keeps_nothing_of_the_failure() {
    let failed = created_task()
        .start(task::Start {
            agent_id: writer(),
            by_hand: false,
        })
        .fail(task::Fail {
            error: "no ink".into(),
            failure: None,
        });
    assert_eq!(failed.attempt.to_string(), "1");
    let again = failed.resume();
    assert_eq!(again.attempt.number(), 2);
    let record = serde_json::to_value(again.into_record()).unwrap();
    assert_eq!(
        (&record["status"], record.get("error")),
        (&json!("pending"), None)
    );
}

// covers: TASK-123
#[test]
fn a_task_that_was_approved_continues_its_attempt_and_a_record_of_an_older_version_is_read() {
    let waiting = created_task()
        .start(task::Start {
            agent_id: writer(),
            by_hand: false,
        })
        .ask(task::Ask {
            codon_id: "publish".into(),
            question: "Publish it?".into(),
        });
    assert_eq!(waiting.question, "Publish it?");
    assert_eq!(waiting.approve().attempt.number(), 1);
    let older = json!({
        "status": "failed", "id": "report-7", "name": "Write report", "owner": "ann", "attempt": 1,
        "createdAt": "2025-01-04T12:00:00.000Z", "agentId": "writer", "error": "no ink",
    });
    let read: TaskRecord = serde_json::from_value(older.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap()["error"], "no ink");
    assert!(matches!(read, TaskRecord::Failed(failed) if failed.failure.is_none()));
}

#[test]
fn a_cancelled_task_tells_whether_it_had_been_started() {
    let cancelled = created_task().cancel();
    assert_eq!(
        (cancelled.cancelled_during, &cancelled.agent_id),
        (TaskPhase::Pending, &None)
    );
    let cancelled = created_task()
        .start(task::Start {
            agent_id: writer(),
            by_hand: false,
        })
        .cancel();
    assert_eq!(cancelled.cancelled_during, TaskPhase::Running);
    assert_eq!(cancelled.agent_id, Some(writer()));
    let deleted = cancelled.delete();
    assert_eq!(deleted.deleted_from, TaskPhase::Cancelled);
}

#[test]
fn a_stored_task_of_one_status_with_a_field_of_another_is_refused() {
    let json = json!({
        "status": "pending", "id": "report-7", "name": "Write report", "owner": "ann", "attempt": 1,
        "createdAt": "2025-01-04T12:00:00.000Z", "agentId": "writer",
    });
    let error = serde_json::from_value::<TaskRecord>(json)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("field `agentId` does not belong to status `pending`"),
        "{error}"
    );
}

// covers: STATE-63
#[test]
fn a_lock_is_tried_again_until_it_is_had_and_a_renewal_moves_its_end() {
    let waiting = asked_for_lock().wait(lock::Wait { retry_at: at(1) });
    let again = waiting.retry();
    assert_eq!(
        again.attempt,
        AttemptNumber::from(asked_for_lock().wait(lock::Wait { retry_at: at(1) }).attempt)
    );
    let mut acquired = again.acquire(lock::Acquire {
        token: 7,
        acquired_at: at(2),
        expires_at: Some(at(32)),
    });
    acquired.set_expires_at(Some(at(62)));
    acquired.set_count(2);
    assert_eq!((acquired.count, acquired.token), (2, 7));
    assert_eq!(acquired.expire().expires_at, Some(at(62)));
}

// covers: STATE-63
#[test]
fn a_refused_lock_says_after_which_try_and_why() {
    let reason = LockFailure::ResourceLocked {
        existing_owner: "lifecycle:tester".into(),
    };
    let refused: LockRecord = asked_for_lock().refuse(lock::Refuse { reason }).into_record();
    let json = serde_json::to_value(&refused).unwrap();
    assert_eq!((&json["state"], &json["attempt"]), (&json!("failed"), &json!(1)));
    assert_eq!(
        json["reason"],
        json!({"code": "RESOURCE_LOCKED", "existingOwner": "lifecycle:tester"})
    );
}

// covers: STATE-61
#[test]
fn the_graphs_are_those_of_the_documents() {
    assert_eq!((LOCK.states.len(), LOCK.edges.len()), (6, 6));
    let task = TASK.to_mermaid();
    for line in [
        "[*] --> Pending : createTask()",
        "Pending --> Running : startTask()",
        "Pending --> Cancelled : cancelTask()",
        "Running --> Completed : completeTask()",
        "Running --> Failed : failTask()",
        "Running --> Cancelled : cancelTask()",
        "Completed --> Deleted : deleteTask()",
        "Failed --> Deleted : deleteTask()",
        "Cancelled --> Deleted : deleteTask()",
        "Failed --> Pending : resumeTask()",
        "Running --> Waiting : askTask()",
        "Waiting --> Pending : approveTask()",
        "Waiting --> Failed : failTask()",
        "Waiting --> Cancelled : cancelTask()",
        "Cancelled --> Pending : resumeTask()",
        "Deleted --> [*]",
    ] {
        assert!(
            task.contains(&format!("    {line}\n")),
            "{line} is missing in\n{task}"
        );
    }
    assert_eq!(task.lines().count(), 17);
    assert!(
        LOCK.to_mermaid()
            .contains("    Waiting --> Unlocked : Retry lock acquisition\n")
    );
}

/// A changed snapshot changes what editors and tools rely on.
#[test]
fn the_schemas_of_a_task_and_of_its_events_are_the_known_ones() {
    insta::assert_json_snapshot!("task_record", TaskRecord::schema());
    insta::assert_json_snapshot!("task_transition", TaskTransition::schema());
}
