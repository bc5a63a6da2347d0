//! Common parts of agents that are programs: finds the program, builds and checks its command line, and writes private files for it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hankweave_agents::Launch;
use hankweave_core::id::{is_model_name, is_safe_argument};

use super::process::ProcessHost;
use super::{AgentProgram, StartError};

/// Variables with keys for agents that use models of any provider.
pub(super) const KEYS_OF_PROVIDERS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
];

/// The program of an agent.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// How it is installed.
    pub(super) hint: &'static str,
    /// Overrides the search for it.
    pub(super) variable: &'static str,
    /// The versions with which our tests run it, oldest first.
    pub(super) tested_with: &'static [&'static str],
    /// Variables with keys that it takes.
    pub(super) keys: &'static [&'static str],
}

impl Program {
    /// Finds the program: the one that the launch names, else the one in its variable, else the one on the `PATH` of the codon or of this process.
    pub(super) fn find(&self, host: &ProcessHost, launch: Option<&Launch>) -> Result<PathBuf, StartError> {
        let named = launch.and_then(|launch| launch.program.as_deref());
        if let Some(path) = named
            .map(Path::as_os_str)
            .or_else(|| host.variable(self.variable))
        {
            let path = PathBuf::from(path);
            return if host.is_file(&path) {
                Ok(path)
            } else {
                Err(self.not_found(&path.to_string_lossy()))
            };
        }
        let own_path = launch.and_then(|launch| launch.env.get("PATH"));
        let path = own_path
            .map(OsStr::new)
            .or_else(|| host.variable("PATH"))
            .unwrap_or_default();
        host.find_program(self.name, path)
            .ok_or_else(|| self.not_found(&format!("PATH ({})", path.to_string_lossy())))
    }

    /// Finds the program for a launch, after checking the model and the session that are put on its command line.
    pub(super) fn for_launch(&self, host: &ProcessHost, launch: &Launch) -> Result<PathBuf, StartError> {
        check_model(&launch.model)?;
        if let Some(session) = &launch.resume {
            check_argument("session id", session.as_str())?;
        }
        self.find(host, Some(launch))
    }

    /// Returns the program as it is installed on this machine.
    pub(super) fn describe(&self, host: &ProcessHost) -> AgentProgram {
        let path = self.find(host, None);
        let version = path
            .as_deref()
            .ok()
            .and_then(|path| self.packaged_version(host, path));
        AgentProgram {
            path,
            version,
            tested_with: self.tested_with,
            keys: self.keys,
        }
    }

    /// Returns the version in the manifest of the npm package that contains the program.
    fn packaged_version(&self, host: &ProcessHost, path: &Path) -> Option<String> {
        const MAX_MANIFEST_BYTES: u64 = 1 << 20;
        let disk = &host.world().disk;
        let real = disk.real_path(path).ok()?;
        let manifests = real
            .ancestors()
            .skip(1)
            .take(4)
            .map(|folder| folder.join("package.json"));
        // The hint ends with the name of the package: `npm install -g NAME`.
        let package = self.hint.split(' ').next_back()?;
        manifests
            .filter_map(|file| disk.read(&file, MAX_MANIFEST_BYTES).ok())
            .find_map(|text| {
                let manifest: serde_json::Value = serde_json::from_slice(&text).ok()?;
                let is_own = manifest["name"].as_str()?.starts_with(package);
                manifest["version"].as_str().filter(|_| is_own).map(str::to_owned)
            })
    }

    fn not_found(&self, searched: &str) -> StartError {
        StartError::ProgramNotFound {
            program: self.name.to_owned(),
            searched: searched.to_owned(),
            hint: self.hint,
            variable: self.variable,
        }
    }
}

/// Returns the program of an agent whose command line hank.json has. A bare name is looked up, a path is relative to the working directory. A program that is
/// not found is returned as well: starting it then fails.
pub(super) fn own_program(host: &ProcessHost, agent: &str, launch: &Launch) -> Result<PathBuf, StartError> {
    let program = first_word(agent, &launch.command)?;
    if program.contains('/') {
        return Ok(launch.work_dir.join(program));
    }
    let found = host.find_program(program, &host.search_path(launch));
    Ok(found.unwrap_or_else(|| PathBuf::from(program)))
}

/// Returns the arguments after the program on its command line.
pub(super) fn own_arguments(launch: &Launch) -> Vec<OsString> {
    launch.command.iter().skip(1).map(OsString::from).collect()
}

fn first_word<'c>(agent: &str, command: &'c [String]) -> Result<&'c String, StartError> {
    command.first().ok_or_else(|| StartError::NoCommand {
        agent: agent.to_owned(),
    })
}

/// Checks whether the program in a `command` of hank.json could be started.
pub(super) fn check_own_program(
    host: &ProcessHost,
    agent: &str,
    command: &[String],
) -> Result<(), StartError> {
    let program = first_word(agent, command)?;
    let path = host.variable("PATH").unwrap_or_default();
    // A path cannot be checked: the working directory may not exist yet, and a rig may make the program.
    if program.contains('/') || host.find_program(program, path).is_some() {
        return Ok(());
    }
    Err(StartError::CommandNotFound {
        program: program.clone(),
    })
}

/// Writes the system prompt into a file next to the log. Prompts are never on a command line, because every user of the
/// machine can read that.
pub(super) fn system_prompt_file(host: &ProcessHost, launch: &Launch) -> Result<Option<PathBuf>, StartError> {
    let text = launch.appended_system_prompt.as_deref();
    text.map(|text| private_file(host, launch, "system-prompt.txt", text))
        .transpose()
}

/// Writes a file for this launch alone, next to the log. Its name is that of the log with the extension `end`.
pub(super) fn private_file(
    host: &ProcessHost,
    launch: &Launch,
    end: &str,
    text: &str,
) -> Result<PathBuf, StartError> {
    let path = launch.log_path.with_extension(end);
    match host.write_private(&path, text) {
        Ok(()) => Ok(path),
        Err(source) => Err(StartError::Prepare { path, source }),
    }
}

/// Returns the prompt with the system prompt in front of it. This is for a program that takes its system prompt only from
/// its settings or from the command line, which every user of the machine can read.
pub(super) fn prompt_with_system(launch: &Launch) -> String {
    match &launch.appended_system_prompt {
        Some(system) => format!("{system}\n\n{}", launch.prompt),
        None => launch.prompt.clone(),
    }
}

/// Returns the fixed words of a command line, followed by the options that have a value, each with it.
pub(super) fn command_line<const N: usize>(
    fixed: &[&str],
    options: [(&str, Option<&OsStr>); N],
) -> Vec<OsString> {
    let with_value = options
        .into_iter()
        .filter_map(|(name, value)| Some([OsStr::new(name), value?]));
    let fixed = fixed.iter().map(OsStr::new);
    fixed.chain(with_value.flatten()).map(OsStr::to_owned).collect()
}

/// Returns the model for a command line, without `prefix`. `None` for the model `own`, which leaves the choice to the program.
pub(super) fn chosen_model<'l>(launch: &'l Launch, own: &str, prefix: &str) -> Option<&'l OsStr> {
    let model = Some(launch.model.as_str()).filter(|model| *model != own)?;
    Some(OsStr::new(model.strip_prefix(prefix).unwrap_or(model)))
}

/// Returns the session to resume, for a command line.
pub(super) fn session(launch: &Launch) -> Option<&OsStr> {
    launch.resume.as_ref().map(|session| OsStr::new(session.as_str()))
}

/// Refuses a name of a model that the program could take for an option.
pub(super) fn check_model(name: &str) -> Result<(), StartError> {
    if is_model_name(name) {
        return Ok(());
    }
    check_argument("model name", name)
}

/// Refuses a value that the program could take for an option (S7).
fn check_argument(what: &'static str, value: &str) -> Result<(), StartError> {
    if is_safe_argument(value) {
        return Ok(());
    }
    Err(StartError::UnsafeArgument {
        what,
        value: value.to_owned(),
    })
}

/// Writes a file like [`private_file`], but into the folder for temporary files, where nothing is kept.
pub(super) fn private_temp_file(
    host: &ProcessHost,
    launch: &Launch,
    end: &str,
    text: &str,
) -> Result<PathBuf, StartError> {
    let name = launch.log_path.with_extension(end);
    let path = launch.temp_dir.join(name.file_name().unwrap_or_default());
    match host.write_private(&path, text) {
        Ok(()) => Ok(path),
        Err(source) => Err(StartError::Prepare { path, source }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A launch with nothing special.
    pub(crate) fn launch(model: &str) -> Launch {
        Launch {
            model: model.to_owned(),
            prompt: "a secret prompt".to_owned(),
            appended_system_prompt: None,
            resume: None,
            fork: false,
            env: std::collections::BTreeMap::new(),
            iteration: None,
            max_dollars: None,
            carried: None,
            prices: hankweave_core::cost::pricing::Prices::listed(),
            work_dir: "/".into(),
            log_path: "/nowhere/a.log".into(),
            log_goes_on: false,
            auto_compact: false,
            temp_dir: "/nowhere/tmp".into(),
            script: None,
            program: None,
            command: Vec::new(),
            permissions: hankweave_core::agent::Permissions::default(),
            options: hankweave_core::agent::AgentOptions::default(),
            result: None,
            auth: None,
            marker: "test".to_owned(),
            grace: Launch::DEFAULT_GRACE,
        }
    }
}
