//! Reads rig items (steps that prepare the workspace) and output items (files that are copied out of it).

use super::{reference, type_of};
use crate::hank::document::{CopyStep, OutputItem, RigAction, RigCommand, RigItem, WorkingDirectory};
use crate::hank::keys;
use crate::hank::paths;
use crate::hank::reader::{HankReader, JsonNode, checked, choice, list, non_empty_list};

pub(super) fn rig_setup(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Vec<RigItem>> {
    reader.leading_list(node, rig_item)
}

fn rig_item(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<RigItem> {
    let (fields, action) = match type_of(node) {
        Some("copy") => {
            let fields = reader.fields(node, &keys::COPY_ITEM)?;
            let copy = fields.required(reader, "copy", copy_step);
            let replace = fields.or_default(reader, "replace", HankReader::boolean);
            (fields, copy.map(|copy| RigAction::Copy { copy, replace }))
        }
        Some("command") => {
            let fields = reader.fields(node, &keys::COMMAND_ITEM)?;
            let command = fields.required(reader, "command", command(IN_RIG));
            (fields, command.map(|command| RigAction::Command { command }))
        }
        _ => {
            let hint = r#"add "type": "copy" or "type": "command""#;
            return reader.refuse_with_hint(node, "must be a copy or a command", hint);
        }
    };
    let allow_failure = fields.or_default(reader, "allowFailure", HankReader::boolean);
    Some(RigItem {
        action: action?,
        allow_failure,
    })
}

fn copy_step(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<CopyStep> {
    let fields = reader.fields(node, &keys::COPY)?;
    let from = fields.required(reader, "from", reference);
    let target = checked(|path| paths::copy_target(path).map(drop));
    let to = fields.required(reader, "to", target);
    Some(CopyStep { from: from?, to: to? })
}

/// Working directories of a command in `rigSetup`.
const IN_RIG: &[(&str, WorkingDirectory)] = &[
    ("project", WorkingDirectory::Project),
    ("lastCopied", WorkingDirectory::LastCopied),
];
/// Working directories of a command in `beforeCopy`.
const BEFORE_COPY: &[(&str, WorkingDirectory)] = &[("project", WorkingDirectory::Project)];

/// Returns the reading function of a command that may choose one of these working directories.
fn command(
    directories: &[(&str, WorkingDirectory)],
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<RigCommand> {
    |reader, node| {
        let fields = reader.fields(node, &keys::COMMAND)?;
        let run = fields.required(reader, "run", shell_text);
        let working_directory = fields.or_default(reader, "workingDirectory", choice(directories));
        Some(RigCommand {
            run: run?,
            working_directory,
        })
    }
}

fn shell_text(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    let text = reader.non_empty(node)?;
    if text.contains('\0') {
        reader.error(node, "must not contain a NUL character");
    }
    if let Some(danger) = danger_in(&text) {
        reader.warning(node, format!("{danger}; is that meant?"));
    }
    Some(text)
}

/// Returns in words the damage that a shell command seems to do; guards against slips, not against malice (HANK-13).
fn danger_in(command: &str) -> Option<&'static str> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let removes_root = words.windows(3).any(|three| {
        let [program, flags, target] = three else {
            return false;
        };
        let flags = flags.strip_prefix('-').unwrap_or_default();
        *program == "rm"
            && flags.contains(['r', 'R'])
            && flags.contains('f')
            && matches!(*target, "/" | "/*" | "~" | "~/")
    });
    let names_disk = |path: &str| {
        ["/dev/sd", "/dev/nvme", "/dev/hd", "/dev/disk"]
            .iter()
            .any(|disk| path.contains(disk))
    };
    let writes = |word: &&str| word.starts_with("of=") || word.starts_with('>');
    let writes_disk = words.iter().any(|word| writes(word) && names_disk(word))
        || words
            .windows(2)
            .any(|pair| pair[0].ends_with('>') && names_disk(pair[1]));
    let formats = words
        .iter()
        .any(|word| *word == "mkfs" || word.starts_with("mkfs."));
    match (removes_root, writes_disk, formats) {
        (true, _, _) => Some("removes everything below the root or the home folder"),
        (_, true, _) => Some("writes to a raw disk"),
        (_, _, true) => Some("formats a disk"),
        (false, false, false) => None,
    }
}

pub(super) fn output_files(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Vec<OutputItem>> {
    list(output_item)(reader, node)
}

fn output_item(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<OutputItem> {
    let fields = reader.fields(node, &keys::OUTPUT)?;
    let globs = non_empty_list(checked(paths::check_glob));
    let copy = fields.required(reader, "copy", globs);
    let before_copy = fields.or_default(reader, "beforeCopy", list(before_copy));
    Some(OutputItem {
        copy: copy?,
        before_copy,
    })
}

fn before_copy(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<RigCommand> {
    let fields = reader.fields(node, &keys::BEFORE_COPY_ITEM)?;
    let kind = fields.required(reader, "type", choice(&[("command", ())]));
    let command = fields.required(reader, "command", command(BEFORE_COPY));
    kind.and(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HANK-13
    #[test]
    fn a_command_that_destroys_a_disk_is_noticed_and_ordinary_ones_are_not() {
        for bad in [
            "rm -rf /",
            "cd x && rm -fr /*",
            "dd if=x of=/dev/sda",
            "cat x > /dev/sdb",
            "cat x >/dev/sdb",
            "mkfs.ext4 x",
        ] {
            assert!(danger_in(bad).is_some(), "{bad}");
        }
        for good in [
            "rm -rf target",
            "rm -rf /tmp/x",
            "echo x > /dev/null",
            "npm install",
            "rm -f /",
        ] {
            assert_eq!(danger_in(good), None, "{good}");
        }
    }
}
