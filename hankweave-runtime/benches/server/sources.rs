//! Who sends events: a run with its server, and a bare loop.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::SinkExt;
use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::{AgentEvent, ExitOutcome, Launch, ProcessExit, Verdict};
use hankweave_core::cost::UsageTotals;
use hankweave_core::id::SessionId;
use hankweave_core::wire::Event;
use hankweave_runtime::driver::{
    AgentControl, AgentDriver, EventReceiver, EventSender, RunningAgent, StartError, event_channel,
};
use hankweave_runtime::hank_files::load;
use hankweave_runtime::state_manager::Delivery;
use hankweave_runtime::{Hankweave, Limits, ServerOptions, Shutdown};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::reader::Reader;
use crate::{MANY, Runtimes};

const HANK: &str = r#"{"hank":[{"id":"a","name":"a","model":"m","continuationMode":"fresh","promptText":"x","agent":"talker"}]}"#;

/// Where events come from.
pub(crate) trait Source {
    /// Sends an event with this text to everybody.
    fn publish(&mut self, text: String) -> impl Future<Output = ()> + Send;
}

/// A run whose agent says what it is told to, and its server.
pub(crate) struct Live {
    _folder: TempDir,
    authority: String,
    token: String,
    words: EventSender,
    run: JoinHandle<()>,
}

impl Live {
    pub(crate) fn start(runtimes: &Runtimes) -> Self {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        std::fs::write(folder.path().join("hank.json"), HANK).expect("the folder is ours");
        let (words, heard) = event_channel(1_024);
        let session_id = SessionId::new("s-1").expect("the name is a session id");
        let started = AgentEvent::SessionStarted {
            session_id,
            model: None,
        };
        words.try_send(vec![started]).expect("there is room for one");
        let talker = Talker(Mutex::new(Some(heard)));
        let hank = load(folder.path()).expect("the hank was just written");
        let limits = Limits {
            clients: MANY,
            ..Limits::default()
        };
        let options = ServerOptions {
            limits,
            ..ServerOptions::default()
        };
        let hankweave = runtimes.servers.block_on(async {
            let builder = Hankweave::builder(hank)
                .expect("Linux has subreapers")
                .driver(talker);
            let mut hankweave = builder.open().await.expect("nothing is damaged");
            hankweave.serve(options).await.expect("there is a port");
            hankweave
        });
        let page = hankweave.page_address().expect("it has a port");
        let (place, token) = page.split_once("/#token=").expect("the address holds the token");
        let authority = place.trim_start_matches("http://").to_owned();
        let mut events = hankweave.subscribe();
        let run = runtimes.servers.spawn(async {
            let outcome = hankweave.run(Shutdown::new()).await;
            outcome.expect("the run is recorded");
        });
        // The agent speaks once everything about its start has been told.
        runtimes.servers.block_on(async {
            while let Ok(Some(delivery)) = events.next().await {
                let started = |event: &Event| matches!(event, Event::CodonStarted { .. });
                if matches!(&delivery, Delivery::Events(events) if events.entries().iter().any(|entry| started(&entry.event))) {
                    break;
                }
            }
        });
        Self {
            _folder: folder,
            authority,
            token: token.to_owned(),
            words,
            run,
        }
    }

    /// A client before its handshake.
    pub(crate) async fn reader(&self) -> Reader {
        Reader::open(&self.authority, &self.token).await
    }

    /// A client that gets what happens.
    pub(crate) async fn watcher(&self) -> Reader {
        let mut reader = self.reader().await;
        reader
            .say(r#"{"type":"handshake","data":{"mode":"readonly"}}"#)
            .await;
        let ready = br#""type":"server.ready""#;
        while !reader
            .frame()
            .await
            .1
            .windows(ready.len())
            .any(|part| part == ready)
        {}
        reader
    }

    pub(crate) fn end(self, runtimes: &Runtimes) {
        let outcome = ExitOutcome {
            exit: ProcessExit::Exited(0),
            verdict: Verdict::Success,
            usage: UsageTotals::default(),
            result_received: true,
            stderr_tail: String::new(),
            leftovers: 0,
        };
        runtimes.servers.block_on(async {
            let sent = self.words.send(vec![AgentEvent::Finished(outcome)]).await;
            sent.expect("the run listens");
            self.run.await.expect("it does not panic");
        });
    }
}

impl Source for Live {
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

/// Sockets to which everything is sent, one after the other.
pub(crate) struct Bare {
    sockets: Vec<WebSocketStream<TcpStream>>,
    seq: u64,
}

impl Bare {
    pub(crate) async fn start(runtimes: &Runtimes, readers: usize) -> (Self, Vec<Reader>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let authority = listener.local_addr().expect("it listens").to_string();
        let (mut sockets, mut clients) = (Vec::new(), Vec::new());
        for _ in 0..readers {
            let authority = authority.clone();
            let client = runtimes
                .clients
                .spawn(async move { Reader::open(&authority, "none").await });
            let (stream, _) = listener.accept().await.expect("somebody comes");
            sockets.push(accept_async(stream).await.expect("it is a client"));
            clients.push(client.await.expect("it does not panic"));
        }
        (Self { sockets, seq: 0 }, clients)
    }
}

impl Source for Bare {
    async fn publish(&mut self, text: String) {
        self.seq += 1;
        let line = format!(
            r#"{{"seq":{},"id":"event-5b26ab9acc1e46b8947b9df990f261cd","timestamp":"2026-01-04T12:00:00.000Z","type":"assistant.action","data":{{"codonId":"a","action":"message","content":"{text}"}}}}"#,
            self.seq
        );
        let message = Message::text(line);
        for socket in &mut self.sockets {
            socket.send(message.clone()).await.expect("the reader reads");
        }
    }
}
