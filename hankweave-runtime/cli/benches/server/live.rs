//! A run with its server.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_agents::Launch;
use hankweave_core::agent::{AgentEvent, Capabilities, CostReporting, ExitOutcome, ProcessExit, Verdict};
use hankweave_core::id::SessionId;
use hankweave_core::wire::Event;
use hankweave_runtime::driver::{
    AgentControl, AgentDriver, EventReceiver, EventSender, RunningAgent, StartError, event_channel,
};
use hankweave_runtime::hank_files::load;
use hankweave_runtime::state_manager::Delivery;
use hankweave_runtime::{Hankweave, ServerOptions, Shutdown};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::reader::Reader;
use crate::{MANY, SERVERS, Source};

const HANK: &str = r#"{"hank":[{"id":"a","name":"a","model":"m","continuationMode":"fresh","promptText":"x","agent":"talker"}]}"#;

/// A run whose agent says the texts that it gets, and its server.
pub(crate) struct Live {
    _folder: TempDir,
    authority: String,
    token: String,
    words: EventSender,
    run: JoinHandle<()>,
}

impl Live {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        std::fs::write(folder.path().join("hank.json"), HANK).expect("the folder is ours");
        let hank = load(folder.path()).expect("the hank was just written");
        let (words, heard) = event_channel(1_024);
        let started = AgentEvent::SessionStarted {
            session_id: SessionId::new("s-1").expect("the name is a session id"),
            model: None,
        };
        words.try_send(vec![started]).expect("there is room for one");
        let mut options = ServerOptions::default();
        options.limits.clients = MANY;
        SERVERS.block_on(async {
            let builder = Hankweave::builder(hank);
            let builder = builder.driver(Talker(Mutex::new(Some(heard))));
            let mut hankweave = builder.open().await.expect("nothing is damaged");
            hankweave.serve(options).await.expect("there is a port");
            let page = hankweave.control_address().expect("it has a port");
            let (place, token) = page.split_once("/#token=").expect("the address holds the token");
            let mut events = hankweave.subscribe();
            let run = SERVERS.spawn(async {
                let outcome = hankweave.run(Shutdown::new()).await;
                outcome.expect("the run is recorded");
            });
            // The agent speaks once every event about its start has been published.
            let started = |event: &Event| matches!(event, Event::CodonStarted { .. });
            while let Ok(Some(delivery)) = events.next().await {
                if matches!(&delivery, Delivery::Events(events) if events.entries().any(|entry| started(&entry.event))) {
                    break;
                }
            }
            Self {
                _folder: folder,
                authority: place.trim_start_matches("http://").to_owned(),
                token: token.to_owned(),
                words,
                run,
            }
        })
    }

    async fn enter(&self, handshake: &str) -> Reader {
        let mut reader = Reader::open(&self.authority, &self.token).await;
        reader.say(handshake).await;
        reader
    }

    /// A client that asks for everything that has happened.
    pub(crate) async fn ask(&mut self, way: &str) -> Reader {
        if way == "afterSeq" {
            // Each event comes as a message of its own.
            return self
                .enter(r#"{"type":"handshake","data":{"mode":"readonly","afterSeq":0}}"#)
                .await;
        }
        let mut reader = self.reader().await;
        reader.say(r#"{"id":"h","type":"history.sync"}"#).await;
        reader
    }

    pub(crate) fn end(self) {
        let outcome = ExitOutcome::new(ProcessExit::Exited(0), Verdict::Success);
        SERVERS.block_on(async {
            let sent = self.words.send(vec![AgentEvent::Finished(outcome)]).await;
            sent.expect("the run listens");
            self.run.await.expect("it does not panic");
        });
    }
}

impl Source for Live {
    async fn reader(&mut self) -> Reader {
        let mut reader = self
            .enter(r#"{"type":"handshake","data":{"mode":"readonly"}}"#)
            .await;
        let ready = |content: &[u8]| content.windows(14).any(|part| part == b"\"server.ready\"");
        reader.read_until(ready).await;
        reader
    }

    async fn publish(&mut self, text: String) {
        let message = AgentEvent::Message {
            text,
            parent_tool_use_id: None,
        };
        self.words.send(vec![message]).await.expect("the run listens");
    }
}

/// An agent that says what comes through its channel.
struct Talker(Mutex<Option<EventReceiver>>);

impl AgentDriver for Talker {
    fn name(&self) -> &str {
        "talker"
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
        let events = self.0.lock().expect("nobody panics").take();
        let agent = RunningAgent {
            pid: None,
            log_path: launch.log_path,
            events: events.expect("there is one codon"),
            control: Box::new(Unstoppable),
        };
        ready(Ok(agent)).boxed()
    }
}

struct Unstoppable;

impl AgentControl for Unstoppable {
    fn stop<'a>(&'a self, _: Duration) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }
}
