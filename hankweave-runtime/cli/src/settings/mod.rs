//! Settings of the runtime from all their layers: command line, environment, hank, hankweave.json of the folder, that of the user, defaults.
//!
//! What a setting is called and which values it takes is in [`hankweave_core::hank::Setting`]; here the layers meet, and each value keeps where it
//! came from. Nothing is written.

mod file;
mod layers;
mod trust;

pub(crate) use file::of_user;
pub(crate) use layers::{Configuration, Flags, SettingSource, SettingsError};
pub(crate) use trust::TrustedSettings;
