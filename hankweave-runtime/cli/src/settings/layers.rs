//! Value and source of each setting (HANK-57). The first of these that has the setting wins: command line, variable, `overrides` of the hank,
//! hankweave.json of the folder, that of the user, default. The total budget is an exception: of the three files the lowest limit wins, so that none
//! raises another (HANK-30).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::budget::Ceiling;
use hankweave_core::cost::Usd;
use hankweave_core::hank::{AgentChoice, Hank, Overrides, Position, PriceSource, Setting, SettingValue};
use hankweave_runtime::hank_files::RefError;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::environment::Environment;

use super::file::{self, SettingsFile};
use super::trust::{TrustedSettings, starts_or_reaches};

/// Settings of the command line.
pub(crate) type Flags = BTreeMap<Setting, SettingValue>;

/// Source of a value, with its position where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// Option of the command line.
    Flag,
    /// Environment variable with this name.
    Variable(String),
    /// `overrides` of the hank.
    Hank(Option<Position>),
    /// hankweave.json of the folder.
    File(Option<Position>),
    /// hankweave.json of the user.
    User(Option<Position>),
    Default,
}

/// Every setting with its value and the source of the value.
#[derive(Debug)]
pub(crate) struct Configuration {
    settings: BTreeMap<Setting, (Option<SettingValue>, SettingSource)>,
    /// Name of the folder's file, if there is one.
    pub(crate) file: Option<&'static str>,
    /// The user's own file, if there is one.
    pub(crate) user_file: Option<PathBuf>,
    /// Settings in the folder's file that only the user may make and has not made, with their values there: an error suggests the command with which the
    /// user makes the setting.
    refused: BTreeMap<Setting, SettingValue>,
    /// Settings in the folder's file that came from a remote and that the user has not accepted yet (CLI-63).
    pub(crate) untrusted: Vec<Setting>,
    /// Warnings about both files.
    pub(crate) warnings: Vec<String>,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// Layers that cannot be used, with every problem on a line of its own.
    #[error("the settings cannot be used\n{}", .0.join("\n"))]
    Bad(Vec<String>),
    /// The system failed to read the file.
    #[error("failed to read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: RefError,
    },
}

impl Configuration {
    /// Reads both hankweave.json and the environment, and resolves each setting from them, the flags, the hank and the defaults.
    ///
    /// # Errors
    ///
    /// Every problem of the files and of the variables at once, or that of a file that the system failed to read.
    pub(crate) fn read(
        disk: &dyn Disk,
        environment: &Environment,
        hank: Option<&Hank>,
        flags: &Flags,
    ) -> Result<Self, SettingsError> {
        let SettingsFile {
            file,
            mut errors,
            mut warnings,
        } = file::read(disk, Path::new(file::NAME)).map_err(unreadable(Path::new(file::NAME)))?;
        let user_path = file::of_user(environment);
        let user = user_path
            .as_deref()
            .map(|path| file::read_of_user(disk, path).map_err(unreadable(path)));
        let user = user.transpose()?;
        let user = user.unwrap_or_default();
        errors.extend(user.errors);
        warnings.extend(user.warnings);
        let variables = variables(environment, &mut errors);
        if !errors.is_empty() {
            return Err(SettingsError::Bad(errors));
        }
        let layers = SettingLayers {
            flags,
            variables,
            hank,
            file: file.as_ref().map(|file| &file.settings),
            user: user.file.as_ref().map(|file| &file.settings),
        };
        let refused = layers.refused();
        warnings.extend(refused.iter().map(|(setting, place)| {
            let at = place.map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
            let name = setting.name();
            format!(
                "{}{at}: warning: {name}: has no effect here: only you say it",
                file::NAME
            )
        }));
        let has_value = |setting: &Setting| layers.of(*setting).0.is_some();
        let refused = refused.into_keys().filter(|setting| !has_value(setting));
        let refused =
            refused.filter_map(|setting| Some((setting, file.as_ref()?.settings.get(&setting)?.0.clone())));
        let mut configuration = Self {
            refused: refused.collect(),
            settings: Setting::ALL.map(|setting| (setting, layers.of(setting))).into(),
            user_file: user_path.filter(|_| user.file.is_some()),
            file: file.is_some().then_some(file::NAME),
            untrusted: Vec::new(),
            warnings,
        };
        configuration.untrusted = configuration.not_accepted(disk, environment);
        let untrusted = configuration.untrusted.iter().map(|setting| {
            let name = setting.name();
            format!(
                "{}: warning: {name}: came from a remote; `hankweave config --trust` accepts it",
                file::NAME
            )
        });
        configuration.warnings.extend(untrusted);
        Ok(configuration)
    }

    /// Returns the settings that have their value from the folder's file and start a program or send a key to an address.
    pub(crate) fn of_folder(&self) -> impl Iterator<Item = (Setting, &SettingValue)> {
        let of_folder = self
            .iter()
            .filter(|(.., source)| matches!(source, SettingSource::File(_)));
        let valued = of_folder.filter_map(|(setting, value, _)| Some((setting, value?)));
        valued.filter(|(setting, value)| starts_or_reaches(*setting, value))
    }

    /// Returns those of [`Self::of_folder`] that the user has not accepted; none if the folder did not come from a remote.
    fn not_accepted(&self, disk: &dyn Disk, environment: &Environment) -> Vec<Setting> {
        let trusted = TrustedSettings::of(disk, environment, Path::new("."));
        if self.of_folder().next().is_none() || !trusted.is_needed() {
            return Vec::new();
        }
        let not_accepted = self
            .of_folder()
            .filter(|(setting, value)| !trusted.has(*setting, value));
        not_accepted.map(|(setting, _)| setting).collect()
    }

    /// Returns all settings in the order of the documentation.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Setting, Option<&SettingValue>, &SettingSource)> {
        let settings = self.settings.iter();
        settings.map(|(setting, (value, source))| (*setting, value.as_ref(), source))
    }

    fn value(&self, setting: Setting) -> Option<&SettingValue> {
        self.settings.get(&setting).and_then(|(value, _)| value.as_ref())
    }

    /// Returns the text in the folder's file for a setting that only the user may make; `None` if there is none, or if the user has made the setting.
    pub(crate) fn refused(&self, setting: Setting) -> Option<&str> {
        match self.refused.get(&setting) {
            Some(SettingValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, setting: Setting) -> bool {
        matches!(self.value(setting), Some(SettingValue::Flag(true)))
    }

    pub(crate) fn number(&self, setting: Setting) -> Option<u64> {
        match self.value(setting) {
            Some(SettingValue::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn text(&self, setting: Setting) -> Option<&str> {
        match self.value(setting) {
            Some(SettingValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn agent(&self) -> Option<&AgentChoice> {
        match self.value(Setting::Agent) {
            Some(SettingValue::Agent(agent)) => Some(agent),
            _ => None,
        }
    }

    /// Returns the source of prices that override the list.
    pub(crate) fn prices(&self) -> Option<&PriceSource> {
        match self.value(Setting::Prices) {
            Some(SettingValue::Prices(prices)) => Some(prices),
            _ => None,
        }
    }

    /// Returns the room that the record may take, in bytes.
    pub(crate) fn max_disk(&self) -> Option<u64> {
        const GIBIBYTE: f64 = (1_u64 << 30) as f64;
        match self.value(Setting::MaxDiskGb) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a value above 0; one beyond all disks ends at the largest number"
            )]
            Some(SettingValue::Gigabytes(gigabytes)) => Some((gigabytes * GIBIBYTE) as u64),
            _ => None,
        }
    }

    /// Returns the limits on the run and those before it.
    pub(crate) fn ceiling(&self) -> Ceiling {
        let seconds = match self.value(Setting::MaxTimeSeconds) {
            Some(SettingValue::Seconds(seconds)) => Some(*seconds),
            _ => None,
        };
        Ceiling {
            max_dollars: match self.value(Setting::MaxDollars) {
                Some(SettingValue::Dollars(dollars)) => Some(*dollars),
                _ => None,
            },
            // A limit above the longest duration is no limit in practice.
            max_time: seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
        }
    }

    /// Writes the resolved settings into `overrides` of a hank, where its runs read them. Overrides that are no settings stay.
    pub(crate) fn write_into(&self, hank: &mut Hank) {
        let before = hank.overrides.take();
        let Overrides {
            sentinel,
            fallback,
            requires,
            budget,
            on_background_cut,
            agent_options,
            ..
        } = before.unwrap_or_default();
        let overrides = Overrides {
            agent: self.agent().cloned(),
            model: self.text(Setting::Model).map(str::to_owned),
            data_hash_time_limit: self.number(Setting::DataHashTimeLimit),
            checkpointed_file_limit_mb: self.number(Setting::CheckpointedFileLimitMb),
            shim_idle_timeout: self.number(Setting::ShimIdleTimeout),
            settle_seconds: self.number(Setting::SettleSeconds),
            max_background_seconds: self.number(Setting::MaxBackgroundSeconds),
            on_background_cut,
            agent_options,
            sentinel,
            fallback,
            requires,
            budget,
        };
        hank.overrides = Some(overrides);
    }
}

fn unreadable(path: &Path) -> impl FnOnce(RefError) -> SettingsError {
    let path = path.to_owned();
    move |source| SettingsError::Unreadable { path, source }
}

/// Returns the settings of the variables `HANKWEAVE_RUNTIME_…`; two of them have a shorter name as well.
fn variables(
    environment: &Environment,
    errors: &mut Vec<String>,
) -> BTreeMap<Setting, (SettingValue, String)> {
    let mut found = BTreeMap::new();
    for setting in Setting::ALL {
        let names = [shorter(setting).map(str::to_owned), setting.variable()];
        let named = names
            .into_iter()
            .flatten()
            .find_map(|name| Some((environment.get(&name)?.to_owned(), name)));
        let Some((value, name)) = named else { continue };
        let value = value
            .to_str()
            .ok_or_else(|| "is not UTF-8 text".to_owned())
            .and_then(|text| setting.from_variable(text));
        match value {
            Ok(value) => drop(found.insert(setting, (value, name))),
            Err(rule) => errors.push(format!("{name}: error: {rule}")),
        }
    }
    found
}

fn shorter(setting: Setting) -> Option<&'static str> {
    match setting {
        Setting::Port => Some("HANKWEAVE_PORT"),
        Setting::Registry => Some("HANKWEAVE_REGISTRY"),
        Setting::Remote => Some("HANKWEAVE_REMOTE"),
        _ => None,
    }
}

/// All layers but the defaults, from the strongest to the weakest.
struct SettingLayers<'l> {
    flags: &'l Flags,
    /// Values with the names of their variables.
    variables: BTreeMap<Setting, (SettingValue, String)>,
    hank: Option<&'l Hank>,
    /// The folder's file.
    file: Option<&'l BTreeMap<Setting, (SettingValue, Option<Position>)>>,
    /// The user's file.
    user: Option<&'l BTreeMap<Setting, (SettingValue, Option<Position>)>>,
}

impl SettingLayers<'_> {
    /// Returns the value that wins, with its source.
    fn of(&self, setting: Setting) -> (Option<SettingValue>, SettingSource) {
        if let Some(value) = self.flags.get(&setting) {
            return (Some(value.clone()), SettingSource::Flag);
        }
        if let Some((value, name)) = self.variables.get(&setting) {
            return (Some(value.clone()), SettingSource::Variable(name.clone()));
        }
        let file = self.file.filter(|_| !setting.is_of_the_user());
        let file = file.and_then(|file| file.get(&setting));
        let file = file.map(|(value, place)| (value.clone(), SettingSource::File(*place)));
        let user = self.user.and_then(|user| user.get(&setting));
        let user = user.map(|(value, place)| (value.clone(), SettingSource::User(*place)));
        let winner = match setting {
            Setting::MaxDollars | Setting::MaxTimeSeconds => lower(self.budget(setting), lower(file, user)),
            _ => self.overridden(setting).or(file.or(user)),
        };
        match winner {
            Some((value, source)) => (Some(value), source),
            None => (setting.default(), SettingSource::Default),
        }
    }

    /// Returns the positions of settings in the folder's file that only the user may make.
    fn refused(&self) -> BTreeMap<Setting, Option<Position>> {
        let of_file = self.file.into_iter().flatten();
        let refused = of_file.filter(|(setting, _)| setting.is_of_the_user());
        refused.map(|(setting, (_, place))| (*setting, *place)).collect()
    }

    fn overridden(&self, setting: Setting) -> Option<(SettingValue, SettingSource)> {
        let hank = self.hank?;
        let value = setting.of_hank(hank.overrides.as_ref()?)?;
        Some((value, self.in_hank(setting)))
    }

    fn budget(&self, setting: Setting) -> Option<(SettingValue, SettingSource)> {
        let budget = self.hank?.overrides.as_ref()?.budget.as_ref()?;
        let value = match setting {
            Setting::MaxDollars => budget.max_dollars.map(SettingValue::Dollars),
            _ => budget.max_time_seconds.map(SettingValue::Seconds),
        };
        Some((value?, self.in_hank(setting)))
    }

    fn in_hank(&self, setting: Setting) -> SettingSource {
        let path = format!("overrides.{}", setting.name());
        SettingSource::Hank(self.hank.and_then(|hank| hank.places.position(&path)))
    }
}

type SourcedValue = Option<(SettingValue, SettingSource)>;

/// Returns the lower of two limits, so that neither layer raises the limit of the other (HANK-30).
fn lower(first: SourcedValue, second: SourcedValue) -> SourcedValue {
    match (&first, &second) {
        (Some((value, _)), Some((other, _))) if amount(other) < amount(value) => second,
        (Some(_), _) => first,
        (None, _) => second,
    }
}

/// Returns a limit as numbers that can be compared with a limit of its kind.
fn amount(value: &SettingValue) -> (Usd, f64) {
    match value {
        SettingValue::Dollars(dollars) => (*dollars, 0.0),
        SettingValue::Seconds(seconds) => (Usd::ZERO, *seconds),
        _ => (Usd::ZERO, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::hank::RuntimeFile;

    use super::*;

    const HANK: &str = r#"{"overrides": {"model": "of-hank", "budget": {"maxDollars": 2, "maxTimeSeconds": 60}}, "hank": [
        {"id": "a", "name": "A", "model": "m", "continuationMode": "fresh", "promptText": "x"}]}"#;

    /// What wins, for each pair of neighbours.
    // covers: HANK-57
    #[test]
    fn flags_win_over_variables_over_the_hank_over_the_file_over_defaults() {
        let hank = hankweave_core::hank::parse(HANK).hank.unwrap();
        let file = RuntimeFile::parse(
            r#"{"model": "of-file", "port": 1, "autostart": false, "dataHashTimeLimit": 7, "ignoreRigFailures": true}"#,
        );
        let environment = Environment::from_iter([
            ("HANKWEAVE_RUNTIME_MODEL", "of-variable"),
            ("HANKWEAVE_RUNTIME_PORT", "2"),
            ("HANKWEAVE_RUNTIME_AUTOSTART", "1"),
        ]);
        let mut errors = Vec::new();
        let mut layers = SettingLayers {
            flags: &Flags::from([(Setting::Port, SettingValue::Number(3))]),
            variables: variables(&environment, &mut errors),
            hank: Some(&hank),
            file: Some(&file.settings),
            user: None,
        };
        assert!(errors.is_empty());
        let text = |text: &str| Some(SettingValue::Text(text.to_owned()));
        let variable = |name: &str| SettingSource::Variable(format!("HANKWEAVE_RUNTIME_{name}"));
        assert_eq!(
            layers.of(Setting::Port),
            (Some(SettingValue::Number(3)), SettingSource::Flag)
        );
        assert_eq!(
            layers.of(Setting::Model),
            (text("of-variable"), variable("MODEL"))
        );
        assert_eq!(
            layers.of(Setting::Autostart),
            (Some(SettingValue::Flag(true)), variable("AUTOSTART"))
        );
        layers.variables.clear();
        let place = Position { line: 1, column: 25 };
        assert_eq!(
            layers.of(Setting::Model),
            (text("of-hank"), SettingSource::Hank(Some(place)))
        );
        let place = Position { line: 1, column: 74 };
        assert_eq!(
            layers.of(Setting::DataHashTimeLimit),
            (Some(SettingValue::Number(7)), SettingSource::File(Some(place)))
        );
        layers.hank = None;
        assert_eq!(layers.of(Setting::Model).0, text("of-file"));
        layers.file = None;
        assert_eq!(layers.of(Setting::Model), (None, SettingSource::Default));
        assert_eq!(
            layers.of(Setting::DataHashTimeLimit),
            (Some(SettingValue::Number(5000)), SettingSource::Default)
        );
    }

    // covers: CLI-62
    #[test]
    fn a_folder_does_not_say_where_tasks_and_runs_go_and_the_user_does() {
        let text = r#"{"registry": "sqlite:x", "remote": "ssh://x/y", "model": "m", "port": 1}"#;
        let (folder, user) = (RuntimeFile::parse(text), RuntimeFile::parse(text));
        let none = Flags::new();
        let mut layers = SettingLayers {
            flags: &none,
            variables: BTreeMap::new(),
            hank: None,
            file: Some(&folder.settings),
            user: None,
        };
        for setting in [Setting::Registry, Setting::Remote] {
            assert_eq!(layers.of(setting), (None, SettingSource::Default));
        }
        assert!(matches!(
            layers.of(Setting::Model),
            (Some(_), SettingSource::File(_))
        ));
        assert_eq!(
            layers.refused().into_keys().collect::<Vec<_>>(),
            [Setting::Registry, Setting::Remote]
        );
        layers.user = Some(&user.settings);
        for setting in [Setting::Registry, Setting::Remote] {
            assert!(matches!(layers.of(setting), (Some(_), SettingSource::User(_))));
        }
        assert!(matches!(
            layers.of(Setting::Port),
            (Some(_), SettingSource::File(_))
        ));
        layers.file = None;
        assert!(matches!(
            layers.of(Setting::Port),
            (Some(_), SettingSource::User(_))
        ));
    }

    // covers: HANK-30
    #[test]
    fn ceilings_of_hank_and_file_lower_each_other_and_the_command_line_replaces_them() {
        let hank = hankweave_core::hank::parse(HANK).hank.unwrap();
        let file = RuntimeFile::parse(r#"{"budget": {"maxDollars": 1.5, "maxTimeSeconds": 61}}"#);
        let flags = Flags::from([(
            Setting::MaxDollars,
            SettingValue::Dollars(Usd::from_micros(9_000_000)),
        )]);
        let with = |flags| SettingLayers {
            flags,
            variables: BTreeMap::new(),
            hank: Some(&hank),
            file: Some(&file.settings),
            user: None,
        };
        let none = Flags::new();
        let (value, source) = with(&none).of(Setting::MaxDollars);
        assert_eq!(value, Some(SettingValue::Dollars(Usd::from_micros(1_500_000))));
        assert!(matches!(source, SettingSource::File(_)));
        let (value, source) = with(&none).of(Setting::MaxTimeSeconds);
        assert_eq!(value, Some(SettingValue::Seconds(60.0)));
        assert!(matches!(source, SettingSource::Hank(_)));
        let (value, source) = with(&flags).of(Setting::MaxDollars);
        assert_eq!(
            (value, source),
            (flags.get(&Setting::MaxDollars).cloned(), SettingSource::Flag)
        );
    }

    // covers: HANK-58
    #[test]
    fn every_variable_that_cannot_be_read_is_told() {
        let environment = Environment::from_iter([
            ("HANKWEAVE_PORT", "eighty"),
            ("HANKWEAVE_RUNTIME_PORT", "80"),
            ("HANKWEAVE_RUNTIME_SHIM_IDLE_TIMEOUT", "0"),
        ]);
        let mut errors = Vec::new();
        assert!(variables(&environment, &mut errors).is_empty());
        assert_eq!(
            errors,
            [
                "HANKWEAVE_PORT: error: must be a whole number from 0 to 65535, not a string",
                "HANKWEAVE_RUNTIME_SHIM_IDLE_TIMEOUT: error: must be a whole number from 1 to 1800, not `0`",
            ]
        );
    }
}
