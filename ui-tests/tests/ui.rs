//! Programs that must not compile, with the messages they must give, and programs that must.
//!
//! Messages belong to one compiler: the one that `rust-toolchain.toml` pins. See `README.md` on updating them.

mod illegal_steps;

use std::path::{Path, PathBuf};
use std::{env, fs};

#[test]
fn forbidden_programs_say_what_is_wrong_and_what_is_legal() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile-fail/*/*.rs");
    cases.pass("pass/*.rs");
}

/// Each of the 40 pairs of a state and a method that the codon machine does not have is a program here, written from the graph.
#[test]
fn every_illegal_step_of_the_codon_has_its_case() {
    let cases = illegal_steps::cases();
    assert_eq!(cases.len(), 40);
    for (file, program) in cases {
        let path = compile_fail().join(file);
        if env::var_os("UPDATE_CASES").is_some() {
            fs::write(&path, program).expect("the folder is there");
            continue;
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            found,
            program,
            "{}: run UPDATE_CASES=1 cargo test -p ui-tests",
            path.display()
        );
    }
}

/// A program without its message, or a message without its program, tests nothing.
#[test]
fn every_forbidden_program_has_its_message_and_the_other_way_round() {
    let with = |extension: &str| {
        let mut files: Vec<PathBuf> = folders()
            .iter()
            .flat_map(|folder| entries(folder))
            .filter(|file| file.extension().is_some_and(|found| found == extension))
            .map(|file| file.with_extension(""))
            .collect();
        files.sort();
        files
    };
    assert_eq!(with("rs"), with("stderr"));
}

/// The first line shows the mistake in words of the machine, and the rest the legal steps from there.
#[test]
fn every_illegal_step_is_explained_in_the_words_of_the_machine() {
    for (file, _) in illegal_steps::cases() {
        let path = compile_fail().join(file).with_extension("stderr");
        let message = fs::read_to_string(&path).unwrap_or_default();
        let first = message.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("error[E0277]: `Codon<") && first.contains("has no transition `"),
            "{}: {first}",
            path.display()
        );
        for part in ["= note: ", "legal from", "illegal: "] {
            let terminal = message.contains("is terminal: it has no transitions");
            assert!(
                message.contains(part) || terminal,
                "{}: no {part}",
                path.display()
            );
        }
    }
}

fn compile_fail() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compile-fail")
}

fn folders() -> Vec<PathBuf> {
    entries(&compile_fail())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    paths.collect()
}
