//! Problems of a hank's sentinels that are found before a run starts, and only on the machine where it is to run: a missing program, a file that must not be
//! written (SENT-11), and permissions that have no effect. Errors in the texts of the hank itself are found earlier, when it is loaded.

use hankweave_core::hank::{CodonConfig, Hank, Problem, SentinelEntry, Severity};
use hankweave_core::sentinel::model::unloaded;
use hankweave_core::sentinel::{Ask, CODON_COMPLETED, SentinelConfig, SentinelSettings};

use super::command;
use super::files::SentinelFiles;
use crate::hank_files::LoadedHank;
use crate::world::World;

/// Returns an error for each sentinel that cannot be loaded and without which its codon would fail; a warning for each that would be left out, and for each
/// permission that has no effect.
pub(crate) fn sentinel_problems(hank: &Hank, loaded: &LoadedHank, world: &World) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, codon) in hank.located_codons() {
        for (place, entry) in codon.located_sentinels(&at) {
            let found = problems_of(codon, entry, loaded, world).into_iter();
            problems.extend(found.map(|(level, message)| Problem {
                level,
                ..Problem::error(&hank.places, place.clone(), message)
            }));
        }
    }
    problems
}

fn problems_of(
    codon: &CodonConfig,
    entry: &SentinelEntry,
    loaded: &LoadedHank,
    world: &World,
) -> Vec<(Severity, String)> {
    let config = SentinelConfig::of(entry, &loaded.sentinels).ok();
    let settings = SentinelSettings::from_checked(entry.settings.clone()).ok();
    let Some((config, settings)) = config.zip(settings) else {
        return Vec::new();
    };
    let is_command = config.model.is_none();
    let left_out = if let Err(why) = SentinelFiles::of(&config, &settings, &codon.id) {
        Some(unloaded(&config, entry, &why))
    } else if is_command && let Err(why) = command::check(&config, &loaded.root, world, &codon.env) {
        // Never an error: the rig of the codon may install the program.
        let (_, message) = unloaded(&config, entry, &why);
        Some((Severity::Warning, message))
    } else {
        None
    };
    let without_effect = without_effect(&config, &settings).map(|message| (Severity::Warning, message));
    left_out.into_iter().chain(without_effect).collect()
}

/// Describes the permissions that have no effect, because the sentinel acts only when its codon has ended; `None` if there are none.
fn without_effect(config: &SentinelConfig, settings: &SentinelSettings) -> Option<String> {
    if config.trigger.on().iter().any(|kind| kind != CODON_COMPLETED) {
        return None;
    }
    let asks = settings.may_ask.iter().filter(|ask| **ask != Ask::Pause);
    let mut idle: Vec<String> = asks.map(|ask| format!("`{}`", ask.as_str())).collect();
    let may_pause = settings.may_ask.contains(&Ask::Pause);
    let hint = match idle.is_empty() || may_pause {
        true => "",
        false => "; grant `pause`, which stops the run before the next codon",
    };
    if config.fails_its_codon() {
        idle.push("`onError: failCodon`".to_owned());
    }
    let (last, others) = idle.split_last()?;
    let (names, verb) = match others.is_empty() {
        true => (last.clone(), "does"),
        false => (format!("{} and {last}", others.join(", ")), "do"),
    };
    let id = &config.id;
    Some(format!(
        "sentinel {id} acts when its codon has ended, and then {names} {verb} nothing{hint}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warning(may_ask: &[&str], on_error: Option<&str>, on: &[&str]) -> Option<String> {
        let mut config = json!({"id": "judge", "name": "Judge", "trigger": {"type": "event", "on": on},
            "execution": {"strategy": "immediate"}, "command": ["./judge"]});
        if let Some(on_error) = on_error {
            config["errorHandling"] = json!({"onError": on_error});
        }
        let config = SentinelConfig::from_checked(config.as_object().unwrap().clone()).unwrap();
        let settings = json!({"mayAsk": may_ask}).as_object().cloned();
        without_effect(&config, &SentinelSettings::from_checked(settings).unwrap())
    }

    // covers: SENT-23
    #[test]
    fn everything_that_has_no_effect_after_the_end_is_named_and_only_what_is_missing_advised() {
        let at_end = &["codon.completed"];
        let words = |names: &str| {
            Some(format!(
                "sentinel judge acts when its codon has ended, and then {names}"
            ))
        };
        let grant = "; grant `pause`, which stops the run before the next codon";
        assert_eq!(
            warning(&["skip"], None, at_end),
            words(&format!("`skip` does nothing{grant}"))
        );
        assert_eq!(
            warning(&["skip", "stop"], Some("failCodon"), at_end),
            words(&format!(
                "`skip`, `stop` and `onError: failCodon` do nothing{grant}"
            ))
        );
        assert_eq!(
            warning(&["skip", "pause"], None, at_end),
            words("`skip` does nothing")
        );
        assert_eq!(
            warning(&[], Some("failCodon"), at_end),
            words("`onError: failCodon` does nothing")
        );
        assert_eq!(warning(&["pause"], None, at_end), None);
        assert_eq!(
            warning(&["skip"], None, &["codon.completed", "tool.result"]),
            None
        );
    }
}
