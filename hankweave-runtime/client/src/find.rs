//! Finds the server of a live run: from the lock file and the token in its execution directory, or from an address that the user has.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use hankweave_core::discovery::{
    LOCK_FILE, MAX_LOCK_FILE_BYTES, MAX_TOKEN_FILE_BYTES, READ_ONLY_TOKEN_FILE, READ_ONLY_TOKEN_VARIABLE,
    STATE_DIR, ServerLockRecord, TOKEN_FILE, TOKEN_VARIABLE,
};

use crate::system;

/// Target of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAddress {
    /// The run that is live in this execution directory. The server is looked up before each connection, so its port may change.
    Execution(PathBuf),
    /// The server at this address.
    Endpoint(ServerEndpoint),
}

/// Rights of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Watching.
    ReadOnly,
    /// Everything.
    Control,
}

/// A server and the token for it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEndpoint {
    authority: String,
    token: String,
}

/// Why there is nothing to connect to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// The directory was never run in.
    #[error("`{}` is no execution directory: it has no {STATE_DIR}", path.display())]
    NoExecution {
        /// The directory.
        path: PathBuf,
    },
    /// Nothing runs there now.
    #[error("no run is live in `{}`", path.display())]
    NotLive {
        /// The directory.
        path: PathBuf,
    },
    /// A process works there and accepts no clients, or none yet.
    #[error("the process {pid} works in `{}` and takes no clients", path.display())]
    NoPort {
        /// The directory.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The process that runs it is suspended, so it does not answer.
    #[error("the run in `{}` is suspended (process {pid})", path.display())]
    Suspended {
        /// The directory.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The lock file names another machine. A server listens on its own machine, and the folder may come from any user: the address may be a trap to get
    /// the token.
    #[error("the lock file in `{}` names {address}, and this machine has no such address", path.display())]
    Elsewhere {
        /// The directory.
        path: PathBuf,
        /// The address.
        address: IpAddr,
    },
    /// The token cannot be read.
    #[error("failed to read a token in `{}`", path.display())]
    Token {
        /// The state directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// An address that cannot be read.
    #[error("`{0}` is no address of a server; one is http://127.0.0.1:PORT/#token=TOKEN")]
    Address(String),
}

impl RunAddress {
    /// Whether there is a server to connect to, judged without connecting.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.find().is_ok()
    }

    /// Looks for the server, whose process must not be suspended.
    pub(super) fn find_awake(&self) -> Result<ServerEndpoint, FindError> {
        let endpoint = self.find()?;
        match self {
            Self::Execution(path) => check_awake(path).map(|()| endpoint),
            Self::Endpoint(_) => Ok(endpoint),
        }
    }

    /// Looks for the server.
    pub(super) fn find(&self) -> Result<ServerEndpoint, FindError> {
        match self {
            Self::Endpoint(endpoint) => Ok(endpoint.clone()),
            Self::Execution(path) => find_in(path, &[Access::Control, Access::ReadOnly]),
        }
    }
}

impl Access {
    /// The file in the state directory that holds the token.
    const fn file(self) -> &'static str {
        match self {
            Self::Control => TOKEN_FILE,
            Self::ReadOnly => READ_ONLY_TOKEN_FILE,
        }
    }

    /// The environment variable that replaces this file.
    const fn variable(self) -> &'static str {
        match self {
            Self::Control => TOKEN_VARIABLE,
            Self::ReadOnly => READ_ONLY_TOKEN_VARIABLE,
        }
    }
}

impl ServerEndpoint {
    /// The run that is live in this execution directory and not suspended, with the token that allows `access` and no more.
    ///
    /// # Errors
    ///
    /// [`FindError`].
    pub fn of_execution(path: &Path, access: Access) -> Result<Self, FindError> {
        let endpoint = find_in(path, &[access])?;
        check_awake(path).map(|()| endpoint)
    }

    /// The server at `authority`, such as `127.0.0.1:4000`.
    #[must_use]
    pub fn new(authority: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            authority: authority.into(),
            token: token.into(),
        }
    }

    /// The address that opens the page in a browser. It holds the token.
    #[must_use]
    pub fn page(&self) -> String {
        format!("http://{}/#token={}", self.authority, self.token)
    }

    /// The server of an address as `hankweave page` prints it, `http://127.0.0.1:4000/#token=…`.
    ///
    /// # Errors
    ///
    /// [`FindError::Address`]; the message does not repeat the token.
    pub fn parse(address: &str) -> Result<Self, FindError> {
        let unknown = || FindError::Address(address.split('#').next().unwrap_or_default().to_owned());
        let (place, token) = address.split_once("#token=").ok_or_else(unknown)?;
        let rest = ["http://", "ws://"]
            .iter()
            .find_map(|scheme| place.strip_prefix(scheme));
        let authority = rest.ok_or_else(unknown)?;
        let authority = authority
            .strip_suffix("/ws")
            .unwrap_or(authority)
            .trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '@', '?']) || token.is_empty() {
            return Err(unknown());
        }
        Ok(Self::new(authority, token))
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

/// Without the token, which is a secret.
impl fmt::Debug for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// Looks for the server of an execution directory, with the first token that exists for one of `accesses`.
fn find_in(path: &Path, accesses: &[Access]) -> Result<ServerEndpoint, FindError> {
    let path = path.to_owned();
    let state_dir = path.join(STATE_DIR);
    if std::fs::metadata(&state_dir).is_err() {
        return Err(FindError::NoExecution { path });
    }
    let Some(record) = live_record(&path) else {
        return Err(FindError::NotLive { path });
    };
    let pid = record.pid;
    let Some(server) = record.reachable() else {
        return Err(FindError::NoPort { path, pid });
    };
    let address = server.ip();
    if !system::has_address(address) {
        return Err(FindError::Elsewhere { path, address });
    }
    Ok(ServerEndpoint::new(
        server.to_string(),
        token(&state_dir, accesses)?,
    ))
}

/// Refuses a run whose process is suspended, because it would not answer.
fn check_awake(path: &Path) -> Result<(), FindError> {
    match live_record(path) {
        Some(record) if system::is_suspended(record.pid) => Err(FindError::Suspended {
            path: path.to_owned(),
            pid: record.pid,
        }),
        _ => Ok(()),
    }
}

/// Returns the record of the process that works in the directory, if there is one.
fn live_record(execution: &Path) -> Option<ServerLockRecord> {
    let file = execution.join(STATE_DIR).join(LOCK_FILE);
    let bytes = system::read(&file, MAX_LOCK_FILE_BYTES).ok()?;
    let record: ServerLockRecord = serde_json::from_slice(&bytes).ok()?;
    let facts = system::process(record.pid, execution);
    record.is_live(&facts).then_some(record)
}

/// Returns the first existing token. Tokens of the environment come before those of the directory.
fn token(state_dir: &Path, accesses: &[Access]) -> Result<String, FindError> {
    let from_environment = accesses
        .iter()
        .find_map(|access| std::env::var(access.variable()).ok());
    if let Some(token) = from_environment {
        return Ok(token);
    }
    let read = |access: &Access| system::read(&state_dir.join(access.file()), MAX_TOKEN_FILE_BYTES);
    let mut files = accesses.iter().map(read);
    let first = files
        .next()
        .unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
    // If no file can be read, the error of the first one is returned.
    let bytes = first.or_else(|error| files.find_map(Result::ok).ok_or(error));
    let text = bytes.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))
    });
    let text = text.map_err(|source| FindError::Token {
        path: state_dir.to_owned(),
        source,
    })?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_page_is_understood_and_others_are_not() {
        let expected = ServerEndpoint::new("127.0.0.1:4000", "abc");
        for address in [
            "http://127.0.0.1:4000/#token=abc",
            "http://127.0.0.1:4000#token=abc",
            "ws://127.0.0.1:4000/ws#token=abc",
        ] {
            assert_eq!(ServerEndpoint::parse(address).unwrap(), expected, "{address}");
        }
        for address in [
            "",
            "127.0.0.1:4000",
            "http://127.0.0.1:4000/",
            "http://127.0.0.1:4000/#token=",
            "http://user@127.0.0.1:4000/#token=abc",
            "http://127.0.0.1:4000/elsewhere/#token=abc",
            "file:///etc/passwd#token=abc",
        ] {
            let error = ServerEndpoint::parse(address).unwrap_err().to_string();
            assert!(!error.contains("abc"), "{error}");
        }
        assert!(!format!("{expected:?}").contains("abc"));
    }

    #[test]
    fn a_directory_without_a_live_run_has_no_server() {
        let folder = tempfile::tempdir().unwrap();
        let find = || {
            RunAddress::Execution(folder.path().to_owned())
                .find()
                .unwrap_err()
        };
        assert!(matches!(find(), FindError::NoExecution { .. }));
        let state_dir = folder.path().join(STATE_DIR);
        std::fs::create_dir(&state_dir).unwrap();
        assert!(matches!(find(), FindError::NotLive { .. }));
        // The number of this process, and a time at which it did not start.
        let record = format!(
            r#"{{"pid": {}, "processStartTicks": 1, "lockId": "x", "port": 1, "startTime": "2025-01-04T12:00:00Z",
            "lastHeartbeat": "2025-01-04T12:00:00Z"}}"#,
            std::process::id()
        );
        std::fs::write(state_dir.join(LOCK_FILE), record).unwrap();
        assert!(matches!(find(), FindError::NotLive { .. }));
    }
}
