//! A real PostgreSQL for tests: a cluster of its own in a temporary folder, reached through a socket there and stopped at the end.

mod secured;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use crate::agents::Skip;

pub use secured::Secured;

/// The variable with the URL of a server to use instead; its user must be allowed to create databases.
const URL: &str = "HANKWEAVE_TEST_POSTGRES_URL";

/// User as which a server is started for root, since PostgreSQL does not run as root. This user owns nothing.
const NOBODY: u32 = 65534;

/// Ends the server when we do, however that is: our end of the pipe closes then.
const RUN: &str =
    r#"postgres=$1; shift; "$postgres" "$@" </dev/null & pid=$!; read -r _; kill -INT $pid; wait $pid"#;

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Cluster {
    server: Child,
    /// Closing it ends the server.
    stdin: Option<ChildStdin>,
    log: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Makes a cluster and waits until it answers. With `durable` it syncs what it commits, as real ones do.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] when PostgreSQL is not installed or does not start.
    pub fn start(durable: bool) -> Result<Self, Skip> {
        Self::start_with(durable, |_| Ok(Vec::new()))
    }

    /// Like `start`, with more settings, which may name files that `prepare` makes in the folder of the server.
    fn start_with(
        durable: bool,
        prepare: impl FnOnce(&Path) -> Result<Vec<String>, Skip>,
    ) -> Result<Self, Skip> {
        let programs = programs()?;
        let folder = tempfile::tempdir().map_err(|error| Skip(error.to_string()))?;
        let (path, data) = (folder.path().to_owned(), folder.path().join("data"));
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).map_err(|error| Skip(error.to_string()))?;
        }
        let mut initdb = as_nobody(&programs.join("initdb"));
        let options = [
            "--no-sync",
            "--auth=trust",
            "--username=hankweave",
            "--encoding=UTF8",
            "--no-locale",
            "-D",
        ];
        let made = initdb.args(options).arg(&data).current_dir(&path).output();
        let made = made.map_err(|error| Skip(format!("initdb: {error}")))?;
        if !made.status.success() {
            return Err(Skip(format!("initdb: {}", String::from_utf8_lossy(&made.stderr))));
        }
        let settings = prepare(&path)?;
        let mut server = as_nobody(Path::new("/bin/sh"));
        server
            .args(["-c", RUN, "sh"])
            .arg(programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&path);
        server.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
        server.args(["-c", if durable { "fsync=on" } else { "fsync=off" }]);
        for setting in &settings {
            server.args(["-c", setting]);
        }
        server
            .current_dir(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut server = server
            .spawn()
            .map_err(|error| Skip(format!("postgres: {error}")))?;
        let stdin = server.stdin.take();
        let lines = BufReader::new(server.stderr.take().expect("it is piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        let ready = lines
            .by_ref()
            .any(|line| line.contains("database system is ready to accept connections"));
        // Later output must not fill the pipe.
        let log = Some(std::thread::spawn(move || lines.for_each(drop)));
        let cluster = Self {
            server,
            stdin,
            log,
            folder,
        };
        match ready {
            true => Ok(cluster),
            false => Err(Skip("postgres ended at once".to_owned())),
        }
    }

    /// The URL of one of its databases; `postgres` is always there.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let socket = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://hankweave@{socket}/{database}")
    }

    /// Stops it and starts another server on its data: committed transactions are there again.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] when it cannot be reached through the tool that does it.
    pub fn restart(&self) -> Result<(), Skip> {
        self.stop()?;
        self.start_again()
    }

    /// Ends it as if its machine had lost power.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart).
    pub fn stop(&self) -> Result<(), Skip> {
        self.control(&["stop", "-m", "immediate"])
    }

    /// Starts a server on the data of one that was stopped.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart).
    pub fn start_again(&self) -> Result<(), Skip> {
        let options = format!("-k {} -c listen_addresses=", self.folder.path().display());
        self.control(&["start", "-o", &options, "-l", "restarted.log"])
    }

    fn control(&self, what: &[&str]) -> Result<(), Skip> {
        let mut control = as_nobody(&programs()?.join("pg_ctl"));
        control
            .args(what)
            .args(["-w", "-s", "-D"])
            .arg(self.folder.path().join("data"));
        control.current_dir(self.folder.path()).stderr(Stdio::null());
        match control.status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(Skip(format!("pg_ctl: {other:?}"))),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // After a restart the server is no longer the child that we started.
        let _ = self.stop();
        drop(self.stdin.take());
        let _ = self.server.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}

/// A database of its own, empty at first; it is removed when this is dropped.
#[derive(Debug)]
pub struct Database {
    url: String,
    name: String,
    server: String,
    /// Keeps the server running as long as a database uses it.
    _cluster: Option<Arc<Cluster>>,
}

impl Database {
    /// Makes one, on a server that all tests of this process share or on the one whose URL is in `HANKWEAVE_TEST_POSTGRES_URL`.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] when there is no PostgreSQL.
    pub fn create() -> Result<Self, Skip> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("hankweave_{}_{number}", std::process::id());
        let (server, url, cluster) = match std::env::var(URL) {
            Ok(url) => (url.clone(), with_database(&url, &name), None),
            Err(_) => {
                let cluster = shared()?;
                (cluster.url("postgres"), cluster.url(&name), Some(cluster))
            }
        };
        psql(&server, &format!("CREATE DATABASE {name}"))?;
        Ok(Self {
            url,
            name,
            server,
            _cluster: cluster,
        })
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = psql(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn shared() -> Result<Arc<Cluster>, Skip> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return Ok(running);
    }
    let started = Arc::new(Cluster::start(false)?);
    *shared = Arc::downgrade(&started);
    Ok(started)
}

/// Returns the URL with another database of its server.
fn with_database(url: &str, name: &str) -> String {
    let (url, options) = url
        .split_once('?')
        .map_or((url, ""), |(url, options)| (url, options));
    let server = match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.split('/').next().unwrap_or_default()),
        None => url.to_owned(),
    };
    match options {
        "" => format!("{server}/{name}"),
        options => format!("{server}/{name}?{options}"),
    }
}

fn psql(url: &str, sql: &str) -> Result<(), Skip> {
    let mut psql = Command::new("psql");
    let done = psql
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(Skip(String::from_utf8_lossy(&done.stderr).into_owned())),
        Err(error) => Err(Skip(format!("psql: {error}"))),
    }
}

/// The folder of the newest installed server.
fn programs() -> Result<PathBuf, Skip> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let installed = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists());
    installed
        .max()
        .ok_or_else(|| Skip("PostgreSQL is not installed".to_owned()))
}

fn as_nobody(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = NOBODY.to_string();
    command
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(program);
    command
}
