//! `hankweave service`: a run as a systemd unit of the user, which starts again after a reboot (CLI-81). `install` writes the unit and a file with
//! its environment variables and starts the service, `uninstall` removes them, `status` lists the units.

mod unit;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use hankweave_runtime::error::chain;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::world::environment::Environment;
use serde_json::json;

use self::unit::{MARK, Unit, UnitError};
use crate::args::{Global, ReadRun, ServiceCommand, ServiceInstallArgs, run_of_service};
use crate::directory::is_served;
use crate::failures::{hank_with_mistakes, load_hank};
use crate::hints::{HintCommands, in_folder};
use crate::settings::of_user;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::print_stderr;
use crate::terminal::shell::{path_word, word};

pub(crate) fn service(global: &Global, command: &ServiceCommand) -> Result<ExitCode, CliError> {
    match command {
        ServiceCommand::Install(args) => install(global, args),
        ServiceCommand::Uninstall(args) => uninstall(global, &args.execution),
        ServiceCommand::Status => status(global),
    }
}

fn install(global: &Global, args: &ServiceInstallArgs) -> Result<ExitCode, CliError> {
    let run = run_of_service(&args.dir, &args.options).map_err(|why| {
        let message = format!("`run` refuses the options of the service: {why}");
        CliError::new(CliErrorKind::Usage, message).hint(format!(
            "`{}` lists them",
            in_folder("run --help", Path::new("."))
        ))
    })?;
    let (unit, name) = plan_unit(args, &run)?;
    let text = unit.text().map_err(|error| refused(&error))?;
    let variables = variables(&args.env)?;
    check_systemd(&unit)?;
    if is_served(&unit.execution) {
        let stop = HintCommands::about(&unit.execution).command("stop");
        let message = format!("a run is live in `{}`", unit.execution.display());
        return Err(CliError::new(CliErrorKind::Held, message)
            .hint(format!("`{stop}` stops it; the service continues it")));
    }
    let file = units_folder()?.join(&name);
    write_variables(&unit.environment, &variables)?;
    write(&file, &text)?;
    let enabled = systemctl(&["daemon-reload"]).and_then(|()| systemctl(&["enable", "--now", "--", &name]));
    enabled.map_err(|why| {
        let message = format!("systemd did not take `{}`: {why}", file.display());
        CliError::new(CliErrorKind::Failed, message).hint(format!(
            "`systemctl --user status -- {}` says more; `{}` removes it",
            word(&name),
            in_folder("service uninstall", &unit.execution)
        ))
    })?;
    if global.json() {
        return output::print_json(&json!({
            "unit": name,
            "file": file.to_string_lossy(),
            "environment": unit.environment.to_string_lossy(),
            "execution": unit.execution.to_string_lossy(),
        }));
    }
    if !global.quiet {
        output::print(installed(&unit, &name, &file))?;
        print_notes(&unit);
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts together the unit and its name.
fn plan_unit(args: &ServiceInstallArgs, run: &ReadRun) -> Result<(Unit, String), CliError> {
    let loaded = load_hank(&args.dir)?;
    if loaded.problems.has_errors() {
        return Err(hank_with_mistakes(&loaded));
    }
    // `run` gets what the user has named: a file, or the folder of a hank.
    let hank = match RealDisk.metadata_followed(&args.dir) {
        Ok(found) if found.kind == hankweave_runtime::world::disk::FileKind::File => loaded.file.clone(),
        _ => loaded.root.clone(),
    };
    let real = |path: &Path| {
        RealDisk.real_path(path).map_err(|error| {
            let message = format!("failed to find `{}`: {error}", path.display());
            CliError::new(CliErrorKind::Input, message)
        })
    };
    let here = real(Path::new("."))?;
    let execution = match &run.args.hank.execution {
        // It may not exist yet: the run makes it.
        Some(execution) => real(execution).unwrap_or_else(|_| here.join(execution)),
        None => real(&loaded.root)?,
    };
    let name = unit::name(&execution).map_err(|error| refused(&error))?;
    let program = Environment::of_process().program().map(Path::to_owned);
    let program = program
        .ok_or_else(|| CliError::new(CliErrorKind::Io, "the system does not tell where hankweave is"))?;
    let hank = real(&hank)?;
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| refused(&UnitError::NotText(path.to_owned())))
    };
    let mut arguments = vec!["run".to_owned(), text(&hank)?, "--headless".to_owned()];
    // The service does not have the variable that names the directory here.
    if run.args.hank.execution.is_some() && !run.has_execution {
        arguments.extend(["-e".to_owned(), text(&execution)?]);
    }
    arguments.extend(args.options.iter().cloned());
    let unit = Unit {
        environment: services_folder()?.join(&name).with_extension("env"),
        execution,
        folder: here,
        program,
        arguments,
    };
    Ok((unit, name))
}

fn refused(error: &UnitError) -> CliError {
    CliError::new(CliErrorKind::Usage, chain(error))
        .hint("nothing was written; rename it, or move the directory")
}

/// Returns the names and values of the variables for the file of the service; `PATH` is always among them, so that agents are found.
fn variables(names: &[String]) -> Result<Vec<(String, String)>, CliError> {
    let environment = Environment::of_process();
    let named = names.iter().map(String::as_str).chain(["PATH"]);
    let values = named.map(|name| {
        let value = environment.get(name).and_then(|value| value.to_str());
        let value = value.ok_or_else(|| {
            CliError::new(
                CliErrorKind::Usage,
                format!("the variable {name} is not set here"),
            )
            .hint("set it, or write it into the file of the service later")
        })?;
        unit::check(value).map_err(|_| {
            let message = format!("the value of {name} has a line break or another control character");
            CliError::new(CliErrorKind::Usage, message)
        })?;
        Ok((name.to_owned(), value.to_owned()))
    });
    values.collect()
}

/// Refuses a machine on which no systemd takes units of this user; the hint is a line for cron, which starts the run there instead.
fn check_systemd(unit: &Unit) -> Result<(), CliError> {
    let Err(why) = systemctl(&["show-environment"]) else {
        return Ok(());
    };
    let arguments: Vec<String> = unit.arguments.iter().map(|argument| word(argument)).collect();
    let command = format!(
        "@reboot cd {} && {} {}",
        path_word(&unit.folder),
        path_word(&unit.program),
        arguments.join(" ")
    );
    let message = format!("no systemd takes services of this user: {why}");
    Err(CliError::new(CliErrorKind::Failed, message).hint(format!(
        "nothing was written. Where cron runs, `crontab -e` and this line start the run after each reboot:\n  {}",
        // In a crontab a percent sign ends the command.
        command.replace('%', r"\%")
    )))
}

/// Runs `systemctl --user`; returns its error output when it fails.
fn systemctl(arguments: &[&str]) -> Result<(), String> {
    let ran = Command::new("systemctl").arg("--user").args(arguments).output();
    match ran {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("there is no systemctl on PATH".to_owned())
        }
        Err(error) => Err(format!("systemctl could not be started: {error}")),
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            Err(if said.is_empty() {
                ran.status.to_string()
            } else {
                said
            })
        }
    }
}

/// Returns the state of a unit in one word of systemd, such as `active` or `enabled`. The exit code does not count: for `inactive` it is an error.
fn state_of(question: &str, name: &str) -> String {
    let asked = Command::new("systemctl")
        .args(["--user", question, "--", name])
        .output();
    let said = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
    said.ok()
        .filter(|said| !said.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the user's configuration folder, two levels above the user's hankweave.json.
fn configuration_folder() -> Result<PathBuf, CliError> {
    let settings = of_user(&Environment::of_process());
    let folder = settings.as_deref().and_then(Path::parent).and_then(Path::parent);
    folder.map(Path::to_owned).ok_or_else(|| {
        CliError::new(
            CliErrorKind::Usage,
            "there is no home: neither HOME nor XDG_CONFIG_HOME is set",
        )
    })
}

/// Returns the folder of the user's units.
fn units_folder() -> Result<PathBuf, CliError> {
    Ok(configuration_folder()?.join("systemd/user"))
}

/// Returns the folder of the files with variables.
fn services_folder() -> Result<PathBuf, CliError> {
    Ok(configuration_folder()?.join("hankweave/services"))
}

fn io_failure<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> CliError + 'p {
    move |error| {
        let message = format!("failed to {what} `{}`: {error}", path.display());
        CliError::new(CliErrorKind::Io, message)
    }
}

/// Writes the unit, which holds no secret.
fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(io_failure("make", folder))?;
    fs::write(file, text).map_err(io_failure("write", file))
}

/// Writes the variables into their file, which only its owner can read, and keeps the other lines of an existing one.
fn write_variables(file: &Path, variables: &[(String, String)]) -> Result<(), CliError> {
    let mut text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "# Variables of the service, one NAME=\"value\" a line; keys of agents belong here.\n".to_owned()
        }
        Err(error) => return Err(io_failure("read", file)(error)),
    };
    for (name, value) in variables {
        let line = unit::variable(name, value).map_err(|error| refused(&error))?;
        let others = text.lines().filter(|old| !old.starts_with(&format!("{name}=")));
        text = others.flat_map(|old| [old, "\n"]).collect::<String>() + &line;
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    RealDisk
        .make_private_dirs(folder)
        .map_err(io_failure("make", folder))?;
    let temporary = file.with_extension("env.tmp");
    let written = || -> io::Result<()> {
        if let Err(error) = fs::remove_file(&temporary)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = fs::OpenOptions::new();
        let mut new = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&temporary, file)
    };
    written().map_err(io_failure("write", file))
}

fn installed(unit: &Unit, name: &str, file: &Path) -> String {
    let (name, execution) = (word(name), &unit.execution);
    let status = in_folder("status", execution);
    let remove = in_folder("service uninstall", execution);
    format!(
        "{} runs as a service, now and after each reboot\n  unit       {}\n  variables  {}\n  status     {status}\n  output     journalctl --user -fu {name}\n  stop       systemctl --user stop -- {name}\n  remove     {remove}\n",
        execution.display(),
        file.display(),
        unit.environment.display(),
    )
}

/// Prints notes on what the service lacks: permission to run without a login, and keys that only this shell has.
fn print_notes(unit: &Unit) {
    let environment = Environment::of_process();
    let lingers = |user: &str| {
        RealDisk
            .metadata(&Path::new("/var/lib/systemd/linger").join(user))
            .is_ok()
    };
    if !environment.user().is_some_and(|user| lingers(&user)) {
        print_stderr(
            "note: it ends when you log out and starts when you log in, until `loginctl enable-linger` was typed\n",
        );
    }
    let known = fs::read_to_string(&unit.environment).unwrap_or_default();
    let is_known = |name: &str| known.lines().any(|line| line.starts_with(&format!("{name}=")));
    let keys = environment.iter().filter_map(|(name, _)| name.to_str());
    let missing: Vec<&str> = keys
        .filter(|name| name.ends_with("_API_KEY") || name.ends_with("_OAUTH_TOKEN"))
        .filter(|name| !is_known(name))
        .collect();
    if !missing.is_empty() {
        print_stderr(format!(
            "note: the service does not have {}; --env NAME copies a variable into {}, which only you can read\n",
            missing.join(", "),
            unit.environment.display()
        ));
    }
}

fn uninstall(global: &Global, execution: &Path) -> Result<ExitCode, CliError> {
    let execution = RealDisk
        .real_path(execution)
        .unwrap_or_else(|_| execution.to_owned());
    let name = unit::name(&execution).map_err(|error| refused(&error))?;
    let file = units_folder()?.join(&name);
    let environment = services_folder()?.join(&name).with_extension("env");
    if !is_ours(&file) {
        let message = format!("no service runs `{}`", execution.display());
        return Err(
            CliError::new(CliErrorKind::Input, message).hint("`hankweave service status` lists the services")
        );
    }
    // A systemd that cannot be reached runs nothing, so the files are removed without its help.
    let disabled = systemctl(&["disable", "--now", "--", &name]);
    fs::remove_file(&file).map_err(io_failure("remove", &file))?;
    match fs::remove_file(&environment) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_failure("remove", &environment)(error));
        }
        _ => {}
    }
    let reloaded = disabled.and_then(|()| systemctl(&["daemon-reload"]));
    if let Err(why) = reloaded {
        print_stderr(format!("note: systemd was not asked to stop it: {why}\n"));
    }
    if global.json() {
        return output::print_json(&json!({"unit": name, "execution": execution.to_string_lossy()}));
    }
    if !global.quiet {
        let text = format!(
            "removed {} with its variables; the record stays, and `{}` continues it\n",
            file.display(),
            HintCommands::about(&execution).run()
        );
        output::print(text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether this command has written the unit.
fn is_ours(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.starts_with(MARK))
}

/// Lists the services that this command has installed.
fn status(global: &Global) -> Result<ExitCode, CliError> {
    let folder = units_folder()?;
    let names = match RealDisk.list_dir(&folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(io_failure("read", &folder)(error)),
    };
    let mut services = Vec::new();
    for name in names.iter().filter_map(|name| name.to_str()) {
        let file = folder.join(name);
        if !name.starts_with("hankweave-") || !name.ends_with(".service") || !is_ours(&file) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let execution = text.lines().find_map(|line| line.strip_prefix("# Directory: "));
        let execution = execution.unwrap_or_default().to_owned();
        let (active, enabled) = (state_of("is-active", name), state_of("is-enabled", name));
        services.push((execution, name.to_owned(), active, enabled));
    }
    services.sort();
    if global.json() {
        let services = services.iter().map(|(execution, name, active, enabled)| {
            json!({"execution": execution, "unit": name, "active": active, "enabled": enabled})
        });
        return output::print_json(&services.collect::<Vec<_>>());
    }
    let lines = services.iter().map(|(execution, name, active, enabled)| {
        let is_live = if is_served(Path::new(execution)) {
            ", a run is live"
        } else {
            ""
        };
        format!("{execution}  {active}, {enabled}{is_live}\n  {name}\n")
    });
    let text: String = lines.collect();
    output::print(match text.is_empty() {
        true => "no services; `hankweave service install DIR` makes one\n".to_owned(),
        false => text,
    })?;
    Ok(ExitCode::SUCCESS)
}
