//! Connection for hints (LISTEN and NOTIFY), which also closes idle connections of the pool. No work depends on the arrival of a hint.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::{AsyncMessage, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::CancellationToken;

use crate::coordinator::Hints;

/// Time after which an unused connection is closed.
const IDLE: Duration = Duration::from_secs(30);
/// Pause before another attempt to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for which a hint waits, so that one NOTIFY stands for several hints; each NOTIFY costs the database a commit.
const TOGETHER: Duration = Duration::from_millis(10);

/// Address of the database, and the encryption of the connection.
type ConnectionConfig = (Config, MakeRustlsConnect);

/// Background task that listens.
pub(super) struct NotifyListener {
    /// Wakes the task to send a hint to other machines.
    outgoing: Arc<Notify>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl NotifyListener {
    pub(super) fn start(server: ConnectionConfig, pool: Pool, hints: Arc<Hints>) -> Self {
        let (outgoing, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let work = work(server, pool, hints, outgoing.clone());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            stopped.run_until_cancelled(work).await;
        });
        Self { outgoing, stop, task }
    }

    /// Passes a hint to other machines.
    pub(super) fn notify(&self) {
        self.outgoing.notify_one();
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        // A panic in the listener loses only hints.
        let _ = self.task.await;
    }
}

async fn work(server: ConnectionConfig, pool: Pool, hints: Arc<Hints>, outgoing: Arc<Notify>) {
    let listen = async {
        loop {
            if let Err(error) = listen(&server, &hints, &outgoing).await {
                tracing::debug!(%error, "no hints from the registry for now");
            }
            sleep(AGAIN).await;
            // Hints may have been lost while there was no connection.
            hints.notify();
        }
    };
    tokio::join!(listen, close_idle(&pool));
}

async fn close_idle(pool: &Pool) {
    let mut ticks = interval(IDLE / 3);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        pool.retain(|_, metrics| metrics.last_used() < IDLE);
    }
}

/// Receives and sends hints until the connection breaks.
async fn listen((config, secure): &ConnectionConfig, hints: &Hints, outgoing: &Notify) -> Result<(), Error> {
    let (client, mut connection) = config.connect(secure.clone()).await?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let receive = async {
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(_) = message? {
                hints.notify();
            }
        }
        Ok(())
    };
    let send = async {
        // Not synchronous: a hint need not survive a crash.
        client
            .batch_execute("SET synchronous_commit = off; LISTEN hankweave_tasks")
            .await?;
        loop {
            outgoing.notified().await;
            sleep(TOGETHER).await;
            client.batch_execute("NOTIFY hankweave_tasks").await?;
        }
    };
    tokio::select! {
        ended = receive => ended,
        failed = send => failed,
    }
}
