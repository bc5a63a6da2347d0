//! Steps of a worker: with hooks, and while the registry does not answer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use hankweave_task_model::registry::{Patch, RegistryChange};
use hankweave_task_model::{DEFAULT_PRIORITY, HookPoint, HookPolicy, TaskError};

use super::*;
use crate::coordinator::Hints;
use crate::engine::{Backend, Transaction};
use crate::lifecycle::HookRun;

fn refuses() -> HookRun {
    HookRun::new(async |_| Err("not today".to_owned()))
}

// covers: TASK-67
#[tokio::test]
async fn hooks_run_around_the_steps_of_a_worker_and_may_prevent_them() {
    for (point, status, told) in [
        (HookPoint::AfterComplete, TaskStatus::Completed, None),
        (
            HookPoint::BeforeComplete,
            TaskStatus::Failed,
            Some("forbids the step: not today"),
        ),
        (HookPoint::BeforeStart, TaskStatus::Cancelled, None),
    ] {
        let stage = stage(CODON, |_| {}).await;
        let lifecycle = stage.worker.lifecycle();
        lifecycle.register(point, DEFAULT_PRIORITY, HookPolicy::Veto, refuses());
        stage.beside(async |_| ()).await;
        let (found, row) = stage.status().await;
        assert_eq!(found, status, "{row}");
        if let Some(told) = told {
            assert!(row["error"].as_str().unwrap().ends_with(told), "{row}");
        }
        assert_eq!(lifecycle.metrics().failed_hooks.get(), 1);
        assert_eq!(stage.state().status, status);
        assert!(stage.coordinator.held().await.unwrap().is_empty());
    }
}

/// Registry that is away at times, and whose answers can get lost.
#[derive(Debug)]
struct Flaky {
    memory: Memory,
    is_away: AtomicBool,
    /// Whether the answer of the next step gets lost.
    loses: AtomicBool,
}

impl Backend for Flaky {
    async fn run<O: Transaction>(&self, operation: O) -> Result<O::Output, TaskError> {
        let away = || TaskError::LockBackendUnavailable("planned".to_owned());
        if self.is_away.load(Ordering::Relaxed) {
            return Err(away());
        }
        let is_step = std::any::type_name::<O>() == std::any::type_name::<RegistryChange>();
        let done = self.memory.run(operation).await?;
        match is_step && self.loses.swap(false, Ordering::Relaxed) {
            true => Err(away()),
            false => Ok(done),
        }
    }

    fn hints(&self) -> &Hints {
        self.memory.hints()
    }

    async fn close(&self) {}
}

// covers: TASK-68
#[tokio::test]
async fn a_step_waits_for_a_registry_that_is_away_and_is_taken_once() {
    let registry = Arc::new(Flaky {
        memory: Memory::new(World::real().clock),
        is_away: AtomicBool::new(false),
        loses: AtomicBool::new(false),
    });
    let stage = stage_on(registry.clone(), "", |options| {
        options.lease = Duration::from_secs(20);
    })
    .await;
    let folder = stage.folder.path().display().to_string();
    std::fs::write(
        stage.folder.path().join("hankweave"),
        format!("#!/bin/sh\necho > {folder}/started\nwhile ! test -e {folder}/go; do sleep 0.01; done\n"),
    )
    .unwrap();
    let (worked, ()) = stage
        .beside(async |_| {
            stage.until("started").await;
            registry.is_away.store(true, Ordering::Relaxed);
            registry.loses.store(true, Ordering::Relaxed);
            std::fs::write(stage.folder.path().join("go"), "").unwrap();
            // By then the step has failed at least once.
            while stage.worker.lifecycle().metrics().failed.get() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            registry.is_away.store(false, Ordering::Relaxed);
        })
        .await;
    assert_eq!(worked.completed, 1, "{:?} {:?}", stage.status().await, worked);
    assert!(!registry.loses.load(Ordering::Relaxed), "an answer was lost");
    let ends = stage.lines();
    let ends = ends.iter().filter(|line| line.starts_with("Task completed"));
    assert_eq!(ends.count(), 1);
    assert_eq!(stage.state().status, TaskStatus::Completed);
}

// covers: TASK-69, TASK-70
#[tokio::test]
async fn what_an_agent_decides_is_taken_over_once_and_a_task_completes_only_when_its_files_hold() {
    let say = r#"printf '%s\n' '{"decision":"Cache it","reasoning":"It is asked often.\n\n## It is small","metadata":{"ttl":300}}' >> decisions.jsonl
echo 'no decision' >> decisions.jsonl
"#;
    let twice = r#"echo '{"agent":"critic","decision":"Ship it"}' >> decisions.jsonl
"#;
    let stage = stage(&format!("{say}{CODON}{twice}{CODON}"), |options| {
        options.packs_checkpoints = true;
    })
    .await;
    stage.beside(async |_| ()).await;
    let page = stage.files.load_decisions().unwrap();
    let told: Vec<_> = page
        .entries
        .iter()
        .map(|said| {
            (
                said.agent.as_str(),
                said.decision.as_str(),
                said.reasoning.as_str(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("draft", "Cache it", "It is asked often.\n\n## It is small"),
            ("critic", "Ship it", "")
        ]
    );
    assert_eq!(page.broken, 0);
    let all = stage.files.checkpoints().unwrap();
    assert_eq!((all.valid.len(), all.invalid.len()), (3, 0));
    let oldest = stage.files.path().join("checkpoints").join(&all.valid[2].id);
    assert!(oldest.join("state.json.gz").exists() && !oldest.join("state.json").exists());
    assert_eq!(stage.files.pack_checkpoints().unwrap(), 2, "the newer ones");

    let broken = stage_with_a_gap().await;
    let (status, row) = broken.status().await;
    assert_eq!(status, TaskStatus::Failed);
    assert!(
        row["error"].as_str().unwrap().contains("line 1 of the registry"),
        "{row}"
    );
}

/// Creates a task whose run has removed the first line of its log.
async fn stage_with_a_gap() -> Stage {
    let stage = stage("sed -i 1d ../logs.jsonl", |_| {}).await;
    stage.beside(async |_| ()).await;
    stage
}

// covers: TASK-74
#[tokio::test]
async fn files_that_a_killed_worker_left_behind_follow() {
    let stage = stage(CODON, |_| {}).await;
    stage.beside(async |_| ()).await;
    let (lifecycle, id) = (stage.worker.lifecycle(), TaskId::new("left").unwrap());
    lifecycle.create(NewTask::new(id.clone())).await.unwrap();
    // As if its worker had been killed after the commit.
    let hold = ExclusiveHold {
        holder: Holder::new("lifecycle:gone", "1"),
        lease: Some(Duration::from_secs(60)),
    };
    let claim = Claim {
        owner: None,
        except: BTreeSet::new(),
        hold: hold.clone(),
    };
    let claimed = stage.coordinator.claim(claim).await.unwrap().unwrap();
    let start = Start {
        agent_id: AgentId::new("gone").unwrap(),
        by_hand: false,
    };
    let change = RegistryChange {
        id: id.clone(),
        expected_version: claimed.row.version,
        token: claimed.held.unwrap().token,
        steps: vec![TaskTransition::Start(start)],
        cost: None,
        approval: None,
        by: None,
        lease: None,
        files: Patch::Keep,
    };
    stage.coordinator.change(change).await.unwrap();
    // The folder of this task is on another machine.
    let create = Create {
        task: NewTask::new(TaskId::new("elsewhere").unwrap()),
        hold: None,
    };
    stage.coordinator.create(create).await.unwrap();
    assert!(
        lifecycle.follow_up().await.unwrap().is_empty(),
        "somebody holds it"
    );
    let release = Release {
        resource: TaskRow::lock_name(&id),
        holder: hold.holder,
        written: None,
    };
    stage.coordinator.release(release).await.unwrap();
    assert_eq!(lifecycle.follow_up().await.unwrap(), std::slice::from_ref(&id));
    let files = stage.worker.layers.task(id);
    assert_eq!(files.load_state().unwrap().unwrap().status, TaskStatus::Running);
    assert_eq!(files.log_seqs().unwrap().len(), 2);
    assert!(lifecycle.follow_up().await.unwrap().is_empty());
}
