//! Runs in one process: a real folder, checkpoints in memory, and agents that are no processes.

mod background;
mod clock;
mod commands;
mod endings;
mod fallback;
mod nights;
mod rehearsal;
mod rollback;
mod sentinels;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use hankweave_agents::Launch;
use hankweave_core::agent::{
    AgentEvent, AgentResult, BackgroundWork, Capabilities, CostReporting, ExitOutcome, FailureReason,
    ProcessExit, Verdict,
};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::{CheckpointStore, MemoryCheckpoints};
use crate::driver::{AgentControl, AgentDriver, EventSender, RunningAgent, StartError, event_channel};
use crate::embed::{Builder, Hankweave};
use crate::hank_files::load_from;
use crate::options::RunOptions;
use crate::world::World;
use crate::world::blocking::Blocking;
use crate::world::clock::{Clock, SystemClock};
use crate::world::disk::RealDisk;
use crate::world::environment::Environment;
use crate::world::process::{ChildSpawner, Spawner};

/// A folder with a hank and a workspace, and the checkpoints that outlive a run.
pub(crate) struct Stage {
    folder: TempDir,
    checkpoints: Arc<dyn CheckpointStore>,
    pub(crate) options: RunOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
}

impl Stage {
    /// One codon for each prompt; the codons are called `a`, `b` and so on.
    pub(crate) fn new(prompts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("hank")).unwrap();
        let work = folder.path().join("work");
        let stage = Self {
            folder,
            checkpoints: Arc::new(MemoryCheckpoints::new(&work)),
            options: RunOptions::default(),
            clock: Arc::new(SystemClock),
            spawner: Arc::new(ChildSpawner::new()),
        };
        stage.write(prompts, &json!({}));
        stage
    }

    /// Writes the hank again; `extra` goes into every codon.
    pub(crate) fn write(&self, prompts: &[&str], extra: &Value) {
        let codons = prompts.iter().zip('a'..).map(|(prompt, id)| {
            let mut codon = json!({"id": id, "name": id, "model": "m", "continuationMode": "fresh", "agent": "actor",
                "promptText": prompt, "checkpointedFiles": ["*.txt"]});
            codon
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            codon
        });
        self.write_items(&codons.collect());
    }

    /// Writes the hank again with these items.
    pub(crate) fn write_items(&self, items: &Value) {
        let hank = json!({ "hank": items });
        std::fs::write(self.folder.path().join("hank/hank.json"), hank.to_string()).unwrap();
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn done(&self) -> String {
        std::fs::read_to_string(self.work().join("done.txt")).unwrap_or_default()
    }

    pub(crate) fn builder(&self) -> Builder {
        let world = World {
            blocking: Blocking::Inline,
            clock: Arc::clone(&self.clock),
            spawner: Arc::clone(&self.spawner),
            ..World::with_environment(Environment::default())
        };
        let hank = load_from(&RealDisk, &self.folder.path().join("hank")).unwrap();
        Hankweave::builder_in(world, hank)
            .execution_dir(self.work())
            .options(self.options.clone())
            .driver(Actor)
            .checkpoints(Arc::clone(&self.checkpoints))
    }

    pub(crate) async fn open(&self) -> Hankweave {
        self.builder().open().await.unwrap()
    }
}

/// When the limit of the provider ends.
const LIMIT_ENDS: i64 = 1_736_000_100_000;

/// An agent that appends its prompt to `done.txt`. A prompt with "fail" in it makes the agent fail, and one with "once"
/// makes it fail at its first attempt only. With "slow" it takes two seconds, with "wait" it waits until it is stopped.
/// With "limit" it fails for a limit that ends at [`LIMIT_ENDS`]. A prompt that begins with "background" makes it answer
/// and wait for work of as many minutes as the prompt has words; then it continues. With "unless on n" in it, a model `n`
/// gets "n:" and the rest of the prompt. With "full" its context gets full.
struct Actor;

impl AgentDriver for Actor {
    fn name(&self) -> &str {
        "actor"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            cost: CostReporting::Exact,
            model_choice: true,
            system_prompt: true,
            ..Capabilities::NONE
        }
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        let (sender, events) = event_channel(4);
        let stop = CancellationToken::new();
        let session_id = launch.resume.clone();
        let session_id =
            session_id.unwrap_or_else(|| SessionId::new(format!("s-{}", launch.prompt.len())).unwrap());
        let started = AgentEvent::SessionStarted {
            session_id,
            model: None,
        };
        sender.try_send(vec![started]).unwrap();
        let prompt = match (launch.model.as_str(), launch.prompt.split_once("unless on n")) {
            ("n", Some((_, rest))) => format!("n:{rest}"),
            _ => launch.prompt,
        };
        tokio::spawn(act(prompt, launch.work_dir, stop.clone(), sender));
        let agent = RunningAgent {
            pid: None,
            log_path: launch.log_path,
            events,
            control: Box::new(Switch(stop)),
        };
        ready(Ok(agent)).boxed()
    }
}

async fn act(prompt: String, work: PathBuf, stop: CancellationToken, sender: EventSender) {
    let mut done = std::fs::read_to_string(work.join("done.txt")).unwrap_or_default();
    let fails = prompt.contains("fail") && !(prompt.contains("once") && done.contains(&prompt));
    done.push_str(&prompt);
    done.push('\n');
    std::fs::write(work.join("done.txt"), done).unwrap();
    if prompt.contains("slow") {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    if prompt.contains("wait") {
        stop.cancelled().await;
    }
    if prompt.starts_with("background") {
        let continues = wait_in_background(&prompt, &stop, &sender).await;
        let told = if continues { "went on\n" } else { "was ended\n" };
        let done = std::fs::read_to_string(work.join("done.txt")).unwrap_or_default();
        std::fs::write(work.join("done.txt"), done + told).unwrap();
        let exit = if continues { 0 } else { 143 };
        let outcome = ExitOutcome::new(ProcessExit::Exited(exit), Verdict::Success);
        let _ = sender.send(vec![AgentEvent::Finished(outcome)]).await;
        return;
    }
    let failure = |message: &str| Verdict::Failure {
        reason: FailureReason::unknown(true, message),
        context_exceeded: false,
    };
    let limited = || Verdict::Failure {
        reason: FailureReason::unknown(true, "used up").limited_until(Timestamp::from_millis(LIMIT_ENDS)),
        context_exceeded: false,
    };
    let full = || Verdict::Failure {
        reason: FailureReason::unknown(false, "the context is full"),
        context_exceeded: true,
    };
    let (exit, verdict) = match (stop.is_cancelled(), fails) {
        (true, _) => (ProcessExit::Exited(143), failure("stopped")),
        (false, true) if prompt.contains("limit") => (ProcessExit::Exited(1), limited()),
        (false, true) => (ProcessExit::Exited(1), failure("as the prompt says")),
        (false, false) if prompt.contains("full") => (ProcessExit::Exited(0), full()),
        (false, false) => (ProcessExit::Exited(0), Verdict::Success),
    };
    let outcome = ExitOutcome::new(exit, verdict);
    let _ = sender.send(vec![AgentEvent::Finished(outcome)]).await;
}

/// Answers, waits for work, and works and answers again; returns whether it came to that.
async fn wait_in_background(prompt: &str, stop: &CancellationToken, sender: &EventSender) -> bool {
    let minutes = u32::try_from(prompt.split_whitespace().count()).unwrap();
    let work = BackgroundWork {
        id: "w-1".to_owned(),
        title: "Run the tests".to_owned(),
        is_command: true,
    };
    let answer = || {
        AgentEvent::Result(AgentResult {
            success: true,
            text: "I wait for the tests.".to_owned(),
            ..AgentResult::default()
        })
    };
    let waits = vec![AgentEvent::Background(vec![work]), answer()];
    sender.send(waits).await.unwrap();
    tokio::select! {
        () = stop.cancelled() => return false,
        () = tokio::time::sleep(Duration::from_secs(60) * minutes) => {}
    }
    let message = AgentEvent::Message {
        text: "They have passed.".to_owned(),
        parent_tool_use_id: None,
    };
    let again = vec![AgentEvent::Background(Vec::new()), message, answer()];
    sender.send(again).await.is_ok()
}

struct Switch(CancellationToken);

impl AgentControl for Switch {
    fn stop<'a>(&'a self, _: Duration) -> BoxFuture<'a, ()> {
        self.0.cancel();
        ready(()).boxed()
    }
}
