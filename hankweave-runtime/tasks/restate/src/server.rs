//! Server for Restate: HTTP/2 without TLS, one stream for each execution, which lives as long as both sides answer pings (TASK-89).

use std::time::Duration;

use hankweave_runtime::Shutdown;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use restate_sdk::endpoint::Endpoint;
use restate_sdk::hyper::HyperEndpoint;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Silence after which a ping is sent, and time limit of its answer. After both, the connection and its executions end, and Restate may give them to
/// another worker. Both times together are less than the minute for which that worker's run waits for the directory (TASK-58).
const SILENCE: Duration = Duration::from_secs(20);

/// Pause when the system refuses further connections.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until asked to stop, and then until all executions have ended, but at most for `patience`. A connection that breaks ends its executions.
pub(crate) async fn serve(
    listener: TcpListener,
    endpoint: Endpoint,
    shutdown: &Shutdown,
    patience: Duration,
) {
    let endpoint = HyperEndpoint::new(endpoint);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, endpoint.clone(), shutdown.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection");
                    sleep(PAUSE).await;
                }
            },
        }
    }
    let all_end = async { while connections.join_next().await.is_some() {} };
    if timeout(patience, all_end).await.is_err() {
        tracing::warn!("executions that do not end are dropped");
    }
}

/// Answers Restate on one connection until it breaks, or until all its executions have ended after a request to stop.
async fn serve_connection(stream: TcpStream, endpoint: HyperEndpoint, shutdown: Shutdown) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(SILENCE)
        .keep_alive_timeout(SILENCE);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), endpoint));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = shutdown.requested() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to Restate has ended");
    }
}
