//! The task behind a client: one connection after another until the run ends.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hankweave_core::wire::{Answer, Handshake, Mode, Request};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use crate::CLOSING;
use crate::Ended;
use crate::Target;
use crate::connection::{self, ConnectError, Connection};
use crate::find::FindError;
use crate::message::Message;

/// How often a lost connection is tried to be had again, and how long is waited before: twice as long each time.
const TRIES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// A command on its way.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    /// Dropped when no answer can come any more.
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What the task knows and holds.
pub(super) struct Worker {
    target: Target,
    mode: Mode,
    /// The last event that was handed out, or is not wanted.
    position: u64,
    requests: mpsc::Receiver<Asked>,
    events: mpsc::Sender<Message>,
    /// Commands that were not answered yet, by their names.
    unanswered: BTreeMap<String, Asked>,
    /// Events were passed over because nobody took those that wait; they are asked for again.
    behind: bool,
    ended: Arc<OnceLock<Ended>>,
}

/// Why a connection is over.
enum Over {
    /// Another one goes on.
    Again(String),
    /// Nothing goes on.
    Ended(Ended),
    /// Nobody is interested any more.
    Left,
}

impl Worker {
    pub(super) fn new(
        target: Target,
        mode: Mode,
        position: u64,
        requests: mpsc::Receiver<Asked>,
        events: mpsc::Sender<Message>,
        ended: Arc<OnceLock<Ended>>,
    ) -> Self {
        Self {
            target,
            mode,
            position,
            requests,
            events,
            unanswered: BTreeMap::new(),
            behind: false,
            ended,
        }
    }

    /// Works until the run ends or the client leaves.
    pub(super) async fn run(mut self, first: Connection) {
        let mut connection = first;
        let ended = loop {
            let over = self.serve(&mut connection).await;
            // The last word, or the answer to it; whoever does not hear it does without.
            let _ = tokio::time::timeout(CLOSING, connection.close(None)).await;
            drop(connection);
            match over {
                Over::Left => return,
                Over::Ended(ended) => break ended,
                Over::Again(why) => match self.come_back(why).await {
                    Ok(next) => connection = next,
                    Err(ended) => break ended,
                },
            }
        };
        // Said before the channels close, which is what wakes those who wait.
        let _ = self.ended.set(ended);
    }

    /// Hears and says until the connection is over.
    async fn serve(&mut self, connection: &mut Connection) -> Over {
        let again: Vec<Frame> = self
            .unanswered
            .values()
            .map(|asked| frame(&asked.request))
            .collect();
        for frame in again {
            if let Err(error) = connection.send(frame).await {
                return Over::Again(error.to_string());
            }
        }
        let events = self.events.clone();
        loop {
            // Every arm is cancel safe: a frame, a command and the room for events stay where they are until they are taken.
            tokio::select! {
                heard = connection.next() => {
                    if let ControlFlow::Break(over) = self.hear(heard) {
                        return over;
                    }
                }
                asked = self.requests.recv() => {
                    let Some(asked) = asked else {
                        return Over::Left;
                    };
                    let frame = frame(&asked.request);
                    self.unanswered.insert(asked.request.id.clone(), asked);
                    if let Err(error) = connection.send(frame).await {
                        return Over::Again(error.to_string());
                    }
                }
                room = events.reserve_many(events.max_capacity()), if self.behind => {
                    if room.is_err() {
                        return Over::Left;
                    }
                    // Everything that waited was taken, so there is room for what was passed over.
                    drop(room);
                    return Over::Again("the events that were passed over are asked for again".to_owned());
                }
                () = events.closed() => return Over::Left,
            }
        }
    }

    fn hear(&mut self, heard: Option<Result<Frame, Error>>) -> ControlFlow<Over> {
        match heard {
            None => ControlFlow::Break(Over::Again("the server has gone".to_owned())),
            Some(Err(error)) => ControlFlow::Break(Over::Again(error.to_string())),
            Some(Ok(Frame::Close(frame))) => ControlFlow::Break(over(frame)),
            Some(Ok(Frame::Text(text))) => {
                if let Some(message) = Message::read(&text) {
                    self.take(message);
                }
                ControlFlow::Continue(())
            }
            Some(Ok(_)) => ControlFlow::Continue(()),
        }
    }

    /// Hands a message to whom it belongs.
    fn take(&mut self, message: Message) {
        if let Message::Direct(direct) = &message
            && let Some(id) = &direct.command_id
        {
            if let Some(asked) = self.unanswered.remove(id) {
                // Nobody waits for it any more.
                let _ = asked.answer.send(direct.answer.clone());
            }
            return;
        }
        let seq = message.seq();
        if self.behind || seq.is_some_and(|seq| seq <= self.position) {
            return;
        }
        match self.events.try_send(message) {
            Ok(()) => self.position = seq.unwrap_or(self.position),
            Err(TrySendError::Full(_)) => self.behind = seq.is_some(),
            // Found out by whoever looks at the channel next.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    /// Connects again and takes up where the last connection was left.
    async fn come_back(&mut self, mut why: String) -> Result<Connection, Ended> {
        let handshake = Handshake {
            mode: self.mode,
            send_previous_events: false,
            after_seq: Some(self.position),
        };
        for attempt in 0..TRIES {
            match self.target.find() {
                Err(FindError::NotLive { .. } | FindError::NoExecution { .. }) => {
                    return Err(Ended::RunEnded);
                }
                Err(error) => why = error.to_string(),
                Ok(endpoint) => match connection::open(&endpoint, handshake).await {
                    Ok((connection, _)) => {
                        self.behind = false;
                        return Ok(connection);
                    }
                    Err(error @ (ConnectError::Refused { .. } | ConnectError::Unauthorized { .. })) => {
                        return Err(Ended::Refused(error.to_string()));
                    }
                    Err(error) => why = error.to_string(),
                },
            }
            tokio::time::sleep(FIRST_WAIT * 2_u32.pow(attempt)).await;
        }
        Err(Ended::Lost(why))
    }
}

fn frame(request: &Request) -> Frame {
    let text = serde_json::to_string(request).expect("a command has text keys");
    Frame::text(text)
}

/// What a closing frame means.
fn over(frame: Option<CloseFrame>) -> Over {
    let Some(frame) = frame else {
        return Over::Again("the server closed".to_owned());
    };
    match frame.code {
        CloseCode::Away | CloseCode::Normal => Over::Ended(Ended::RunEnded),
        // Too slow, or silent for too long: what was missed is asked for again.
        CloseCode::Again => Over::Again(frame.reason.to_string()),
        CloseCode::Policy if frame.reason == "silent" => Over::Again(frame.reason.to_string()),
        _ => Over::Ended(Ended::Refused(frame.reason.to_string())),
    }
}
