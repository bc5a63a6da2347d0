//! `hankweave config`, and how the other commands read their settings.
//!
//! Settings come in layers, of which the first with a value wins: command line, environment, hank, hankweave.json of the folder, that of the user, defaults.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::Style;
use hankweave_core::hank::{Hank, Position, PriceSource, Setting, SettingValue};
use hankweave_http::HttpClient;
use hankweave_remote::absolute;
use hankweave_runtime::hank_files::{self, LoadHankError};
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::environment::Environment;
use serde_json::{Map, Value, json};

use crate::args::{ConfigArgs, Global, SettingArgs};
use crate::failures::{hank_failure, hank_with_mistakes};
use crate::settings::{Configuration, Flags, SettingSource, SettingsError, TrustedSettings, of_user};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{SafeText, print_stderr};
use crate::terminal::shell::{path_word, word};

/// Shows the settings that `run` would use with these flags, and the source of each value. Starts nothing and writes nothing.
pub(crate) fn config(global: &Global, args: &ConfigArgs) -> Result<ExitCode, CliError> {
    let loaded = match hank_files::load(&args.hank) {
        Ok(loaded) => Some(loaded),
        Err(LoadHankError::NoHankInFolder { .. }) => None,
        Err(error) => return Err(hank_failure(&error)),
    };
    let hank = loaded.as_ref().and_then(|loaded| loaded.hank.as_ref());
    if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.hank.is_none()) {
        return Err(hank_with_mistakes(loaded));
    }
    let flags = flags(&args.settings)?;
    let mut configuration = resolve(hank, &flags)?;
    if args.trust {
        trust(&configuration)?;
        configuration = resolve(hank, &flags)?;
    }
    let hank_file = loaded.as_ref().map(|loaded| loaded.file.display().to_string());
    if global.json() {
        return output::print_json(&as_json(&configuration, hank_file.as_deref()));
    }
    for warning in &configuration.warnings {
        print_stderr(format!("{warning}\n"));
    }
    output::print_lines(as_text(&configuration, hank_file.as_deref().unwrap_or_default()))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads all layers.
pub(crate) fn resolve(hank: Option<&Hank>, flags: &Flags) -> Result<Configuration, CliError> {
    let configuration = Configuration::read(&RealDisk, &Environment::of_process(), hank, flags);
    configuration.map_err(|error| match error {
        SettingsError::Bad(_) => CliError::from_error(CliErrorKind::Input, &error)
            .hint("nothing was written; `hankweave schema config` says which settings there are"),
        SettingsError::Unreadable { .. } => CliError::from_error(CliErrorKind::Io, &error)
            .hint("nothing was written; repair the disk, then type the same again"),
    })
}

/// Reads all layers for a command that starts agents or calls models. Refuses settings that came from a remote and that start a program or say where a
/// key is sent, until the user has accepted them (CLI-63).
pub(crate) fn resolve_trusted(hank: Option<&Hank>, flags: &Flags) -> Result<Configuration, CliError> {
    let configuration = resolve(hank, flags)?;
    let names: Vec<&str> = configuration
        .untrusted
        .iter()
        .map(|setting| setting.name())
        .collect();
    if names.is_empty() {
        return Ok(configuration);
    }
    let message = format!(
        "hankweave.json came from a remote, and its {} starts a program or says where a key is sent",
        names.join(", ")
    );
    Err(CliError::new(CliErrorKind::Usage, message).hint(
        "nothing was started; look at `hankweave config`, and if you want all of that, say so once: `hankweave config --trust`",
    ))
}

/// Notes that the user accepts what the hankweave.json of the working directory says.
fn trust(configuration: &Configuration) -> Result<(), CliError> {
    let trusted = TrustedSettings::of(&RealDisk, &Environment::of_process(), Path::new("."));
    let accepted = trusted.accept(configuration.of_folder());
    accepted.map_err(|error| {
        CliError::from_error(CliErrorKind::Io, &error)
            .hint("nothing was accepted; give the settings on the command line instead")
    })
}

/// Returns the typed remote, or else the remote in the settings (CLI-61). Refuses a remote that is only in the hankweave.json of the folder: the error
/// suggests `command`, with the remote in place of `URL`.
pub(crate) fn remote(typed: Option<&str>, world: &World, command: &str) -> Result<Option<String>, CliError> {
    let given = typed.map(|url| (Setting::Remote, SettingValue::Text(url.to_owned())));
    let configuration = resolve(None, &Flags::from_iter(given))?;
    if let Some(planted) = configuration.refused(Setting::Remote) {
        let command = command.replace("URL", &word(planted));
        return Err(refused("remote", &format!("`hankweave {command}`")));
    }
    Ok(configuration
        .text(Setting::Remote)
        .map(|url| absolute(world, url)))
}

/// Returns the remote in the user's own settings or in a variable. In contrast to [`remote`], ignores the hankweave.json of the folder without an error.
pub(crate) fn named_remote(world: &World) -> Result<Option<String>, CliError> {
    let configuration = resolve(None, &Flags::new())?;
    Ok(configuration
        .text(Setting::Remote)
        .map(|url| absolute(world, url)))
}

/// Returns the error for a setting of the folder that only the user may make (CLI-62); `takes_it` names the flag or command that takes its value.
pub(crate) fn refused(name: &str, takes_it: &str) -> CliError {
    let own = of_user(&Environment::of_process());
    let own = own.map_or_else(String::new, |file| {
        format!(", and {} in every folder", path_word(&file))
    });
    let message = format!("hankweave.json of this folder names a {name}, and a folder may come from anybody");
    CliError::new(CliErrorKind::Usage, message).hint(format!("if you know it, {takes_it} takes it{own}"))
}

/// Returns the world in which agents find their settings, and sentinels their models.
pub(crate) fn world(configuration: &Configuration) -> World {
    let environment = Environment::of_process();
    let environment = match configuration.text(Setting::AnthropicBaseUrl) {
        Some(url) => environment.with("ANTHROPIC_BASE_URL", url),
        None => environment,
    };
    World {
        http: Arc::new(HttpClient::new()),
        ..World::with_environment(environment)
    }
}

/// Returns the settings of the command line.
pub(crate) fn flags(args: &SettingArgs) -> Result<Flags, CliError> {
    let output = args
        .output
        .as_deref()
        .map(|path| text_of(path, "the output directory"));
    let flags = [
        (
            Setting::Port,
            args.port.map(|port| SettingValue::Number(port.into())),
        ),
        (
            Setting::Autostart,
            args.no_autostart.then_some(SettingValue::Flag(false)),
        ),
        (Setting::Agent, args.agent.clone().map(SettingValue::Agent)),
        (Setting::Model, args.model.clone().map(SettingValue::Text)),
        (
            Setting::OutputDirectory,
            output.transpose()?.map(SettingValue::Text),
        ),
        (
            Setting::IgnoreRigFailures,
            args.ignore_rig_failures.then_some(SettingValue::Flag(true)),
        ),
        (
            Setting::MaxWaitSeconds,
            args.max_wait.map(|wait| SettingValue::Number(wait.as_secs())),
        ),
        (Setting::MaxDiskGb, args.max_disk.map(SettingValue::Gigabytes)),
        (Setting::Notify, args.notify.clone().map(SettingValue::Text)),
        (Setting::MaxDollars, args.max_cost.map(SettingValue::Dollars)),
        (Setting::MaxTimeSeconds, args.max_time.map(SettingValue::Seconds)),
    ];
    let given = flags
        .into_iter()
        .filter_map(|(setting, value)| Some((setting, value?)));
    with_prices(given.collect(), args.prices.as_deref())
}

/// Adds the file of `--prices`.
pub(crate) fn with_prices(mut flags: Flags, file: Option<&Path>) -> Result<Flags, CliError> {
    if let Some(file) = file {
        let file = text_of(file, "the path of the prices")?;
        flags.insert(Setting::Prices, SettingValue::Prices(PriceSource::File(file)));
    }
    Ok(flags)
}

fn text_of(path: &Path, what: &str) -> Result<String, CliError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CliError::new(CliErrorKind::Usage, format!("{what} is not UTF-8 text")))
}

fn as_json(configuration: &Configuration, hank: Option<&str>) -> Value {
    let settings: Map<String, Value> = configuration
        .iter()
        .map(|(setting, value, source)| {
            let (kind, variable, place) = match source {
                SettingSource::Flag => ("flag", None, None),
                SettingSource::Variable(name) => ("environment", Some(name), None),
                SettingSource::Hank(place) => ("hank", None, *place),
                SettingSource::File(place) => ("file", None, *place),
                SettingSource::User(place) => ("user", None, *place),
                SettingSource::Default => ("default", None, None),
            };
            let entry = json!({
                "value": shown(setting, value),
                "source": kind,
                "variable": variable,
                "line": place.map(|place| place.line),
                "column": place.map(|place| place.column),
            });
            (setting.name().to_owned(), entry)
        })
        .collect();
    json!({
        "file": configuration.file,
        "userFile": configuration.user_file,
        "hank": hank,
        "settings": settings,
        "warnings": configuration.warnings,
    })
}

fn as_text(configuration: &Configuration, hank: &str) -> SafeText {
    let mut text = SafeText::default();
    let width = configuration.iter().map(|(setting, ..)| setting.name().len());
    let width = width.max().unwrap_or_default();
    for (setting, value, source) in configuration.iter() {
        let value = shown(setting, value).map_or_else(|| "-".to_owned(), |value| value.to_string());
        let (name, is_default) = (setting.name(), *source == SettingSource::Default);
        let source = match source {
            SettingSource::Flag => "command line".to_owned(),
            SettingSource::Variable(name) => name.clone(),
            SettingSource::Hank(place) => at(hank, *place),
            SettingSource::User(place) => {
                let file = configuration
                    .user_file
                    .as_deref()
                    .map(|file| file.display().to_string());
                at(&file.unwrap_or_default(), *place)
            }
            SettingSource::File(place) => at(configuration.file.unwrap_or_default(), *place),
            SettingSource::Default => "default".to_owned(),
        };
        // Values that were set catch the eye.
        let style = match is_default {
            true => Style::new().dimmed(),
            false => Style::new().bold(),
        };
        // Writing to a text cannot fail.
        let _ = text.styled(style, format_args!("{name:<width$}  {value:<24}"));
        let _ = writeln!(text, "  {source}");
    }
    text
}

/// Returns the value as it is shown: addresses without their passwords.
fn shown(setting: Setting, value: Option<&SettingValue>) -> Option<SettingValue> {
    match (setting, value) {
        (Setting::Registry | Setting::Remote, Some(SettingValue::Text(url))) => {
            Some(SettingValue::Text(hankweave_remote::shown(url)))
        }
        (_, value) => value.cloned(),
    }
}

fn at(file: &str, place: Option<Position>) -> String {
    match place {
        Some(Position { line, column }) => format!("{file}:{line}:{column}"),
        None => file.to_owned(),
    }
}
