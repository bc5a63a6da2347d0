//! Paths in an execution directory (CLI-19).

use std::path::{Path, PathBuf};

use hankweave_core::discovery::STATE_DIR;
use hankweave_core::id::{CodonId, RunId};

/// File in the state directory that keeps the server's port, so that the next run serves on that port again.
pub(crate) const PORT_FILE: &str = "port";

/// The directory in which agents work, with our `.hankweave` inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionDir {
    root: PathBuf,
}

impl ExecutionDir {
    /// `root` must be absolute, so that a change of the working directory means nothing.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory in which agents work.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `.hankweave`
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.root.join(STATE_DIR)
    }

    /// The folder of all runs.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.state_dir().join("runs")
    }

    /// The folder of one run.
    #[must_use]
    pub fn run_folder(&self, run: &RunId) -> PathBuf {
        self.runs().join(run.as_str())
    }

    /// Returns the path of the inputs of a run's costs.
    #[must_use]
    pub fn counting(&self, run: &RunId) -> PathBuf {
        self.run_folder(run).join("counting.json")
    }

    /// Returns the log of the first attempt of a codon.
    #[must_use]
    pub fn agent_log(&self, run: &RunId, codon: &CodonId, agent: &str) -> PathBuf {
        self.run_folder(run)
            .join(format!("{}-{agent}.log", codon.file_stem()))
    }

    /// `TMPDIR` of the agents; sessions that are resumed in a later run may live there.
    #[must_use]
    pub fn temp_dir(&self) -> PathBuf {
        self.state_dir().join("tmp")
    }

    /// The bare checkpoint repository.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.state_dir().join("checkpoints")
    }

    /// The folder of the event journal.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.state_dir().join("events")
    }

    /// Returns the path of the record of the data that agents may read.
    #[must_use]
    pub fn data_record(&self) -> PathBuf {
        self.state_dir().join("data.json")
    }

    /// Returns the path of the record of the hank that ran here last (RUN-6).
    #[must_use]
    pub fn execution_meta(&self) -> PathBuf {
        self.state_dir().join("execution-meta.json")
    }

    /// Returns the path of the archive's manifest, with the former paths of its files.
    #[must_use]
    pub fn archive_manifest(&self) -> PathBuf {
        self.state_dir().join("archive-manifest.json")
    }

    /// Returns the path of the note about a codon whose results are being copied.
    #[must_use]
    pub fn aftermath(&self) -> PathBuf {
        self.state_dir().join("aftermath.json")
    }

    /// Returns the path of the note of the server's port (WIRE-42).
    #[must_use]
    pub fn port(&self) -> PathBuf {
        self.state_dir().join(PORT_FILE)
    }

    /// Our own log.
    #[must_use]
    pub fn server_log(&self) -> PathBuf {
        self.state_dir().join("logs").join("server.log")
    }

    /// Output of a detached run.
    #[must_use]
    pub fn detached_log(&self) -> PathBuf {
        self.state_dir().join("logs").join("detached.log")
    }

    /// A path inside the state directory the way state.json holds it: relative to `.hankweave`.
    #[must_use]
    pub fn relative_to_state(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.state_dir()).unwrap_or(path).to_owned()
    }
}
