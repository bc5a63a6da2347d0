//! The installed git as a child process, for everything that reaches a remote. It asks the user nothing, has a time limit, and
//! its output is limited.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use hankweave_runtime::world::World;
use hankweave_runtime::world::environment::find_program;
use hankweave_runtime::world::process::{
    BoundedLines, CommandSpec, GroupSignal, SpawnedProcess, Stdin, child_environment,
};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use crate::error::RemoteError;
use crate::url::shown;

/// Time limit of a command. A first push of a large history over a slow line takes longest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Read limit of a command's output, in bytes.
const MOST_PRINTED: u64 = 64 << 20;

/// Read limit of a command's error output, in bytes.
const MOST_SAID: u64 = 4 << 10;

/// Variables that tell git how to reach a remote and with which rights. Git's other variables could lead it to other repositories.
const PASSED_ON: [&str; 12] = [
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
];

/// Settings for every command: git runs no programs that the repository names, and does not clean up on its own.
const SETTINGS: [&str; 7] = [
    // Refuses addresses that are a command; `remote.json` of a copied folder may have one.
    "protocol.ext.allow=never",
    // Fetched objects go into one file, whose length is limited.
    "fetch.unpackLimit=1",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.logAllRefUpdates=false",
    "push.gpgSign=false",
];

/// Git for one repository.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    world: World,
    program: PathBuf,
    /// Folder of the repository; `None` for questions about a remote.
    repository: Option<PathBuf>,
    environment: BTreeMap<OsString, OsString>,
    /// Longest file that a command may write, in bytes.
    most_written: Option<u64>,
}

/// Output of a command.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) exit: ProcessExit,
    /// Standard output.
    pub(crate) printed: Vec<u8>,
    /// Error output, without hints and line breaks.
    pub(crate) said: String,
}

impl GitOutput {
    /// Removes the password of the address `url` from the error output.
    pub(crate) fn without_secret(self, url: &str) -> Self {
        Self {
            said: self.said.replace(url, &shown(url)),
            ..self
        }
    }

    /// Returns the standard output of a successful command, else an error with its error output.
    pub(crate) fn or_refused(self, action: &'static str) -> Result<String, RemoteError> {
        match self.exit.is_success() {
            true => Ok(String::from_utf8_lossy(&self.printed).into_owned()),
            false => Err(RemoteError::Git {
                action,
                said: self.said,
            }),
        }
    }
}

impl Git {
    /// Creates a git for the repository in this folder.
    pub(crate) fn new(world: &World, repository: &Path) -> Result<Self, RemoteError> {
        Ok(Self {
            repository: Some(repository.to_owned()),
            ..Self::anywhere(world)?
        })
    }

    /// Creates a git without a repository, for questions about a remote.
    pub(crate) fn anywhere(world: &World) -> Result<Self, RemoteError> {
        let path = world.environment.get("PATH").unwrap_or_default();
        let program = find_program(&*world.disk, "git", path).ok_or(RemoteError::NoGit)?;
        Ok(Self {
            world: world.clone(),
            program,
            repository: None,
            environment: environment_of(world),
            most_written: None,
        })
    }

    /// Keeps ssh from asking for passwords, whatever the user's settings are.
    pub(crate) async fn without_questions(mut self) -> Result<Self, RemoteError> {
        let variable = self.environment.get(OsStr::new("GIT_SSH_COMMAND")).cloned();
        let ssh_command = match variable {
            Some(command) => Some(command.to_string_lossy().into_owned()),
            // `GIT_SSH` names a program in place of ssh, which may not know our option.
            None if self.environment.contains_key(OsStr::new("GIT_SSH")) => return Ok(self),
            None => {
                let setting = self
                    .ask("read its settings", &["config", "--get", "core.sshCommand"])
                    .await?;
                let setting = String::from_utf8_lossy(&setting.printed).trim().to_owned();
                Some(setting).filter(|setting| !setting.is_empty())
            }
        };
        if let Some(command) = in_batch_mode(ssh_command.as_deref().unwrap_or("ssh")) {
            self.environment.insert("GIT_SSH_COMMAND".into(), command.into());
        }
        Ok(self)
    }

    /// Limits the length of the files that a command may write; a longer file ends the command.
    pub(crate) fn with_limit(&self, most_written: u64) -> Self {
        Self {
            most_written: Some(most_written),
            ..self.clone()
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Returns the pack folder of the repository.
    pub(crate) fn packs(&self) -> Option<PathBuf> {
        self.repository
            .as_ref()
            .map(|repository| repository.join("objects/pack"))
    }

    /// Fetches only these references, from a remote or a local repository.
    pub(crate) async fn fetch(
        &self,
        action: &'static str,
        from: &str,
        references: &[&str],
    ) -> Result<GitOutput, RemoteError> {
        let options = ["--quiet", "--no-tags", "--no-write-fetch-head", "--", from];
        let arguments = [&["fetch"], &options[..], references].concat();
        self.ask(action, &arguments).await
    }

    /// Runs a command and returns its standard output; fails if the command fails.
    pub(crate) async fn run(&self, action: &'static str, arguments: &[&str]) -> Result<String, RemoteError> {
        self.ask(action, arguments).await?.or_refused(action)
    }

    /// Runs a command and returns its output, also if it fails.
    pub(crate) async fn ask(
        &self,
        action: &'static str,
        arguments: &[&str],
    ) -> Result<GitOutput, RemoteError> {
        self.with_input(action, arguments, Vec::new()).await
    }

    /// Runs a command and passes each line of its output, which ends with the byte `end`, to `visit`. A line longer than
    /// `longest` bytes, or an error of `visit`, ends the command.
    pub(crate) async fn each_line(
        &self,
        action: &'static str,
        arguments: &[&str],
        end: u8,
        longest: usize,
        mut visit: impl FnMut(&[u8]) -> Result<(), RemoteError>,
    ) -> Result<(), RemoteError> {
        let mut process = self.start(action, arguments, Stdin::Closed)?;
        let printed = std::mem::replace(&mut process.stdout, Box::pin(tokio::io::empty()));
        let mut printed = BoundedLines::new(printed, end, longest);
        let lines = async {
            loop {
                let read = printed.next().await;
                match read.map_err(|source| RemoteError::Process { action, source })? {
                    Some(piece) if piece.is_last => visit(&piece.bytes)?,
                    Some(_) => return Err(RemoteError::corrupt("a name in it is longer than any file has")),
                    None => return Ok(()),
                }
            }
        };
        let lines = timeout(PATIENCE, lines).await;
        let limit = PATIENCE;
        let lines = lines.unwrap_or(Err(RemoteError::TimedOut { action, limit }));
        // Closes the pipe, so that git does not wait for a reader of more output.
        drop(printed);
        if lines.is_err() {
            // The error to report is the reason for ending the command.
            let _ = process.control.signal_group(GroupSignal::Kill);
        }
        let answer = self.finish(action, process).await?;
        lines?;
        match answer.exit.is_success() {
            true => Ok(()),
            false => Err(RemoteError::corrupt(answer.said)),
        }
    }

    /// Runs a command with this standard input.
    pub(crate) async fn with_input(
        &self,
        action: &'static str,
        arguments: &[&str],
        input: Vec<u8>,
    ) -> Result<GitOutput, RemoteError> {
        let stdin = match input.is_empty() {
            true => Stdin::Closed,
            false => Stdin::Bytes(input),
        };
        let process = self.start(action, arguments, stdin)?;
        self.finish(action, process).await
    }

    /// Starts a command. The caller handles its input and output.
    pub(crate) fn start(
        &self,
        action: &'static str,
        arguments: &[&str],
        stdin: Stdin,
    ) -> Result<SpawnedProcess, RemoteError> {
        let mut args: Vec<OsString> = Vec::new();
        for setting in SETTINGS {
            args.extend(["-c".into(), setting.into()]);
        }
        if let Some(repository) = &self.repository {
            args.extend(["--git-dir".into(), repository.clone().into_os_string()]);
        }
        args.extend(arguments.iter().map(Into::into));
        let (program, args) = match self.most_written {
            Some(most) => limited(&self.program, args, most),
            None => (self.program.clone(), args),
        };
        let spec = CommandSpec {
            program,
            args,
            env: self.environment.clone(),
            work_dir: "/".into(),
            stdin,
            marker: format!("git/{}", self.world.ids.nonce()),
        };
        let spawned = self.world.spawner.spawn(spec);
        spawned.map_err(|source| RemoteError::Process { action, source })
    }

    /// Waits for the end of a command. After the time limit, kills it and its child processes.
    pub(crate) async fn finish(
        &self,
        action: &'static str,
        mut process: SpawnedProcess,
    ) -> Result<GitOutput, RemoteError> {
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        let read = async {
            tokio::try_join!(
                read(&mut process.stdout, &mut printed, MOST_PRINTED),
                read(&mut process.stderr, &mut said, MOST_SAID),
            )?;
            process.control.wait().await
        };
        let ended = timeout(PATIENCE, read).await;
        // Ends leftover helpers, such as ssh or a password helper.
        process.control.sweep().await;
        let limit = PATIENCE;
        let exit = ended.map_err(|_| RemoteError::TimedOut { action, limit })?;
        let exit = exit.map_err(|source| RemoteError::Process { action, source })?;
        Ok(GitOutput {
            exit,
            printed,
            said: without_hints(&String::from_utf8_lossy(&said)),
        })
    }
}

/// Reads at most `most` bytes, and discards the rest so that the command does not wait.
async fn read(stream: &mut Pin<Box<dyn AsyncRead + Send>>, into: &mut Vec<u8>, most: u64) -> io::Result<()> {
    stream.take(most).read_to_end(into).await?;
    tokio::io::copy(stream, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Returns the environment for git: that of every child, with the variables that may be passed on to git.
fn environment_of(world: &World) -> BTreeMap<OsString, OsString> {
    let mut own = child_environment(&world.environment, &BTreeMap::new());
    for name in PASSED_ON {
        if let Some(value) = world.environment.get(name) {
            own.insert(name.into(), value.to_owned());
        }
    }
    let fixed = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("LC_ALL", "C"),
    ];
    own.extend(fixed.map(|(name, value)| (name.into(), value.into())));
    own
}

/// Returns a command that writes no file longer than `most` bytes: the shell sets the system's limit, and the processes that git starts inherit it.
fn limited(program: &Path, args: Vec<OsString>, most: u64) -> (PathBuf, Vec<OsString>) {
    // Setting the limit fails if a lower one is already set, which then stays.
    const SCRIPT: &str = "ulimit -f \"$1\" 2>/dev/null; shift; exec \"$@\"";
    let blocks = most.div_ceil(BLOCK).to_string();
    let mut shell: Vec<OsString> = vec!["-c".into(), SCRIPT.into(), "sh".into(), blocks.into()];
    shell.push(program.into());
    shell.extend(args);
    ("/bin/sh".into(), shell)
}

/// Unit of `ulimit -f`, in bytes.
const BLOCK: u64 = 512;

/// Returns a command for ssh that asks nothing; `None` for another program, which may take other options.
fn in_batch_mode(command: &str) -> Option<String> {
    let program = command.split_whitespace().next()?;
    let is_ssh = Path::new(program).file_name() == Some(OsStr::new("ssh"));
    is_ssh.then(|| format!("{command} -o BatchMode=yes"))
}

/// Returns git's error output, without its hints and without line breaks.
fn without_hints(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let lines: Vec<&str> = lines.collect();
    match lines.is_empty() {
        true => "git says nothing".to_owned(),
        false => lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_asks_nothing_and_other_programs_are_left_alone() {
        assert_eq!(in_batch_mode("ssh").as_deref(), Some("ssh -o BatchMode=yes"));
        let own = in_batch_mode("/usr/bin/ssh -i key");
        assert_eq!(own.as_deref(), Some("/usr/bin/ssh -i key -o BatchMode=yes"));
        assert_eq!(in_batch_mode("plink -x"), None);
        assert_eq!(in_batch_mode(""), None);
    }

    #[test]
    fn what_git_says_is_a_line_without_its_hints() {
        let said = "remote: no\nhint: try this\n\nfatal: it is not there\n";
        assert_eq!(without_hints(said), "remote: no; fatal: it is not there");
        assert_eq!(without_hints("\n"), "git says nothing");
    }
}
