//! Files in which an agent itself records its sessions, read for the usage that its output does not report: while the agent works and after its end.
//!
//! The agents differ in the layout of the files, which a [`SessionFormat`] describes. [`SessionFiles`] finds the files of one process and reads each line once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hankweave_agents::{AgentRecords, RecordsScope, SessionLines};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use super::growing::GrowingFile;
use super::host::ProcessHost;
use super::output::RecordSource;
use crate::driver::AgentFolder;
use crate::world::disk::{Disk, Folder, OpenedEntry};

/// How often a missing session file is looked for while the agent works. At the end of the agent it is looked for once more.
const MOST_LOOKS: u32 = 3;

/// Maximum number of sub-agents of one session whose files are read while the agent works, and stay open. Files of further ones are only read at its end.
const MOST_SUB_AGENTS: usize = 128;

/// Makes the reader of a file of a session, or of one of its sub-agents.
pub(in crate::driver) type LinesReader = fn(&ReadSession<'_>) -> Box<dyn SessionLines>;

/// A session, for the reader of its lines.
#[derive(Debug)]
pub(in crate::driver) struct ReadSession<'a> {
    pub(in crate::driver) id: &'a SessionId,
    /// Start of the process, if it resumed the session: older lines belong to earlier processes.
    pub(in crate::driver) since: Option<Timestamp>,
    pub(in crate::driver) prices: &'a Arc<Prices>,
}

/// Layout of the session files of an agent, and how these are read.
#[derive(Debug)]
pub(in crate::driver) struct SessionFormat {
    /// The agent's own folder.
    pub(in crate::driver) home: AgentFolder,
    /// The folder of all sessions, relative to `home`.
    pub(in crate::driver) sessions: &'static str,
    /// The reader of a session's lines.
    pub(in crate::driver) lines: LinesReader,
    /// Files of sub-agents, if these have files of their own.
    pub(in crate::driver) sub_agents: Option<SubAgentFormat>,
    /// Whether all records are read again at the end, because the decoder compares their sum with the usage reported before.
    pub(in crate::driver) is_read_again: bool,
    /// Finds the files of a session: as a rule one, and several where projects share it.
    pub(in crate::driver) find: fn(&dyn Folder, &Candidates<'_>) -> io::Result<Vec<FoundSession>>,
}

/// Layout of the files of sub-agents.
#[derive(Debug)]
pub(in crate::driver) struct SubAgentFormat {
    /// Their folder, relative to the folder with the file of the session; gets the id of the session.
    pub(in crate::driver) folder: fn(&str) -> PathBuf,
    /// The reader of their lines.
    pub(in crate::driver) lines: LinesReader,
}

/// Opens files that may be those of a session.
#[derive(Debug)]
pub(in crate::driver) struct Candidates<'a> {
    pub(in crate::driver) session: &'a SessionId,
    files: &'a SessionFiles,
}

/// The file of a session.
#[derive(Debug)]
pub(in crate::driver) struct FoundSession {
    file: SessionReader,
    /// The folder of the file, in which a folder for sub-agents may be made; `None` for an agent without such folders.
    folder: Option<Box<dyn Folder>>,
    /// Open files of sub-agents, by name.
    sub_agents: BTreeMap<OsString, SessionReader>,
}

/// The session files of one process.
pub(in crate::driver) struct SessionFiles {
    format: &'static SessionFormat,
    disk: Arc<dyn Disk>,
    sessions: PathBuf,
    since: Option<Timestamp>,
    prices: Arc<Prices>,
    /// Longest line that is read.
    line_bytes: usize,
    /// The session of the process, and sessions of its sub-agents.
    opened: Mutex<BTreeMap<SessionId, OpenedSession>>,
}

/// A session whose files are read, or looked for.
#[derive(Debug, Default)]
struct OpenedSession {
    /// Its files; none if they were not found yet.
    found: Vec<FoundSession>,
    /// How often they were looked for.
    looks: u32,
}

impl SessionFiles {
    /// Returns the session files of a process that works in `work_dir` and has the variables `own` in addition to those
    /// that it inherits. Returns `None` if the folder of the files is unknown.
    pub(in crate::driver) fn of(
        format: &'static SessionFormat,
        host: &ProcessHost,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        since: Option<Timestamp>,
        prices: &Arc<Prices>,
    ) -> Option<Self> {
        let home = host.agent_folder(work_dir, own, format.home)?;
        Some(Self {
            format,
            disk: host.world().disk.clone(),
            sessions: home.join(format.sessions),
            since,
            prices: prices.clone(),
            line_bytes: host.limits().line_bytes,
            opened: Mutex::default(),
        })
    }

    /// Returns the records of a session since the last call; `None` if it has no file.
    fn read_on(
        &self,
        session: &SessionId,
        opened: &mut OpenedSession,
        records: RecordsScope,
    ) -> io::Result<Option<AgentRecords>> {
        if records == RecordsScope::Whole && self.format.is_read_again {
            *opened = OpenedSession::default();
        }
        let OpenedSession { found, looks } = opened;
        if found.is_empty() && (*looks < MOST_LOOKS || records == RecordsScope::Whole) {
            *looks += 1;
            let candidates = Candidates { session, files: self };
            *found = (self.format.find)(&*self.disk.open_folder(&self.sessions)?, &candidates)?;
        }
        let mut recorded = AgentRecords::default();
        for found in found.iter_mut() {
            found.file.read_on(&mut recorded);
            self.read_sub_agents(found, session, records, &mut recorded);
        }
        Ok((!found.is_empty()).then_some(recorded))
    }

    /// Reads the files of sub-agents, also of those that were started since the last call.
    fn read_sub_agents(
        &self,
        session: &mut FoundSession,
        id: &SessionId,
        records: RecordsScope,
        recorded: &mut AgentRecords,
    ) {
        let (Some(format), Some(folder), true) =
            (&self.format.sub_agents, &session.folder, is_plain(id.as_str()))
        else {
            return;
        };
        let Ok(OpenedEntry::Folder(folder)) = folder.find(&(format.folder)(id.as_str())) else {
            return;
        };
        let opened = &mut session.sub_agents;
        for name in folder.names().unwrap_or_default() {
            if let Some(file) = opened.get_mut(&name) {
                file.read_on(recorded);
                continue;
            }
            let has_room = opened.len() < MOST_SUB_AGENTS;
            if !has_room && records != RecordsScope::Whole {
                continue;
            }
            match folder.open(&name) {
                Ok(OpenedEntry::File(entry)) => {
                    let lines = (format.lines)(&self.read_session(id));
                    let mut file = SessionReader::new(lines, entry.content, self.line_bytes);
                    file.read_on(recorded);
                    if has_room {
                        opened.insert(name, file);
                    }
                }
                Ok(OpenedEntry::Folder(_) | OpenedEntry::Other(_)) => {}
                Err(_) => recorded.cut_short(),
            }
        }
    }

    fn read_session<'a>(&'a self, id: &'a SessionId) -> ReadSession<'a> {
        ReadSession {
            id,
            since: self.since,
            prices: &self.prices,
        }
    }
}

/// Whether the id of a session is safe as the name of a file: it leads to no other folder.
pub(in crate::driver) fn is_plain(id: &str) -> bool {
    !id.is_empty()
        && id
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '-')
}

impl RecordSource for SessionFiles {
    fn read(
        &self,
        session: &SessionId,
        sub_agents: &[SessionId],
        records: RecordsScope,
    ) -> Option<AgentRecords> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = |session: &SessionId| {
            let opened = opened.entry(session.clone()).or_default();
            let read = self.read_on(session, opened, records);
            read.unwrap_or_else(|error| {
                tracing::debug!(%error, "no session file of the agent");
                None
            })
        };
        let mut recorded = read(session)?;
        for sub_agent in sub_agents {
            recorded
                .sub_agents
                .extend(read(sub_agent).into_iter().flat_map(|own| own.messages));
        }
        Some(recorded)
    }
}

impl fmt::Debug for SessionFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionFiles")
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

impl Candidates<'_> {
    /// Returns the first of the entries `names` that is a file of the session. Links, and entries that cannot be opened, are skipped.
    pub(in crate::driver) fn first_of<'n>(
        &self,
        folder: &dyn Folder,
        names: impl Iterator<Item = &'n OsString>,
    ) -> io::Result<Option<SessionReader>> {
        for name in names {
            if let Ok(OpenedEntry::File(entry)) = folder.open(name) {
                let lines = (self.files.format.lines)(&self.files.read_session(self.session));
                let mut file = SessionReader::new(lines, entry.content, self.files.line_bytes);
                file.read()?;
                if file.lines.is_of_session() {
                    return Ok(Some(file));
                }
            }
        }
        Ok(None)
    }
}

impl FoundSession {
    /// A session whose agent has no files of sub-agents.
    pub(in crate::driver) fn alone(file: SessionReader) -> Self {
        Self {
            file,
            folder: None,
            sub_agents: BTreeMap::new(),
        }
    }

    /// A session whose file is in `folder`, in which the agent also makes a folder for its sub-agents.
    pub(in crate::driver) fn within(folder: Box<dyn Folder>, file: SessionReader) -> Self {
        Self {
            folder: Some(folder),
            ..Self::alone(file)
        }
    }
}

/// A file that is read as it grows.
#[derive(Debug)]
pub(in crate::driver) struct SessionReader {
    lines: Box<dyn SessionLines>,
    file: GrowingFile,
}

impl SessionReader {
    fn new(lines: Box<dyn SessionLines>, content: Box<dyn Read + Send>, line_bytes: usize) -> Self {
        Self {
            lines,
            file: GrowingFile::new(content, line_bytes),
        }
    }

    /// Adds the records since the last call.
    fn read_on(&mut self, recorded: &mut AgentRecords) {
        if let Err(error) = self.read() {
            tracing::debug!(%error, "a session file of the agent cannot be read");
            recorded.cut_short();
        }
        recorded.merge(self.lines.take());
    }

    fn read(&mut self) -> io::Result<()> {
        self.file.read(|line| self.lines.line(line))?;
        if self.file.is_cut_short() {
            self.lines.cut_short();
        }
        Ok(())
    }
}
