//! Files in which an agent records its sessions, read while it works and after its end.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hankweave_core::agent::{AgentRecords, RecordsScope, SessionLines};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use super::growing::GrowingFile;
use super::host::ProcessHost;
use super::output::RecordSource;
use crate::driver::AgentFolder;
use crate::world::disk::{Disk, Folder, OpenedEntry};

/// How often a file is looked for that is not there, before the end.
const MOST_LOOKS: u32 = 3;

/// Sub-agents of one session whose files are read, each of which stays open.
const MOST_SUB_AGENTS: usize = 128;

/// Reader of a session's lines that are not older than a time.
pub(in crate::driver) type SessionLinesReader = fn(&SessionId, Option<Timestamp>) -> Box<dyn SessionLines>;

/// Reader of a sub-agent's lines that are not older than a time.
pub(in crate::driver) type SubAgentLinesReader = fn(Option<Timestamp>) -> Box<dyn SessionLines>;

/// Layout of the session files of an agent, and how these are read.
#[derive(Debug)]
pub(in crate::driver) struct SessionFormat {
    /// The agent's own folder.
    pub(in crate::driver) home: AgentFolder,
    /// The folder in there that holds all sessions.
    pub(in crate::driver) sessions: &'static str,
    /// The reader of a session's lines.
    pub(in crate::driver) lines: SessionLinesReader,
    /// The reader of a sub-agent's lines, if sub-agents have files of their own.
    pub(in crate::driver) sub_agent_lines: Option<SubAgentLinesReader>,
    /// Finds the file of a session.
    pub(in crate::driver) find: fn(&dyn Folder, &Candidates<'_>) -> io::Result<Option<FoundSession>>,
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
    /// The folder of its sub-agents, once there is one, lies in this one.
    sub_agents: Option<Box<dyn Folder>>,
}

/// The session files of one process.
pub(in crate::driver) struct SessionFiles {
    format: &'static SessionFormat,
    disk: Arc<dyn Disk>,
    sessions: PathBuf,
    /// Start of the process; older lines belong to an earlier one.
    since: Option<Timestamp>,
    line_bytes: usize,
    opened: Mutex<OpenedSession>,
}

#[derive(Debug, Default)]
struct OpenedSession {
    found: Option<FoundSession>,
    looks: u32,
    sub_agents: BTreeMap<OsString, SessionReader>,
}

impl SessionFiles {
    /// The files of a process that works in this folder and has these variables beside those that it inherits; `None` where nothing says where they are.
    pub(in crate::driver) fn of(
        format: &'static SessionFormat,
        host: &ProcessHost,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        since: Option<Timestamp>,
    ) -> Option<Self> {
        let home = host.agent_folder(work_dir, own, format.home)?;
        Some(Self {
            format,
            disk: host.world().disk.clone(),
            sessions: home.join(format.sessions),
            since,
            line_bytes: host.limits().line_bytes,
            opened: Mutex::default(),
        })
    }

    /// Returns the usage recorded since the last call.
    fn read_on(&self, session: &SessionId, records: RecordsScope) -> io::Result<Option<AgentRecords>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let OpenedSession {
            found,
            looks,
            sub_agents,
        } = &mut *opened;
        if found.is_none() && (*looks < MOST_LOOKS || records == RecordsScope::Whole) {
            *looks += 1;
            let candidates = Candidates { session, files: self };
            *found = (self.format.find)(&*self.disk.open_folder(&self.sessions)?, &candidates)?;
        }
        let Some(found) = found else { return Ok(None) };
        let mut recorded = found.file.read_on()?;
        if let Some(folder) = &found.sub_agents {
            self.open_sub_agents(&**folder, session, sub_agents);
        }
        for file in sub_agents.values_mut() {
            let more = file.read_on()?;
            recorded.sub_agents.extend(more.sub_agents);
            recorded.incomplete |= more.incomplete;
            recorded.ends_open |= more.ends_open;
        }
        Ok(Some(recorded))
    }

    /// Opens the files of sub-agents that have begun since the last call, in the folder that has the name of the session.
    fn open_sub_agents(
        &self,
        folder: &dyn Folder,
        session: &SessionId,
        opened: &mut BTreeMap<OsString, SessionReader>,
    ) {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let (Some(lines), true) = (
            self.format.sub_agent_lines,
            session.as_str().chars().all(is_plain),
        ) else {
            return;
        };
        let Ok(OpenedEntry::Folder(folder)) = folder.open(OsStr::new(session.as_str())) else {
            return;
        };
        for name in folder.names().unwrap_or_default() {
            if opened.len() < MOST_SUB_AGENTS
                && !opened.contains_key(&name)
                && let Ok(OpenedEntry::File(file)) = folder.open(&name)
            {
                let file = SessionReader::new(lines(self.since), file.content, self.line_bytes);
                opened.insert(name, file);
            }
        }
    }
}

impl RecordSource for SessionFiles {
    fn read(&self, session: &SessionId, records: RecordsScope) -> Option<AgentRecords> {
        match self.read_on(session, records) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "no session file of the agent");
                None
            }
        }
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
    /// The first of these entries that is a file of the session, with the folder for its sub-agents. Links, and what cannot be opened, are passed over.
    pub(in crate::driver) fn first_of<'n>(
        &self,
        folder: &dyn Folder,
        names: impl Iterator<Item = &'n OsString>,
    ) -> io::Result<Option<SessionReader>> {
        for name in names {
            if let Ok(OpenedEntry::File(entry)) = folder.open(name) {
                let lines = (self.files.format.lines)(self.session, self.files.since);
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
    /// A session whose agent keeps nothing of its sub-agents.
    pub(in crate::driver) fn alone(file: SessionReader) -> Self {
        Self {
            file,
            sub_agents: None,
        }
    }

    /// A session in a folder in which those of its sub-agents lie as well.
    pub(in crate::driver) fn within(folder: Box<dyn Folder>, file: SessionReader) -> Self {
        Self {
            file,
            sub_agents: Some(folder),
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

    fn read_on(&mut self) -> io::Result<AgentRecords> {
        self.read()?;
        Ok(self.lines.take())
    }

    fn read(&mut self) -> io::Result<()> {
        self.file.read(|line| self.lines.line(line))?;
        if self.file.is_cut_short() {
            self.lines.cut_short();
        }
        Ok(())
    }
}
