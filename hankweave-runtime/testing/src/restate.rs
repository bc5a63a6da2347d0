//! A real Restate server for tests, on ports and in a folder of its own, and a balancer before several workers.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::agents::{Skip, restate_server};

/// Ends the server when we do, however that is: our end of the pipe closes then.
const RUN: &str = r#""$@" </dev/null & pid=$!; read -r _; kill -KILL $pid; wait $pid"#;

/// How long a start or an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Server {
    running: Option<Child>,
    admin: SocketAddr,
    ingress: SocketAddr,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] when it cannot be installed or does not start.
    pub fn start() -> Result<Self, Skip> {
        let skip = |error: io::Error| Skip(error.to_string());
        let folder = tempfile::tempdir().map_err(skip)?;
        let [admin, ingress, fabric] = free_addresses().map_err(skip)?;
        let data = folder.path().join("data");
        let configuration = format!(
            r#"
node-name = "test"
listen-mode = "tcp"
bind-ip = "127.0.0.1"
bind-port = {}
advertised-host = "127.0.0.1"
base-dir = {data:?}
default-num-partitions = 1
disable-telemetry = true
rocksdb-total-memory-size = "64.0 MiB"
[admin]
bind-address = "{admin}"
disable-web-ui = true
[ingress]
bind-address = "{ingress}"
"#,
            fabric.port()
        );
        fs::write(folder.path().join("restate.toml"), configuration).map_err(skip)?;
        let mut server = Self {
            running: None,
            admin,
            ingress,
            folder,
        };
        server.restart()?;
        Ok(server)
    }

    /// Kills it as a machine without power would.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.stdin.take());
            let _ = running.wait();
        }
    }

    /// Starts it on its data again, on its old ports.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] as [`start`](Self::start) does.
    pub fn restart(&mut self) -> Result<(), Skip> {
        let skip = |error: io::Error| Skip(format!("restate-server: {error}"));
        let log = fs::File::create(self.folder.path().join("log")).map_err(skip)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", RUN, "sh"]).arg(restate_server()?);
        command.args(["--no-logo", "-c", "restate.toml"]);
        command.current_dir(self.folder.path()).stdin(Stdio::piped());
        command.stdout(log.try_clone().map_err(skip)?).stderr(log);
        self.running = Some(command.spawn().map_err(skip)?);
        let until = Instant::now() + PATIENCE;
        // The ingress answers when both do.
        while !is_healthy(self.admin, "/health") || !is_healthy(self.ingress, "/restate/health") {
            if Instant::now() > until {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(Skip(format!("restate-server does not answer: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The URL of its admin interface.
    #[must_use]
    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// Returns the answer of the admin interface.
    ///
    /// # Panics
    ///
    /// Panics when it does not answer.
    #[must_use]
    pub fn ask_admin(&self, path: &str) -> Value {
        answer(self.admin, "GET", path, "")
            .expect("the admin interface answers")
            .1
    }

    /// Cancels an invocation, as its operators do.
    ///
    /// # Panics
    ///
    /// Panics when the admin interface does not accept it.
    pub fn cancel(&self, invocation: &str) {
        let path = format!("/invocations/{invocation}/cancel");
        let (status, answer) = answer(self.admin, "PATCH", &path, "").expect("the admin interface answers");
        assert_eq!(status, 202, "{answer}");
    }

    /// Calls a handler, with JSON or without anything, and returns the status and what came back.
    ///
    /// # Panics
    ///
    /// Panics when nothing comes back within a minute.
    #[must_use]
    pub fn call(&self, path: &str, body: &str) -> (u16, Value) {
        answer(self.ingress, "POST", path, body).expect("the ingress answers")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_healthy(address: SocketAddr, path: &str) -> bool {
    matches!(answer(address, "GET", path, ""), Ok((200, _)))
}

/// One request, so old that the end of the answer is the end of the connection.
fn answer(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{kind}Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let strange = || io::Error::new(io::ErrorKind::InvalidData, text.clone());
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (_, body) = text.split_once("\r\n\r\n").ok_or_else(strange)?;
    let body = serde_json::from_str(body).unwrap_or_default();
    Ok((status.ok_or_else(strange)?, body))
}

/// Returns addresses of this machine on which no program listens at this moment.
///
/// # Errors
///
/// Returns the error of the operating system if there are none.
pub fn free_addresses<const N: usize>() -> io::Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    let mut listeners = Vec::new();
    for address in &mut addresses {
        let listener = std::net::TcpListener::bind(*address)?;
        *address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(addresses)
}

/// One address for several workers: each connection is passed to the first worker that answers.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Balancer {
    /// Listens in front of these workers, which need not run yet.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn before(workers: &[SocketAddr]) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        runtime.spawn(pass_on(listener, workers.into()));
        let runtime = Some(runtime);
        Ok(Self { address, runtime })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn pass_on(listener: TcpListener, workers: Arc<[SocketAddr]>) {
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let workers = Arc::clone(&workers);
        connections.spawn(async move {
            for worker in workers.iter() {
                if let Ok(mut connection) = tokio::net::TcpStream::connect(worker).await {
                    // Either end may break at any moment.
                    let _ = copy_bidirectional(&mut stream, &mut connection).await;
                    return;
                }
            }
        });
    }
}
