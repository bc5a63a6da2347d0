//! Warnings about the sandbox in the user's own settings of codex: a codon with all permissions overrides it (AGENT-63).

use std::path::Path;

use hankweave_core::agent::AccessMode;
use hankweave_core::hank::{CodonConfig, Hank, Problem};

use crate::driver::AgentFolder;
use crate::driver::process::ProcessHost;

/// Largest settings file that is read, in bytes.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Returns a warning for each codon that runs codex without permissions of its own, where the user's settings want a sandbox.
pub(crate) fn overridden(hank: &Hank, host: &ProcessHost) -> Vec<Problem> {
    let codons = hank.located_codons();
    codons
        .filter_map(|(path, codon)| overridden_by(hank, &path, codon, host))
        .collect()
}

/// Returns the warning for one codon as text; `None` where it overrides nothing.
pub(crate) fn overridden_words(hank: &Hank, codon: &CodonConfig, host: &ProcessHost) -> Option<String> {
    Some(overridden_by(hank, "", codon, host)?.message)
}

fn overridden_by(hank: &Hank, path: &str, codon: &CodonConfig, host: &ProcessHost) -> Option<Problem> {
    if codon.agent_name() != super::NAME || hank.agent_options(codon).permissions.is_some() {
        return None;
    }
    // A relative path of the folder starts at the workspace, which may not exist yet: `/` stands for it.
    let folder = host.agent_folder(Path::new("/"), &codon.env, AgentFolder::CODEX)?;
    let file = folder.join("config.toml");
    let text = host.world().disk.read(&file, MAX_SETTINGS_BYTES).ok()?;
    let mode = sandbox_mode(&String::from_utf8_lossy(&text))?;
    let same_mode = match mode.as_str() {
        "read-only" => AccessMode::ReadOnly,
        "workspace-write" => AccessMode::Edit,
        _ => return None,
    };
    let message = format!(
        "sandbox_mode = {mode:?} of `{}` does not hold: codon `{}` works with all permissions",
        file.display(),
        codon.id
    );
    let permissions = same_mode.name();
    let hint = format!(
        "write \"permissions\": {permissions:?} into the codon or `overrides`, or \"all\" if that is meant"
    );
    let place = match codon.agent {
        Some(_) => format!("{path}.agent"),
        None => format!("{path}.model"),
    };
    Some(Problem::warning(&hank.places, place, message).with_hint(hint))
}

/// Returns the value of `sandbox_mode` in a TOML file, before its first table.
fn sandbox_mode(text: &str) -> Option<String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let mut root = lines.take_while(|line| !line.starts_with('['));
    let value = root.find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().trim_matches(['"', '\'']);
        (key == "sandbox_mode").then(|| value.trim())
    })?;
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (value, _) = value[1..].split_once(quote)?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AGENT-63
    #[test]
    fn the_sandbox_is_that_of_the_root_of_the_file() {
        for (text, mode) in [
            ("sandbox_mode = \"read-only\"\n", Some("read-only")),
            (
                "model = \"m\"\n sandbox_mode='workspace-write' # mine\n",
                Some("workspace-write"),
            ),
            ("\"sandbox_mode\" = \"read-only\"", Some("read-only")),
            ("# sandbox_mode = \"read-only\"\n", None),
            ("[profiles.p]\nsandbox_mode = \"read-only\"\n", None),
            ("sandbox_mode = 5\nsandbox_mode_x = \"read-only\"", None),
            ("sandbox_mode = \"open", None),
            ("", None),
        ] {
            assert_eq!(sandbox_mode(text).as_deref(), mode, "{text}");
        }
    }
}
