//! A real sshd for tests: on a free port of 127.0.0.1, with keys and a configuration of its own, stopped at the end.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

use crate::agents::Skip;

const SSHD: &str = "/usr/sbin/sshd";

/// Path where a server that runs as root requires an empty folder.
const EMPTY: &str = "/run/sshd";

/// Ends the server when we do, however that is: our end of the pipe closes then.
const RUN: &str =
    r#"sshd=$1; shift; "$sshd" "$@" </dev/null & pid=$!; read -r _; kill -TERM $pid; wait $pid"#;

/// A server that lets in the user who runs the tests, until it is dropped.
#[derive(Debug)]
pub struct Sshd {
    server: Child,
    /// Closing it ends the server.
    stdin: Option<ChildStdin>,
    log: Option<JoinHandle<()>>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Sshd {
    /// Starts one and waits until it listens.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] when OpenSSH is not installed or does not start.
    pub fn start() -> Result<Self, Skip> {
        if !Path::new(SSHD).exists() {
            return Err(Skip(format!("{SSHD} is not installed")));
        }
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all(EMPTY).map_err(skip)?;
        }
        let folder = tempfile::tempdir().map_err(skip)?;
        for name in ["host", "client"] {
            make_key(&folder.path().join(name))?;
        }
        let listener = TcpListener::bind("127.0.0.1:0").map_err(skip)?;
        let port = listener.local_addr().map_err(skip)?.port();
        drop(listener);
        write_settings(folder.path(), port)?;
        let mut server = Command::new("/bin/sh");
        server.args(["-c", RUN, "sh", SSHD, "-D", "-e", "-f"]);
        server.arg(folder.path().join("sshd_config"));
        server
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut server = server.spawn().map_err(skip)?;
        let stdin = server.stdin.take();
        let lines = BufReader::new(server.stderr.take().expect("it is piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        let ready = lines
            .by_ref()
            .any(|line| line.contains("Server listening on 127.0.0.1"));
        // Later output must not fill the pipe.
        let log = Some(std::thread::spawn(move || lines.for_each(drop)));
        let sshd = Self {
            server,
            stdin,
            log,
            port,
            folder,
        };
        match ready {
            true => Ok(sshd),
            false => Err(Skip("sshd ended at once".to_owned())),
        }
    }

    /// The address of a repository in this folder, for git.
    #[must_use]
    pub fn url(&self, repository: &Path) -> String {
        format!("ssh://127.0.0.1:{}{}", self.port, repository.display())
    }

    /// The value of `GIT_SSH_COMMAND` with which git gets in.
    #[must_use]
    pub fn command(&self) -> String {
        format!("ssh -F {}", self.folder.path().join("ssh_config").display())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends by itself now; nothing depends on how.
        let _ = self.server.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}

fn skip(error: impl Display) -> Skip {
    Skip(error.to_string())
}

fn make_key(path: &Path) -> Result<PathBuf, Skip> {
    let mut keygen = Command::new("ssh-keygen");
    let made = keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .status();
    match made.map_err(skip)?.success() {
        true => Ok(path.to_owned()),
        false => Err(Skip("ssh-keygen makes no key".to_owned())),
    }
}

fn write_settings(folder: &Path, port: u16) -> Result<(), Skip> {
    let (place, host) = (folder.display(), folder.join("host.pub"));
    let host = fs::read_to_string(host).map_err(skip)?;
    fs::write(folder.join("known_hosts"), format!("[127.0.0.1]:{port} {host}")).map_err(skip)?;
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/client.pub\nPidFile none\n\
         StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
    );
    fs::write(folder.join("sshd_config"), server).map_err(skip)?;
    let client = format!(
        "Host *\n  IdentityFile {place}/client\n  IdentitiesOnly yes\n  UserKnownHostsFile {place}/known_hosts\n  StrictHostKeyChecking yes\n"
    );
    fs::write(folder.join("ssh_config"), client).map_err(skip)
}
