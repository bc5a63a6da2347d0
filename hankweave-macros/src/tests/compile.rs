//! The expansion of a damaged declaration that the macro accepts is not only Rust, it compiles. If it does not, the compiler complains about the
//! user's own words, never about the attribute as a whole, which marks code that no user wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::declarations::WHOLE;
use super::hostile::{damages, expansion, has_error, parts, with_damages};

/// How many accepted declarations are compiled; `HANKWEAVE_TEST_MUTANTS` asks for more.
const MUTANTS: usize = 40;

/// Names for the machine that are something else in the code around it, or look odd.
const NAMES: [&str; 9] = [
    "Xy_Z", "Self_", "Vec", "Result", "Option", "Value", "State", "Sealed", "r#Type",
];

/// Errors of an early phase of the compiler hide those of the later ones, so what has errors is taken out and the rest is compiled again.
const MOST_ROUNDS: usize = 6;

/// One damaged declaration as a file of Rust.
struct Mutant {
    text: String,
    /// Position of the attribute in the text.
    attribute: Range<u64>,
}

#[test]
fn an_accepted_declaration_compiles_or_the_compiler_points_at_its_words() {
    let elsewhere = tempfile::tempdir().expect("there is room for temporary files");
    let project = Project::new(elsewhere.path());
    let count = env::var("HANKWEAVE_TEST_MUTANTS").ok();
    let count = count.map_or(MUTANTS, |count| count.parse().expect("a number of mutants"));
    let mutants = mutants(count);
    let mut left: BTreeSet<usize> = (0..mutants.len()).collect();
    let mut faults = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let errors = project.check(&mutants, &left);
        if errors.is_empty() {
            break;
        }
        for (number, errors) in errors {
            left.remove(&number);
            let mutant = &mutants[number];
            // One that leads there is enough; serde and others may speak about the whole as well.
            if !errors.iter().any(|error| error.is_at_words(&mutant.attribute)) {
                let errors: String = errors.iter().map(|error| error.rendered.as_str()).collect();
                faults.push(format!("{errors}\n{}", mutant.text));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults of the macro\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(project.check(&mutants, &left).is_empty(), "there are more rounds");
    println!("{} of {} compile", left.len(), mutants.len());
    assert!(
        left.len() * 3 > mutants.len(),
        "only {} are worth compiling",
        left.len()
    );
}

/// Returns the undamaged declaration under several names, then damaged ones, all of those that the macro accepts. The result does not change between
/// calls.
fn mutants(count: usize) -> Vec<Mutant> {
    let mut runner = TestRunner::deterministic();
    let damages = damages();
    let whole = parts(WHOLE);
    let damaged = std::iter::from_fn(|| {
        let damages = damages
            .new_tree(&mut runner)
            .expect("damages are made without conditions")
            .current();
        Some(with_damages(whole.clone(), &damages))
    });
    let named = NAMES.map(|name| {
        parts(
            &WHOLE
                .replace("ThingPhase", &format!("{}Phase", name.trim_start_matches("r#")))
                .replace("(Thing,", &format!("({name},")),
        )
    });
    std::iter::once(whole.clone())
        .chain(named)
        .chain(damaged)
        .filter(|(arguments, item)| !has_error(&expansion(arguments.clone(), item.clone())))
        .map(|(arguments, item)| Mutant::new(&arguments.to_string(), &item.to_string()))
        .take(count)
        .collect()
}

impl Mutant {
    fn new(arguments: &str, item: &str) -> Self {
        let before = "use super::prelude::*;\n";
        let attribute = format!("#[machine({arguments})]");
        let start = before.len() as u64;
        Self {
            attribute: start..start + attribute.len() as u64,
            text: format!("{before}{attribute}\n{item}\n"),
        }
    }
}

/// An error of the compiler.
struct Failure {
    rendered: String,
    /// The places that it is about.
    primary: Vec<Range<u64>>,
}

impl Failure {
    /// Whether it is about words, in the arguments or in the item, and not about the attribute as a whole.
    fn is_at_words(&self, attribute: &Range<u64>) -> bool {
        self.primary.iter().any(|place| place != attribute)
    }

    /// The error in a message of cargo and the file it is about; `None` for anything else.
    fn read(message: &Value) -> Option<(String, Self)> {
        let message = message.get("message")?;
        if message["level"] != "error" {
            return None;
        }
        let spans = message["spans"].as_array()?.iter();
        let primary: Vec<&Value> = spans.filter(|span| span["is_primary"] == true).collect();
        let place = |span: &&Value| Some(span["byte_start"].as_u64()?..span["byte_end"].as_u64()?);
        let failure = Self {
            rendered: message["rendered"].as_str()?.to_owned(),
            primary: primary.iter().filter_map(place).collect(),
        };
        // The sum at the end, "aborting due to", is about no file.
        let file = primary.first()?["file_name"].as_str()?.to_owned();
        Some((file, failure))
    }
}

/// A crate outside of the workspace.
struct Project<'a> {
    folder: &'a Path,
    target: PathBuf,
}

impl<'a> Project<'a> {
    fn new(folder: &'a Path) -> Self {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("this crate lies in the workspace");
        let facade = workspace.join("hankweave-macros/machine");
        let manifest = format!(
            "[package]\nname = \"mutants\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nhankweave-machine = {{ path = {:?}, \
             features = [\"schema\"] }}\n\n[workspace]\n",
            facade.to_str().expect("the path is text")
        );
        fs::create_dir_all(folder.join("src/things")).expect("the folder is ours");
        fs::write(folder.join("Cargo.toml"), manifest).expect("the folder is ours");
        // The versions that are downloaded already.
        fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect("the workspace has a lock");
        let test = env::current_exe().expect("the test is a program");
        let target = test.ancestors().nth(3).expect("it lies in the target directory");
        Self {
            folder,
            target: target.join("tmp/outside"),
        }
    }

    /// The errors of each mutant among those `left`.
    fn check(&self, mutants: &[Mutant], left: &BTreeSet<usize>) -> BTreeMap<usize, Vec<Failure>> {
        let things = self.folder.join("src/things");
        let modules: String = left.iter().map(|number| format!("mod m{number};\n")).collect();
        for number in left {
            fs::write(things.join(format!("m{number}.rs")), &mutants[*number].text)
                .expect("the folder is ours");
        }
        fs::write(things.join("mod.rs"), format!("{PRELUDE}{modules}")).expect("the folder is ours");
        fs::write(self.folder.join("src/lib.rs"), ROOT).expect("the folder is ours");
        let output = Command::new(env::var_os("CARGO").expect("cargo runs the tests"))
            .args(["check", "--offline", "--quiet", "--message-format=json"])
            .current_dir(self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            .output()
            .expect("cargo can be started");
        let out = String::from_utf8_lossy(&output.stdout);
        let messages = out.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut errors: BTreeMap<usize, Vec<Failure>> = BTreeMap::new();
        for (file, failure) in messages.filter_map(|message: Value| Failure::read(&message)) {
            let name = Path::new(&file).file_stem().and_then(|name| name.to_str());
            let number = name.and_then(|name| name.strip_prefix('m')?.parse().ok());
            let number = number.unwrap_or_else(|| panic!("not about a mutant: {}", failure.rendered));
            errors.entry(number).or_default().push(failure);
        }
        let explained = output.status.success() || !errors.is_empty();
        assert!(explained, "{out}\n{}", String::from_utf8_lossy(&output.stderr));
        errors
    }
}

const ROOT: &str = "#![allow(warnings)]\npub mod things;\n";

/// Items that the declaration uses.
const PRELUDE: &str = r#"
pub mod prelude {
    pub use hankweave_machine::machine;
    pub use hankweave_machine::Extra;
    pub use super::text;
}
pub mod text {
    use hankweave_machine::__private::serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(text: &String, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        String::deserialize(deserializer)
    }
}
pub type Amount = u64;
"#;
