//! Processes that an agent asks its client for. They carry the marker of the agent, so they go away with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_agents::acp::result_line;
use hankweave_core::agent::ProcessExit;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::host::ProcessHost;
use super::AgentEnvironment;
use crate::world::process::{CommandSpec, GroupSignal, ProcessControl, SpawnedProcess, Stdin};

/// How many there may be at the same time.
const MOST_TERMINALS: usize = 32;

/// How much of the output of one is kept at most, in bytes.
const MOST_OUTPUT: usize = 1 << 20;

const CHUNK_BYTES: usize = 64 << 10;

/// The processes of one agent, by their names.
pub(super) struct Terminals {
    host: ProcessHost,
    place: AgentEnvironment,
    open: BTreeMap<String, Terminal>,
    /// Tasks that follow the processes; each returns its name when its process has ended.
    followers: JoinSet<String>,
    started: u64,
}

struct Terminal {
    kept: Arc<Mutex<TerminalOutput>>,
    kill: CancellationToken,
    /// Requests that wait for the end.
    waiting: Vec<Value>,
}

/// The end of what a process has printed.
#[derive(Debug)]
struct TerminalOutput {
    output: Vec<u8>,
    most: usize,
    is_truncated: bool,
    exit: Option<ProcessExit>,
}

impl Terminals {
    pub(super) fn new(host: ProcessHost, place: AgentEnvironment) -> Self {
        Self {
            host,
            place,
            open: BTreeMap::new(),
            followers: JoinSet::new(),
            started: 0,
        }
    }

    /// Starts a process and returns its name.
    pub(super) fn start(
        &mut self,
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        folder: PathBuf,
        limit: Option<u64>,
    ) -> Result<String, String> {
        if self.open.len() >= MOST_TERMINALS {
            return Err(format!(
                "there are {MOST_TERMINALS} terminals already; release some"
            ));
        }
        let mut variables = self.place.env.clone();
        for (name, value) in env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("`{name}` is no variable"));
            }
            variables.insert(name.into(), value.into());
        }
        let program = self.program(&command, &folder, &variables)?;
        let spec = CommandSpec {
            program,
            args: args.into_iter().map(OsString::from).collect(),
            env: variables,
            work_dir: folder,
            stdin: Stdin::Closed,
            marker: self.place.marker.clone(),
        };
        let spawned = self.host.world().spawner.spawn(spec);
        let process = spawned.map_err(|error| format!("`{command}` did not start: {error}"))?;
        self.started += 1;
        let name = format!("terminal-{}", self.started);
        let terminal = Terminal::new(limit);
        let (kept, kill) = (Arc::clone(&terminal.kept), terminal.kill.clone());
        let drain = self.host.limits().drain;
        self.followers
            .spawn(capture(name.clone(), process, kept, kill, drain));
        self.open.insert(name.clone(), terminal);
        Ok(name)
    }

    /// A bare name is looked up; a path counts from the folder of the process.
    fn program(
        &self,
        command: &str,
        folder: &Path,
        env: &BTreeMap<OsString, OsString>,
    ) -> Result<PathBuf, String> {
        if command.contains('/') {
            return Ok(folder.join(command));
        }
        let path = env.get(&OsString::from("PATH")).cloned().unwrap_or_default();
        let found = self.host.find_program(command, &path);
        found.ok_or_else(|| format!("the program `{command}` was not found on PATH"))
    }

    /// Returns the output of a process and its exit; `None` when there is no such process.
    pub(super) fn output(&self, name: &str) -> Option<Value> {
        let kept = self.open.get(name)?.kept();
        let mut told =
            json!({"output": String::from_utf8_lossy(&kept.output), "truncated": kept.is_truncated});
        if let Some(exit) = kept.exit {
            told["exitStatus"] = status(exit);
        }
        Some(told)
    }

    /// How a process has ended, or `Some(None)` when that is answered later.
    pub(super) fn wait(&mut self, name: &str, request: &Value) -> Option<Option<Value>> {
        let terminal = self.open.get_mut(name)?;
        let exit = terminal.kept().exit;
        if exit.is_none() && terminal.waiting.len() < MOST_TERMINALS {
            terminal.waiting.push(request.clone());
        }
        Some(exit.map(status))
    }

    /// Kills a process, and tells whether there is one of that name.
    pub(super) fn kill(&self, name: &str) -> bool {
        let terminal = self.open.get(name);
        terminal.inspect(|terminal| terminal.kill.cancel()).is_some()
    }

    /// Ends a process and forgets its output.
    pub(super) fn release(&mut self, name: &str) -> bool {
        let terminal = self.open.remove(name);
        terminal.inspect(|terminal| terminal.kill.cancel()).is_some()
    }

    /// Waits for the end of a process, and returns the lines for those who waited for it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an end is taken only when it is returned.
    pub(super) async fn wait_ended(&mut self) -> Vec<String> {
        let Some(ended) = self.followers.join_next().await else {
            return std::future::pending().await;
        };
        let Ok(Some(terminal)) = ended.map(|name| self.open.get_mut(&name)) else {
            return Vec::new();
        };
        let exit = terminal.kept().exit.map_or(Value::Null, status);
        let waiting = std::mem::take(&mut terminal.waiting);
        waiting
            .iter()
            .map(|request| result_line(request, &exit))
            .collect()
    }
}

impl Terminal {
    fn new(limit: Option<u64>) -> Self {
        let most = limit.and_then(|limit| usize::try_from(limit).ok());
        let kept = TerminalOutput {
            output: Vec::new(),
            most: most.unwrap_or(MOST_OUTPUT).min(MOST_OUTPUT),
            is_truncated: false,
            exit: None,
        };
        Self {
            kept: Arc::new(Mutex::new(kept)),
            kill: CancellationToken::new(),
            waiting: Vec::new(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, TerminalOutput> {
        lock(&self.kept)
    }
}

impl TerminalOutput {
    fn push(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        let mut cut = self.output.len().saturating_sub(self.most);
        self.is_truncated |= cut > 0;
        // Between characters: the bytes that continue with one are not its first.
        while self
            .output
            .get(cut)
            .is_some_and(|byte| cut > 0 && byte & 0xc0 == 0x80)
        {
            cut += 1;
        }
        self.output.drain(..cut);
    }
}

fn lock(kept: &Mutex<TerminalOutput>) -> MutexGuard<'_, TerminalOutput> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what a process prints until its end, which comes sooner when it is killed.
async fn capture(
    name: String,
    process: SpawnedProcess,
    kept: Arc<Mutex<TerminalOutput>>,
    kill: CancellationToken,
    drain: std::time::Duration,
) -> String {
    let SpawnedProcess {
        stdout,
        stderr,
        mut control,
        ..
    } = process;
    let ended = CancellationToken::new();
    let ending = async {
        let exit = end(&mut *control, &kill).await;
        ended.cancel();
        exit
    };
    let reading = async { tokio::join!(keep(stdout, &kept), keep(stderr, &kept)) };
    // A descendant may hold the pipe.
    let in_time = async {
        tokio::pin!(reading);
        tokio::select! {
            _ = &mut reading => {}
            () = ended.cancelled() => drop(timeout(drain, reading).await),
        }
    };
    let (exit, ()) = tokio::join!(ending, in_time);
    lock(&kept).exit = Some(exit);
    name
}

async fn end(control: &mut dyn ProcessControl, kill: &CancellationToken) -> ProcessExit {
    let exit = tokio::select! {
        exit = control.wait() => exit,
        () = kill.cancelled() => {
            // What cannot be killed is swept with its agent.
            let _ = control.signal_group(GroupSignal::Kill);
            control.wait().await
        }
    };
    exit.unwrap_or(ProcessExit::Signaled(KILLED))
}

/// Signal reported for a process whose end could not be seen.
const KILLED: i32 = 9;

async fn keep(mut pipe: Pin<Box<dyn AsyncRead + Send>>, kept: &Mutex<TerminalOutput>) {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    while pipe.read_buf(&mut chunk).await.is_ok_and(|read| read > 0) {
        lock(kept).push(&chunk);
        chunk.clear();
    }
}

fn status(exit: ProcessExit) -> Value {
    match exit {
        ProcessExit::Exited(code) => json!({"exitCode": code, "signal": null}),
        ProcessExit::Signaled(signal) => json!({"exitCode": null, "signal": signal_name(signal)}),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        other => return other.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_an_output_is_kept_and_no_character_is_cut() {
        let terminal = Terminal::new(Some(5));
        let mut kept = terminal.kept();
        kept.push("abcdefg".as_bytes());
        assert_eq!((kept.output.as_slice(), kept.is_truncated), (&b"cdefg"[..], true));
        kept.push("äää".as_bytes());
        assert_eq!(String::from_utf8_lossy(&kept.output), "ää");
        assert_eq!(Terminal::new(Some(u64::MAX)).kept().most, MOST_OUTPUT);
    }
}
