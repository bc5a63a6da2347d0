//! Commands in hints: [`HintCommands`] knows the arguments of a run and writes commands about that run. Every hint that names a command gets the command
//! here, so that it can be pasted and does what it says (CLI-4).

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use hankweave_core::budget::Ceiling;
use hankweave_core::hank::FILE_NAMES;
use hankweave_core::id::CodonId;
use hankweave_core::time::duration_argument;
use hankweave_runtime::hank_files;
use hankweave_runtime::inspect;
use hankweave_runtime::inspect::LastRun;
use hankweave_runtime::world::disk::{Disk, RealDisk};
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::{ExecutionDir, GivenOption, Invocation, OptionScope};

use crate::args::{
    RegistryArgs, folder_in, folder_of, found_by_directory, is_file, is_of_worker, repeated_by, shortest_name,
};
use crate::terminal::shell::{path_word, valued};

/// The variable that names an execution directory where no `-e` does.
const EXECUTION_VARIABLE: &str = "HANKWEAVE_EXECUTION";

/// The file with settings; a command reads the one in its working directory.
const SETTINGS_FILE: &str = "hankweave.json";

/// Command that follows a run whose directory is not known.
pub(crate) const ATTACH_BY_ADDRESS: &str = "hankweave attach --url URL";

/// Stands in a command for a hank whose path is not known.
const UNKNOWN: &str = "HANK";

/// Commands about a run and its execution directory.
#[derive(Debug, Clone)]
pub(crate) struct HintCommands {
    /// Directory where the commands will be pasted; empty if that may be any directory, so that every path is absolute.
    here: PathBuf,
    /// Whether a command without `-e` takes its directory from [`EXECUTION_VARIABLE`], so that every command needs `-e`.
    is_elsewhere: bool,
    execution: PathBuf,
    /// Arguments of the run that the commands continue.
    run: Invocation,
}

/// How a command differs from the one of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CommandEdit<'a> {
    /// A flag is added.
    Flag(&'a str),
    /// An option has this value.
    Set(&'a str, &'a str),
    /// A flag or an option is left out.
    Without(&'a str),
}

impl<'a> CommandEdit<'a> {
    /// Returns the name of the flag or option.
    const fn name(self) -> &'a str {
        match self {
            Self::Flag(name) | Self::Set(name, _) | Self::Without(name) => name,
        }
    }
}

/// Whether a folder has a file with settings.
fn has_settings(folder: &Path) -> bool {
    RealDisk.metadata_followed(&folder.join(SETTINGS_FILE)).is_ok()
}

/// Whether [`EXECUTION_VARIABLE`] is set.
fn is_elsewhere() -> bool {
    Environment::of_process().get(EXECUTION_VARIABLE).is_some()
}

impl HintCommands {
    /// Returns the commands about a run with these arguments.
    pub(crate) fn by(run: &Invocation) -> Self {
        let execution = match &run.execution {
            Some(execution) => execution.clone(),
            None => folder_of(&run.hank),
        };
        // The output of a worker's run is read with the task, in any folder: absolute paths can be pasted there.
        let here = if is_of_worker() {
            PathBuf::new()
        } else {
            run.folder.clone()
        };
        Self::new(here, execution, run.clone())
    }

    /// Returns the commands about an execution directory, with the recorded arguments of its last run.
    pub(crate) fn about(execution: &Path) -> Self {
        let here = RealDisk.real_path(Path::new(".")).unwrap_or_default();
        let run = remembered(&here, execution);
        Self::new(here, execution.to_owned(), run)
    }

    /// Returns the commands about an execution directory that can be pasted in any directory of this machine.
    pub(crate) fn from_anywhere(execution: &Path) -> Self {
        let here = RealDisk.real_path(Path::new(".")).unwrap_or_default();
        let real = RealDisk
            .real_path(execution)
            .unwrap_or_else(|_| here.join(execution));
        let run = remembered(&here, &real);
        Self {
            here: PathBuf::new(),
            is_elsewhere: is_elsewhere(),
            execution: real,
            run: Invocation {
                folder: here.join(&run.folder),
                ..run
            },
        }
    }

    fn new(here: PathBuf, execution: PathBuf, run: Invocation) -> Self {
        Self {
            here,
            is_elsewhere: is_elsewhere(),
            execution,
            run,
        }
    }

    /// Returns `hankweave ARGUMENTS`, with `-e DIR` where a command without it would mean another directory.
    pub(crate) fn command(&self, arguments: &str) -> String {
        let execution = shortest(&self.here, &self.execution);
        match execution == Path::new(".") && !self.is_elsewhere {
            true => format!("hankweave {arguments}"),
            false => format!("hankweave {arguments} -e {}", path_word(&execution)),
        }
    }

    /// Returns `hankweave ARGUMENTS` about another directory.
    pub(crate) fn command_in(&self, directory: &Path, arguments: &str) -> String {
        format!("hankweave {arguments} -e {}", path_word(directory))
    }

    /// Returns the command that continues with the arguments of the run: hank, directory, data, output, limits.
    pub(crate) fn run(&self) -> String {
        self.run_with(&[])
    }

    /// Returns the command that continues, with changes.
    pub(crate) fn run_with(&self, changes: &[CommandEdit<'_>]) -> String {
        self.hank_command("run", changes)
    }

    /// Returns the command that checks the hank with the arguments of the run.
    pub(crate) fn validate(&self) -> String {
        self.hank_command("validate", &[])
    }

    /// Returns a command about the hank, with the arguments of the run that `subcommand` takes, except those that the next run takes over by itself.
    fn hank_command(&self, subcommand: &str, changes: &[CommandEdit<'_>]) -> String {
        let run = &self.run;
        // A command reads the settings of the folder where it is typed: with other settings here, it starts with a `cd` into the folder of the run.
        let is_anywhere = self.here.as_os_str().is_empty();
        let moves = run.folder != self.here
            && (has_settings(&run.folder) || (!is_anywhere && has_settings(&self.here)));
        let typed = |path: &Path| match moves {
            true => path.to_owned(),
            false => self.typed_here(path),
        };
        let last = match subcommand {
            "run" => inspect::last_run(&RealDisk, &ExecutionDir::new(self.execution.clone())),
            _ => None,
        };
        let mut directory = run.execution.clone();
        if directory.is_none() && self.is_elsewhere {
            directory = Some(folder_of(&run.hank));
        }
        let (hank, execution) = match directory {
            // `hankweave run DIR` alone finds hank and directory.
            Some(directory) if self.is_found_by(&directory, last.as_ref()) => (directory, None),
            directory => (run.hank.clone(), directory),
        };
        let mut words = vec!["hankweave".to_owned(), subcommand.to_owned()];
        let hank = typed(&hank);
        if !matches!(hank.to_str(), Some("." | "./" | "")) {
            words.push(path_word(&hank));
        }
        if let Some(execution) = execution {
            words.push(format!("-e {}", path_word(&typed(&execution))));
        }
        let remembered = last.and_then(|last| last.invocation).unwrap_or_default().options;
        let takes = repeated_by(subcommand);
        let is_repeated = |option: &&GivenOption| {
            let is_edited = changes.iter().any(|change| option.name == change.name());
            // The next run in the directory has such an option without its being typed.
            let is_remembered = option.scope() >= OptionScope::Directory && remembered.contains(option);
            takes(option) && !is_remembered && !is_edited
        };
        let repeated = run.options.iter().filter(is_repeated);
        words.extend(repeated.map(|option| option_words(option, typed)));
        words.extend(changes.iter().filter_map(|change| match change {
            CommandEdit::Flag(name) => Some(format!("--{name}")),
            CommandEdit::Set(name, value) => Some(valued(name, value)),
            CommandEdit::Without(_) => None,
        }));
        let command = words.join(" ");
        match moves {
            true => format!("(cd {} && {command})", path_word(&run.folder)),
            false => command,
        }
    }

    /// Whether `hankweave run DIR` with this execution directory finds the hank, because the directory's last run recorded that hank.
    fn is_found_by(&self, execution: &Path, last: Option<&LastRun>) -> bool {
        let folder = self.run.folder.join(execution);
        let found = last.and_then(|last| found_by_directory(&folder, last));
        let own = self.run.folder.join(&self.run.hank);
        let own = match is_file(&own) {
            true => Some(own),
            false => hank_files::find_in(&RealDisk, &own).ok(),
        };
        let real = |path: Option<PathBuf>| RealDisk.real_path(&path?).ok();
        let found = real(found).filter(|_| !self.is_elsewhere);
        found.is_some_and(|found| real(own) == Some(found))
    }

    /// Returns the command that continues, with the limits that `more` has, with `patience` as the longest wait for the end of a usage limit, and with the
    /// edits `also`.
    pub(crate) fn run_with_more(
        &self,
        more: Ceiling,
        patience: Option<Duration>,
        also: &[CommandEdit<'_>],
    ) -> String {
        let dollars = more
            .max_dollars
            .map(|dollars| format!("{:.2}", dollars.as_dollars()));
        let time = more.max_time.map(duration_argument);
        let dollars = dollars
            .as_deref()
            .map(|dollars| CommandEdit::Set("max-cost", dollars));
        let time = time.as_deref().map(|time| CommandEdit::Set("max-time", time));
        let patience = patience.map(duration_argument);
        let patience = patience
            .as_deref()
            .map(|patience| CommandEdit::Set("max-wait", patience));
        let changes: Vec<CommandEdit<'_>> = dollars
            .into_iter()
            .chain(time)
            .chain(patience)
            .chain(also.iter().copied())
            .collect();
        self.run_with(&changes)
    }

    /// Whether a command that is typed in the working directory reads the settings of the run.
    pub(crate) fn has_settings_of_here(&self) -> bool {
        let here = RealDisk.real_path(Path::new(".")).unwrap_or_default();
        here == self.run.folder || (!has_settings(&self.run.folder) && !has_settings(&here))
    }

    /// Returns a path of the run as it is typed in `here`.
    fn typed_here(&self, path: &Path) -> PathBuf {
        match self.run.folder == self.here {
            true => shortest(&self.here, path),
            false => shortest(&self.here, &self.run.folder.join(path)),
        }
    }

    /// Returns the command that rehearses the hank: without its agents, and in a copy of the directory.
    pub(crate) fn rehearse(&self) -> String {
        self.run_with(&[
            CommandEdit::Without("no-autostart"),
            CommandEdit::Without("port"),
            CommandEdit::Without("detach"),
            CommandEdit::Flag("rehearse"),
        ])
    }

    pub(crate) fn execution(&self) -> &Path {
        &self.execution
    }

    /// Whether the path of the hank is known.
    pub(crate) fn knows_the_hank(&self) -> bool {
        self.run.hank.as_os_str() != UNKNOWN
    }

    /// Returns the command that approves a codon and then continues with the command `onward`.
    pub(crate) fn approval(&self, codon: &CodonId, onward: &str) -> String {
        let approve = self.command(&format!("approve {codon}"));
        format!("{approve} && {onward}")
    }

    /// Returns the path of the hank from here, if known.
    pub(crate) fn hank(&self) -> Option<PathBuf> {
        self.knows_the_hank().then(|| self.typed_here(&self.run.hank))
    }

    /// Returns the value of an option of the run.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let given = self.run.options.iter().find(|option| option.name == name)?;
        given.value.as_deref()
    }

    /// Returns the options that the next run has without their being typed, as words of a shell.
    pub(crate) fn lasting_options(&self) -> Vec<String> {
        let lasts = |option: &&GivenOption| option.scope() >= OptionScope::Directory;
        let options = self.run.options.iter().filter(lasts);
        let typed = |path: &Path| self.typed_here(path);
        options.map(|option| option_words(option, typed)).collect()
    }

    /// Whether the run leaves the terminal, so that it asks nothing there.
    pub(crate) fn is_detached(&self) -> bool {
        self.run.options.iter().any(|option| option.name == "detach")
    }

    /// Returns the hint for a command that a live run refused with this error code; `None` where the refusal's own hint is good enough.
    pub(crate) fn instead_of(&self, code: &str) -> Option<String> {
        match code {
            "UNKNOWN_CODON" => Some(format!(
                "`{}` lists the codons of the plan",
                self.command("status")
            )),
            "APPROVAL_REQUIRED" => Some(format!("`{}` lets it begin", self.command("approve"))),
            "CODON_RUNNING" => Some(format!(
                "wait until it has ended, skip it (`{}`), or stop it with its run first (`{}`)",
                self.command("skip"),
                self.command("stop")
            )),
            "NOT_ASKED" => Some(format!("`{}` says what is next", self.command("status"))),
            "ROLLBACK_FAILED" => Some(format!("`{}` lists the checkpoints", self.command("checkpoints"))),
            "STOPPING" | "RUN_ENDED" => Some(format!("`{}` continues", self.run())),
            _ => None,
        }
    }
}

/// Returns the recorded arguments of the directory's last run. If the arguments or their hank are missing, returns arguments that run the recorded hank, or
/// else the hank in the directory, or else [`UNKNOWN`].
fn remembered(here: &Path, execution: &Path) -> Invocation {
    let real = |path: &Path| RealDisk.real_path(path).ok();
    let is_execution = |folder: &Path| real(folder).is_some() && real(folder) == real(execution);
    let last = inspect::last_run(&RealDisk, &ExecutionDir::new(execution.to_owned()));
    let (invocation, hank) = last
        .map(|last| (last.invocation, Some(last.hank)))
        .unwrap_or_default();
    let has_hank = |path: &Path| is_file(path) || FILE_NAMES.iter().any(|name| is_file(&path.join(name)));
    if let Some(mut run) = invocation.filter(|run| has_hank(&run.folder.join(&run.hank))) {
        let worked_in = run
            .execution
            .clone()
            .unwrap_or_else(|| folder_in(&run.folder, &run.hank));
        let worked_in = run.folder.join(worked_in);
        // The directory was moved or copied since.
        if !is_execution(&worked_in) {
            run.execution = Some(match run.folder == here {
                true => execution.to_owned(),
                false => real(execution).unwrap_or_else(|| here.join(execution)),
            });
        }
        return run;
    }
    let hank = match hank.filter(|hank| is_file(hank)) {
        Some(hank) => shortest_name(hank),
        None if hank_files::find_in(&RealDisk, execution).is_ok() => execution.to_owned(),
        // The recorded hank no longer exists, or an old version recorded none.
        None => PathBuf::from(UNKNOWN),
    };
    let is_in_hank = is_execution(&folder_in(here, &hank));
    Invocation {
        folder: here.to_owned(),
        hank: match is_in_hank {
            true => execution.to_owned(),
            false => hank,
        },
        execution: (!is_in_hank).then(|| execution.to_owned()),
        options: Vec::new(),
    }
}

/// Returns a path as it is typed in `here`: an absolute path becomes relative where that is shorter.
fn shortest(here: &Path, path: &Path) -> PathBuf {
    let path: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if path.as_os_str().is_empty() {
        return PathBuf::from(".");
    }
    // The target of `..` depends on links, so a path with it stays unchanged.
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    match path.is_absolute() && here.is_absolute() && is_plain {
        true => relative(here, &path)
            .filter(|relative| relative.as_os_str().len() < path.as_os_str().len())
            .unwrap_or(path),
        false => path,
    }
}

/// Returns an absolute path relative to the folder `here`, which has no links in it; `None` where both have nothing but the root in common.
fn relative(here: &Path, path: &Path) -> Option<PathBuf> {
    let mut up = PathBuf::new();
    for shared in here.ancestors() {
        if let Ok(rest) = path.strip_prefix(shared) {
            let relative = up.join(rest);
            return match relative.as_os_str().is_empty() {
                true => Some(PathBuf::from(".")),
                false => shared.parent().is_some().then_some(relative),
            };
        }
        up.push("..");
    }
    None
}

/// Returns a command about the hank in a folder; the working directory is left out, since the command means it by default.
pub(crate) fn in_folder(subcommand: &str, folder: &Path) -> String {
    match folder.to_str() {
        Some("." | "./" | "") => format!("hankweave {subcommand}"),
        _ => format!("hankweave {subcommand} {}", path_word(folder)),
    }
}

/// Returns a command about a state file outside an execution directory.
pub(crate) fn about_file(subcommand: &str, state: &Path) -> String {
    format!("hankweave {subcommand} --state {}", path_word(state))
}

/// Returns a command about tasks, with the registry and the folder of tasks that `place` names. Terminals and logs keep the command, so it has no password.
pub(crate) fn task_command(place: &RegistryArgs, arguments: &str) -> String {
    let mut words = format!("hankweave {arguments}");
    if let Some(registry) = place.registry.as_deref().map(without_password) {
        words.push_str(&format!(" --registry {}", path_word(Path::new(&registry))));
    }
    if let Some(tasks) = &place.tasks {
        words.push_str(&format!(" --tasks {}", path_word(tasks)));
    }
    words
}

/// Returns an address without its passwords, which belong neither into the files of a task nor into hints.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => authority.to_owned(),
    };
    let is_public = |pair: &&str| {
        !pair.is_empty()
            && !pair
                .split('=')
                .next()
                .is_some_and(|name| name.contains("password"))
    };
    let query: Vec<&str> = query.split('&').filter(is_public).collect();
    let query = match query.is_empty() {
        true => String::new(),
        false => format!("?{}", query.join("&")),
    };
    format!("{scheme}://{authority}{path}{query}")
}

/// Returns an option as words of a shell; `typed` turns a path into the form to type.
pub(crate) fn option_words(option: &GivenOption, typed: impl Fn(&Path) -> PathBuf) -> String {
    match &option.value {
        None => format!("--{}", option.name),
        Some(value) if option.is_path => {
            format!("--{} {}", option.name, path_word(&typed(Path::new(value))))
        }
        Some(value) => valued(&option.name, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str, is_path: bool) -> GivenOption {
        GivenOption {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            is_path,
        }
    }

    /// A run of `hank` beneath a folder, and where it was typed.
    fn run_in(folder: &Path, execution: Option<&str>) -> Invocation {
        let flag = GivenOption {
            name: "no-autostart".to_owned(),
            ..GivenOption::default()
        };
        Invocation {
            folder: folder.to_owned(),
            hank: "hank".into(),
            execution: execution.map(PathBuf::from),
            options: vec![
                option("data", "my data", true),
                option("max-cost", "2.50", false),
                flag,
            ],
        }
    }

    fn commands_of(here: &Path, run: Invocation) -> HintCommands {
        HintCommands {
            here: here.to_owned(),
            is_elsewhere: false,
            execution: "work".into(),
            run,
        }
    }

    #[test]
    fn a_command_has_what_the_run_had_and_what_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let hints = commands_of(folder.path(), run_in(folder.path(), Some("work")));
        let begin = "hankweave run hank -e work --data 'my data'";
        assert_eq!(hints.run(), format!("{begin} --max-cost 2.50 --no-autostart"));
        let changes = [
            CommandEdit::Set("max-cost", "10"),
            CommandEdit::Without("no-autostart"),
            CommandEdit::Flag("new"),
        ];
        assert_eq!(hints.run_with(&changes), format!("{begin} --max-cost 10 --new"));
        assert_eq!(
            hints.rehearse(),
            "hankweave run hank -e work --data 'my data' --max-cost 2.50 --rehearse"
        );
        assert_eq!(
            hints.validate(),
            "hankweave validate hank -e work --data 'my data' --max-cost 2.50 --no-autostart"
        );
        assert_eq!(hints.command("history"), "hankweave history -e work");
    }

    #[test]
    fn paths_are_as_short_as_they_can_be_from_where_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("hank")).unwrap();
        let from = |here: &Path| commands_of(here, run_in(&folder, None)).run();
        let end = "--max-cost 2.50 --no-autostart";
        let data = path_word(&folder.join("my data"));
        assert_eq!(
            from(&folder.join("hank")),
            format!("hankweave run --data '../my data' {end}")
        );
        let hank = path_word(&folder.join("hank"));
        // What is printed in the root folder is read elsewhere.
        assert_eq!(
            from(Path::new("/")),
            format!("hankweave run {hank} --data {data} {end}")
        );
        // Settings count where they are, so the command goes there.
        std::fs::write(folder.join(SETTINGS_FILE), "{}").unwrap();
        let place = path_word(&folder);
        assert_eq!(
            from(Path::new("/")),
            format!("(cd {place} && hankweave run hank --data 'my data' {end})")
        );
        assert_eq!(
            from(&folder),
            format!("hankweave run hank --data 'my data' {end}")
        );
    }

    // covers: CLI-4
    #[test]
    fn commands_of_one_list_name_a_folder_in_one_way() {
        let (here, other) = (Path::new("/home/ada/shelf"), Path::new("/home/ada/books"));
        let list = |here: &Path, execution: &str| {
            let run = Invocation {
                hank: ".".into(),
                ..run_in(other, None)
            };
            let hints = HintCommands {
                execution: execution.into(),
                ..commands_of(here, run)
            };
            let begin = hints.run().split(" --").next().unwrap().to_owned();
            (begin, hints.command("stop"))
        };
        let expected = |run: &str, stop: &str| (run.to_owned(), stop.to_owned());
        let beside = expected("hankweave run ../books", "hankweave stop -e ../books");
        for execution in ["/home/ada/books", "/home/ada/./books/", "../books", "./../books"] {
            assert_eq!(list(here, execution), beside, "{execution}");
        }
        let inside = expected("hankweave run", "hankweave stop");
        assert_eq!(list(other, "/home/ada/books"), inside);
        let above = expected("hankweave run books", "hankweave stop -e books");
        assert_eq!(list(Path::new("/home/ada"), "/home/ada/books"), above);
        let far = expected(
            "hankweave run /home/ada/books",
            "hankweave stop -e /home/ada/books",
        );
        assert_eq!(list(Path::new("/srv/data"), "/home/ada/books"), far);
    }

    #[test]
    fn without_a_record_the_hank_is_in_the_directory_or_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let about = HintCommands::about(folder.path());
        assert!(!about.knows_the_hank());
        std::fs::write(folder.path().join("hank.json"), "{}").unwrap();
        let about = HintCommands::about(folder.path());
        assert!(about.knows_the_hank());
        assert_eq!(about.run(), format!("hankweave run {}", path_word(folder.path())));
    }
}
