//! Facts about the programs and files of a run's sentinels before it starts (SENT-11).

use hankweave_core::hank::{CodonConfig, Hank, Problem, SentinelEntry, Severity};
use hankweave_core::sentinel::model::unloaded;
use hankweave_core::sentinel::{Ask, CODON_COMPLETED, SentinelConfig, SentinelSettings};

use super::command;
use super::files::SentinelFiles;
use crate::hank_files::LoadedHank;
use crate::world::World;

/// Sentinels that would be left out of a run here because of their program or their files, and those without which their codon would fail.
pub(crate) fn unloadable(hank: &Hank, loaded: &LoadedHank, world: &World) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, codon) in hank.located_codons() {
        for (place, entry) in codon.located_sentinels(&at) {
            let fault = fault(codon, entry, loaded, world);
            problems.extend(fault.map(|(level, message)| Problem {
                level,
                ..Problem::error(&hank.places, place, message)
            }));
        }
    }
    problems
}

fn fault(
    codon: &CodonConfig,
    entry: &SentinelEntry,
    loaded: &LoadedHank,
    world: &World,
) -> Option<(Severity, String)> {
    let config = SentinelConfig::of(entry, &loaded.sentinels).ok()?;
    let settings = SentinelSettings::from_checked(entry.settings.clone()).ok()?;
    if let Err(why) = SentinelFiles::of(&config, &settings, &codon.id) {
        return Some(unloaded(&config, entry, &why));
    }
    if config.model.is_none()
        && let Err(why) = command::check(&config, &loaded.root, world, &codon.env)
    {
        // The rig of the codon may install the program.
        let (_, message) = unloaded(&config, entry, &why);
        return Some((Severity::Warning, message));
    }
    let message = too_late(&config, &settings)?;
    Some((Severity::Warning, message))
}

/// Whether the hank lets a sentinel do to its codon what it can only ask for when that has ended.
fn too_late(config: &SentinelConfig, settings: &SentinelSettings) -> Option<String> {
    let on = config.trigger.on();
    if on.is_empty() || on.iter().any(|kind| kind != CODON_COMPLETED) {
        return None;
    }
    let id = &config.id;
    let mut late = settings.may_ask.iter().filter(|ask| **ask != Ask::Pause);
    match late.next() {
        Some(ask) => Some(format!(
            "sentinel {id} acts when its codon has ended, and then `{}` does nothing; grant `pause`, which stops the run before the next codon",
            ask.as_str()
        )),
        None if config.fails_its_codon() => Some(format!(
            "sentinel {id} acts when its codon has ended, and then `onError: failCodon` does nothing"
        )),
        None => None,
    }
}
