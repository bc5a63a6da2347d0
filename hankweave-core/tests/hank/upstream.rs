//! Hanks that people really wrote. They are not part of this repository and are read where they lie, if they do.

use std::fs;
use std::path::PathBuf;

use hankweave_core::hank::{Hank, Parsed, parse, unsupported};

fn read(name: &str) -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/upstream");
    let text = fs::read_to_string(folder.join(name)).ok();
    if text.is_none() {
        eprintln!("skipped: {name} is not here");
    }
    text
}

fn valid(text: &str) -> Hank {
    let Parsed { hank, problems, .. } = parse(text);
    hank.unwrap_or_else(|| panic!("{}", problems.display_in("hank.json")))
}

#[test]
fn valid_hanks_are_read_and_what_a_run_lacks_is_named_by_field() {
    for (name, lacking) in [
        ("hank-configs/context-exhaustion.config.json", &[][..]),
        ("hank-configs/failure-loop-ignore.hank.json", &[]),
        (
            "hank-configs/failure-retry.hank.json",
            &["9:20 hank[0].onFailure: not supported yet: retrying a failed codon"],
        ),
        (
            "pack-hank/hank.json",
            &[
                "41:22 hank[0].outputFiles: not supported yet: copying results to an output directory",
                "36:20 hank[0].sentinels: not supported yet: sentinels",
            ],
        ),
    ] {
        let Some(text) = read(name) else { continue };
        let found: Vec<_> = unsupported(&valid(&text))
            .iter()
            .map(|problem| {
                let position = problem.position.unwrap();
                format!(
                    "{}:{} {}: {}",
                    position.line, position.column, problem.path, problem.message
                )
            })
            .collect();
        assert_eq!(found, lacking, "{name}");
    }
}

#[test]
fn a_hank_of_the_older_format_is_told_every_new_name() {
    let Some(text) = read("hank-configs/old-strand-loop.config.json") else {
        return;
    };
    let Parsed { hank, problems, .. } = parse(&text);
    assert!(hank.is_none());
    let hints: Vec<_> = problems
        .iter()
        .filter_map(|problem| problem.hint.as_deref())
        .filter(|hint| hint.starts_with("write `"))
        .collect();
    let tracked = "write `checkpointedFiles`";
    assert_eq!(hints, ["write `hank`", tracked, tracked, tracked, tracked]);
    assert_eq!(problems.errors(), 5, "{}", problems.display_in("hank.json"));
}
