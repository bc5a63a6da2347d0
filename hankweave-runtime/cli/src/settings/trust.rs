//! Decisions of the user on a folder that may have come from a remote: the accepted values of settings that start a program or send a key to an
//! address (CLI-63), and the accepted remote of its record (CLI-62).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::hank::{AgentChoice, Setting, SettingValue};
use hankweave_remote::remembered;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::disk::{Disk, parent, read_if_present, records_folder, replace};
use hankweave_runtime::world::environment::Environment;

/// Longest file of decisions that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Values that the user has accepted for a folder, as JSON, by the names of their settings.
type Accepted = BTreeMap<String, String>;

/// Decisions on one folder. The decisions on all folders are in one file in the user's folder for state, so that no folder brings its own.
#[derive(Debug)]
pub(crate) struct TrustedSettings<'d> {
    disk: &'d dyn Disk,
    /// File with the decisions on all folders; `None` if no variable names a folder for the user's state.
    file: Option<PathBuf>,
    folder: PathBuf,
}

impl<'d> TrustedSettings<'d> {
    /// Returns the user's decisions on this folder.
    pub(crate) fn of(disk: &'d dyn Disk, environment: &Environment, folder: &Path) -> Self {
        let records = records_folder(environment);
        Self {
            disk,
            file: records.map(|records| parent(&records).join("trusted-settings.json")),
            folder: disk.real_path(folder).unwrap_or_else(|_| folder.to_owned()),
        }
    }

    /// Whether the folder, or one that contains it, came from a remote.
    pub(crate) fn is_needed(&self) -> bool {
        let mut folders = self.folder.ancestors();
        folders.any(|folder| {
            match remembered(self.disk, &ExecutionDir::new(folder.to_owned())) {
                Ok(known) => known.is_some_and(|known| known.arrived),
                // An unreadable note may be one that says so.
                Err(_) => true,
            }
        })
    }

    /// Whether the user has accepted exactly this value.
    pub(crate) fn has(&self, setting: Setting, value: &SettingValue) -> bool {
        let accepted = self.read().remove(&self.key());
        accepted.and_then(|mut accepted| accepted.remove(setting.name())) == Some(text_of(value))
    }

    /// Whether the user has named this remote for the folder.
    pub(crate) fn has_remote(&self, url: &str) -> bool {
        self.has(Setting::Remote, &SettingValue::Text(url.to_owned()))
    }

    /// Notes that the user has named this remote for the folder.
    ///
    /// # Errors
    ///
    /// Error of the system; also when nothing names a folder for the user's state.
    pub(crate) fn accept_remote(&self, url: &str) -> io::Result<()> {
        if self.has_remote(url) {
            return Ok(());
        }
        let mut accepted = self.read().remove(&self.key()).unwrap_or_default();
        let value = SettingValue::Text(url.to_owned());
        accepted.insert(Setting::Remote.name().to_owned(), text_of(&value));
        self.write(accepted)
    }

    /// Accepts these values in place of all that were accepted for the folder, except its remote, which stays accepted.
    ///
    /// # Errors
    ///
    /// Error of the system; also when nothing names a folder for the user's state.
    pub(crate) fn accept<'v>(
        &self,
        values: impl Iterator<Item = (Setting, &'v SettingValue)>,
    ) -> io::Result<()> {
        let remote = Setting::Remote.name();
        let known = self.read().remove(&self.key()).unwrap_or_default();
        let known = known.into_iter().filter(|(name, _)| name == remote);
        let values = values.map(|(setting, value)| (setting.name().to_owned(), text_of(value)));
        self.write(known.chain(values).collect())
    }

    fn write(&self, accepted: Accepted) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Err(io::Error::other("neither XDG_STATE_HOME nor HOME names a folder"));
        };
        let mut all = self.read();
        match accepted.is_empty() {
            true => all.remove(&self.key()),
            false => all.insert(self.key(), accepted),
        };
        self.disk.make_private_dirs(parent(file))?;
        replace(self.disk, file, &serde_json::to_vec_pretty(&all)?)
    }

    fn key(&self) -> String {
        self.folder.to_string_lossy().into_owned()
    }

    /// Reads the accepted values by folder. If the file cannot be read, nothing counts as accepted, and the user has to accept again.
    fn read(&self) -> BTreeMap<String, Accepted> {
        let read = self
            .file
            .as_ref()
            .and_then(|file| read_if_present(self.disk, file, MAX_BYTES).ok()?);
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }
}

/// Whether this value starts a program, or sends the user's key to an address.
pub(super) fn starts_or_reaches(setting: Setting, value: &SettingValue) -> bool {
    match (setting, value) {
        (Setting::Notify | Setting::AnthropicBaseUrl, _) => true,
        (Setting::Agent, SettingValue::Agent(agent)) => match agent {
            AgentChoice::Command(_) | AgentChoice::Acp(_) => true,
            AgentChoice::Named(_) | AgentChoice::Script { .. } => false,
        },
        _ => false,
    }
}

fn text_of(value: &SettingValue) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
