//! Arguments of agents' and sentinels' programs that name a file of the hank. The programs run in the workspace, which may not have that file.

use std::path::{Path, PathBuf};

use hankweave_core::hank::{AgentChoice, CodonConfig, Hank, Problem, SentinelSource, copy_targets};
use hankweave_runtime::hank_files::LoadedHank;
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};
use serde_json::Value;

/// Returns a warning for each argument that names a file of the hank, if the workspace `work` has no such file and no rig copies one there.
pub(super) fn misplaced_arguments(loaded: &LoadedHank, hank: &Hank, work: &Path) -> Vec<Problem> {
    let exists = |path: &Path| RealDisk.metadata(path).is_ok();
    let is_file = |path: &Path| {
        RealDisk
            .metadata(path)
            .is_ok_and(|found| found.kind == FileKind::File)
    };
    let is_copied = |argument: &str| {
        let mut copied = copy_targets(hank);
        copied.any(|target| Path::new(argument).starts_with(target.to))
    };
    let is_misplaced = |argument: &str, folder: &Path| {
        let is_of_hank = is_file(&loaded.root.join(argument)) || is_file(&folder.join(argument));
        is_of_hank && !exists(&work.join(argument)) && !is_copied(argument)
    };
    let mut problems = Vec::new();
    // Each argument comes with its path in hank.json, the folder to which it may be relative, and a hint.
    for (at, codon) in hank.located_codons() {
        let agent = agent_arguments(codon).iter().map(|argument| {
            let hint = "copy it with a rig, or name its absolute path";
            (format!("{at}.agent"), argument.clone(), loaded.root.clone(), hint)
        });
        let sentinels = codon.sentinels.iter().enumerate().flat_map(|(index, entry)| {
            let place = format!("{at}.sentinels[{index}]");
            let folder = folder_of(loaded, &entry.sentinel_config);
            sentinel_arguments(loaded, &entry.sentinel_config).into_iter().map(move |argument| {
                let hint = "write [\"sh\", \"-c\", \"sh \\\"$HANKWEAVE_HANK/FILE\\\"\"], where HANKWEAVE_HANK is the folder of the hank";
                (place.clone(), argument, folder.clone(), hint)
            })
        });
        for (place, argument, folder, hint) in agent.chain(sentinels) {
            if is_misplaced(&argument, &folder) {
                let message = format!(
                    "`{argument}` is a file of the hank, and the program looks for it in the workspace, which has none"
                );
                problems.push(Problem::warning(&hank.places, place, message).with_hint(hint));
            }
        }
    }
    problems
}

/// Returns the arguments of a codon's own program, without the program.
fn agent_arguments(codon: &CodonConfig) -> &[String] {
    let all = match &codon.agent {
        Some(AgentChoice::Command(agent)) => &agent.command[..],
        Some(AgentChoice::Acp(agent)) => &agent.acp[..],
        _ => &[],
    };
    all.get(1..).unwrap_or_default()
}

/// Returns the folder of a sentinel's file, or that of the hank.
fn folder_of(loaded: &LoadedHank, source: &SentinelSource) -> PathBuf {
    match source {
        SentinelSource::File(file) => loaded
            .root
            .join(Path::new(file).parent().unwrap_or(Path::new(""))),
        SentinelSource::Inline(_) => loaded.root.clone(),
    }
}

/// Returns the arguments of a sentinel's command, without the program.
fn sentinel_arguments(loaded: &LoadedHank, source: &SentinelSource) -> Vec<String> {
    let config = match source {
        SentinelSource::File(file) => loaded.sentinels.get(file),
        SentinelSource::Inline(config) => Some(config),
    };
    let command = config.and_then(|config| config.get("command")?.as_array());
    let arguments = command.into_iter().flatten().skip(1);
    arguments.filter_map(Value::as_str).map(str::to_owned).collect()
}
