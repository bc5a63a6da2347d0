//! Allowed imports between the modules of a crate ("ARCHITECTURE.md", "Dependencies").

#![expect(clippy::disallowed_methods, reason = "reads the sources")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use hankweave_core::schema;

/// Modules that adapters may use; adapters do not use one another.
const FOR_ADAPTERS: &str = "world";

/// Every module of the library with the modules that it may use. Each may use only those above it in the table, so there
/// is no circle.
const LIBRARY: &[(&str, &str)] = &[
    ("presence", ""),
    ("error", ""),
    ("invocation", ""),
    ("paths", ""),
    ("shutdown", ""),
    ("structured", ""),
    ("world", ""),
    ("checkpoint", FOR_ADAPTERS),
    ("data", FOR_ADAPTERS),
    ("driver", FOR_ADAPTERS),
    ("fallback", "world"),
    ("hank_files", "structured world"),
    ("instance_lock", FOR_ADAPTERS),
    ("journal", FOR_ADAPTERS),
    ("rig", FOR_ADAPTERS),
    ("store", FOR_ADAPTERS),
    ("counting", "paths world"),
    ("arrival", "checkpoint paths world"),
    ("options", "instance_lock invocation"),
    ("state_manager", "error journal store world"),
    (
        "sentinel",
        "error hank_files paths state_manager structured world",
    ),
    (
        "preflight",
        "driver error fallback hank_files options sentinel world",
    ),
    (
        "codon",
        "presence checkpoint driver error hank_files options paths rig sentinel shutdown state_manager structured world",
    ),
    (
        "recovery",
        "arrival checkpoint counting data driver error fallback hank_files instance_lock invocation journal options paths preflight rig sentinel state_manager store world",
    ),
    (
        "runner",
        "arrival presence checkpoint codon counting error fallback instance_lock options paths recovery rig shutdown state_manager world",
    ),
    ("inspect", "recovery runner"),
    ("replay", "counting driver paths world"),
    (
        "open_directory",
        "checkpoint instance_lock options paths recovery runner state_manager world",
    ),
    (
        "server",
        "presence checkpoint error instance_lock journal paths recovery runner shutdown state_manager store world",
    ),
    (
        "embed",
        "presence checkpoint driver hank_files instance_lock options paths recovery runner server shutdown state_manager world",
    ),
];

/// Table of the command line: first the modules that print and read, then the common ones, then the commands.
const COMMAND_LINE: &[(&str, &str)] = &[
    ("terminal", ""),
    ("browser", ""),
    ("server_log", ""),
    ("settings", ""),
    ("signals", "terminal"),
    ("put_back", "terminal"),
    ("args", "put_back signals terminal"),
    ("logging", "args server_log terminal"),
    ("notify", "terminal"),
    ("otel", ""),
    ("hints", "args terminal"),
    ("last_options", "args hints"),
    ("own_output", ""),
    ("directory", "hints put_back terminal"),
    ("failures", "directory hints terminal"),
    ("config", "args failures settings terminal"),
    ("begun_elsewhere", "args hints"),
    ("registry", "args begun_elsewhere config hints settings terminal"),
    ("holding", "directory registry terminal"),
    ("present_workers", "registry terminal"),
    ("task_lines", ""),
    (
        "owning_task",
        "args begun_elsewhere directory hints holding registry task_lines terminal",
    ),
    ("diagram", "args terminal"),
    ("schema", "args terminal"),
    ("version", "args terminal"),
    ("init", "args failures hints terminal"),
    ("recorded", "directory owning_task terminal"),
    ("journal", "args recorded terminal"),
    ("sentinel", "args failures journal recorded terminal"),
    ("state", "args directory hints owning_task terminal"),
    ("logs", "args directory owning_task recorded state terminal"),
    ("plan_changes", "terminal"),
    (
        "status",
        "args config directory hints holding owning_task plan_changes recorded settings state terminal",
    ),
    ("thread", "args directory state status terminal"),
    ("checkpoints", "args directory hints owning_task state terminal"),
    ("prices", "args config settings terminal"),
    (
        "validate",
        "args config directory failures plan_changes prices settings state status terminal",
    ),
    (
        "receipt",
        "args checkpoints hints owning_task recorded signals state status terminal validate",
    ),
    ("running_tasks", "directory hints holding receipt registry state"),
    ("service", "args directory failures hints settings terminal"),
    ("completions", "args registry state terminal"),
    ("lock", "args registry terminal"),
    (
        "task",
        "args begun_elsewhere directory failures hints holding owning_task present_workers receipt registry running_tasks state status task_lines terminal validate",
    ),
    (
        "view",
        "args browser directory failures hints holding logging owning_task present_workers receipt recorded registry running_tasks signals state status task terminal validate",
    ),
    (
        "worker",
        "args begun_elsewhere config logging registry signals task terminal",
    ),
    ("mcp", "args logging registry signals task terminal"),
    (
        "doctor",
        "args config directory failures prices settings terminal",
    ),
    ("tui", "checkpoints directory terminal"),
    (
        "remote",
        "args checkpoints directory hints logging owning_task recorded signals state status terminal tui",
    ),
    (
        "approve",
        "args directory failures hints logging owning_task receipt remote state status terminal",
    ),
    ("toggle", "approve remote terminal"),
    (
        "cleanup",
        "args failures hints logging owning_task remote server_log terminal",
    ),
    (
        "rollback",
        "args directory failures hints logging owning_task receipt remote server_log signals status terminal",
    ),
    (
        "operations",
        "args directory hints owning_task remote rollback state terminal",
    ),
    ("replay", "args logging owning_task signals state terminal"),
    (
        "machines",
        "args config directory hints logging owning_task settings state status terminal",
    ),
    ("commands", "hints rollback terminal"),
    ("detach", "args hints owning_task terminal"),
    ("rehearsal", "terminal"),
    (
        "run",
        "approve args browser commands config detach directory failures hints last_options logging notify otel own_output owning_task prices receipt rehearsal server_log settings signals state status terminal toggle validate",
    ),
];

/// Table of the modules inside `terminal/`.
const TERMINAL: &[(&str, &str)] = &[
    ("keyboard", ""),
    ("keys", ""),
    ("wrap", ""),
    ("screen", "wrap"),
    ("approval_prompt", "keys screen"),
    ("prompt_line", "approval_prompt keyboard keys screen wrap"),
    ("exit", "screen wrap"),
    ("left_out", "screen"),
    ("suspended_run", ""),
    (
        "report",
        "approval_prompt left_out prompt_line screen suspended_run wrap",
    ),
    ("question", "keyboard report screen wrap"),
    ("shell", "screen"),
    ("show", "report"),
    ("stopping", "screen"),
    ("suspend", "keyboard screen"),
    ("output", "exit screen"),
];

/// Table of the client.
const CLIENT: &[(&str, &str)] = &[
    ("message", ""),
    ("system", ""),
    ("find", "system"),
    ("connection", "find"),
    ("worker", "connection find message"),
];

/// Table of the crate that takes runs to other machines.
const REMOTE: &[(&str, &str)] = &[
    ("error", ""),
    ("execution", ""),
    ("contents", ""),
    ("url", "error"),
    ("book", "error execution"),
    ("git", "error url"),
    ("manifest", "contents error execution"),
    ("limits", "error git manifest"),
    ("fetch", "book error execution git limits url"),
    ("files", "contents error"),
    ("sessions", "contents error files manifest"),
    ("snapshot", "contents error files manifest sessions"),
    ("record", "book contents error git limits manifest"),
    (
        "push",
        "book error execution fetch git limits manifest record snapshot url",
    ),
    ("verify", "error limits manifest record sessions snapshot"),
    ("place", "error files"),
    ("unpack", "contents error git manifest record"),
    (
        "arrive",
        "book error execution fetch files git limits manifest place push record sessions unpack url verify",
    ),
];

/// Table of the crate that decides about tasks.
const TASK_MODEL: &[(&str, &str)] = &[
    ("error", ""),
    ("backoff", "error"),
    ("checksum", "error"),
    ("decisions", "error"),
    ("hooks", ""),
    ("lock", ""),
    ("resource", "error lock"),
    ("locks", "error lock resource"),
    ("logs", ""),
    ("schedule", ""),
    ("task", ""),
    ("registry", "error logs task"),
    ("executions", "logs registry"),
    ("plan", "executions logs registry task"),
    ("state", "checksum error task"),
    ("checkpoint", "checksum error logs state task"),
    ("rotation", "checkpoint"),
    ("samples", "lock task"),
];

/// Table of the crate that touches the world for tasks.
const TASKS: &[(&str, &str)] = &[
    ("testing", ""),
    ("layers", ""),
    ("metrics", ""),
    ("coordinator", ""),
    ("engine", "coordinator"),
    ("stored", "coordinator engine"),
    ("memory", "coordinator engine stored"),
    ("postgres", "coordinator engine stored"),
    ("sqlite", "coordinator engine stored"),
    ("publish", "coordinator layers"),
    ("recorder", ""),
    ("locks", "coordinator metrics"),
    ("lifecycle", "coordinator layers locks metrics publish recorder"),
    (
        "worker",
        "coordinator layers lifecycle locks metrics publish recorder",
    ),
];

/// Table of the adapter to Restate.
const RESTATE: &[(&str, &str)] = &[
    ("codons", ""),
    ("deployment", ""),
    ("engine", ""),
    ("server", ""),
    ("kept", "codons"),
    ("execution", "codons engine kept"),
    ("object", "engine execution kept"),
];

/// Decoders of agents: each has what all of them share, and nothing of another one.
const AGENTS: &[(&str, &str)] = &[
    ("actions", ""),
    ("launch", ""),
    ("lenient", ""),
    ("open_tools", ""),
    ("records", ""),
    ("speech", ""),
    ("decoder", "actions lenient records"),
    ("acp", "actions decoder launch lenient open_tools records speech"),
    ("claude", "decoder launch lenient open_tools records"),
    ("codex", "decoder launch lenient open_tools records"),
    ("gemini", "decoder launch lenient open_tools records speech"),
    ("opencode", "decoder launch lenient records"),
    ("pi", "decoder launch lenient records"),
];

/// The modules of the core: each line may use those above it and nothing else.
const CORE: [&[&str]; 12] = [
    &["attempt", "shape", "text"],
    &["id", "time"],
    &["cost", "run"],
    &["agent"],
    &["hank"],
    &["codon"],
    &["discovery", "document", "samples", "sentinel"],
    &["event", "thread"],
    &["budget", "plan", "state"],
    &["testing", "wire"],
    &["view"],
    &["schema"],
];

/// No circle and no arrow upwards.
#[test]
fn every_module_of_the_core_imports_from_below() {
    let imports = imports(&crate_dir().join("../hankweave-core/src"), "crate::");
    let rank = |module: &str| CORE.iter().position(|line| line.contains(&module));
    let mut wrong = Vec::new();
    for (module, used) in &imports {
        let own = rank(module).unwrap_or_else(|| panic!("the table lacks {module}"));
        let upwards = used.iter().filter(|(target, _)| rank(target) >= Some(own));
        wrong.extend(upwards.map(|(target, place)| format!("`{module}` must not use `{target}`: {place}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        imports.len(),
        CORE.concat().len(),
        "the table names a module that is gone"
    );
}

#[test]
fn every_module_imports_only_what_it_may() {
    let mut wrong = differences(&crate_dir().join("src"), LIBRARY);
    wrong.extend(differences(&crate_dir().join("cli/src"), COMMAND_LINE));
    let terminal = crate_dir().join("cli/src/terminal");
    wrong.extend(differences_in(&terminal, "crate::terminal::", TERMINAL));
    wrong.extend(differences(
        &crate_dir().join("../hankweave-core/agents/src"),
        AGENTS,
    ));
    wrong.extend(differences(&crate_dir().join("client/src"), CLIENT));
    wrong.extend(differences(&crate_dir().join("remote/src"), REMOTE));
    wrong.extend(differences(&crate_dir().join("tasks/model/src"), TASK_MODEL));
    wrong.extend(differences(&crate_dir().join("tasks/src"), TASKS));
    wrong.extend(differences(&crate_dir().join("tasks/restate/src"), RESTATE));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns differences between the sources of a crate and its table, which may let a module use only modules above it.
fn differences(sources: &Path, table: &[(&str, &str)]) -> Vec<String> {
    differences_in(sources, "crate::", table)
}

/// Differences in a folder of a crate whose modules are named after `prefix`.
fn differences_in(sources: &Path, prefix: &str, table: &[(&str, &str)]) -> Vec<String> {
    let mut imports = imports(sources, prefix);
    let mut wrong = Vec::new();
    for (place, (module, allowed)) in table.iter().enumerate() {
        let stands_above = |target: &str| table[..place].iter().any(|(name, _)| *name == target);
        let allowed: BTreeSet<&str> = allowed.split_whitespace().collect();
        let too_high = allowed.iter().filter(|target| !stands_above(target));
        wrong.extend(too_high.map(|target| {
            format!("the table lets `{module}` use `{target}`, which does not stand above it")
        }));
        let Some(used) = imports.remove(*module) else {
            wrong.push(format!("the table names `{module}`, which is gone"));
            continue;
        };
        let forbidden = used
            .iter()
            .filter(|(target, _)| !allowed.contains(target.as_str()));
        wrong.extend(forbidden.map(|(target, place)| format!("`{module}` must not use `{target}`: {place}")));
        let unused = allowed.iter().filter(|target| !used.contains_key(**target));
        wrong.extend(unused.map(|target| format!("`{module}` no longer uses `{target}`")));
    }
    wrong.extend(
        imports
            .keys()
            .map(|module| format!("`{module}` is not in the table")),
    );
    wrong
}

/// Folders whose files import one another without any circle: the largest adapters.
const WITHOUT_CIRCLES: [&str; 6] = [
    "hankweave-runtime/src/checkpoint/",
    "hankweave-runtime/src/checkpoint/git/",
    "hankweave-runtime/src/checkpoint/git_format/",
    "hankweave-runtime/src/driver/",
    "hankweave-runtime/src/driver/process/",
    "hankweave-runtime/src/driver/scripted/",
];

/// At most three files of a folder import one another in a circle. A folder in it counts as one file.
#[test]
fn no_circle_of_imports_has_more_than_three_files() {
    let workspace = crate_dir().join("..");
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).expect("there is a workspace");
    let members = manifest.split_once("members = [").expect("it has members").1;
    let members = members.split_once(']').expect("they end").0;
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for member in members.split('"').skip(1).step_by(2) {
        let lines = lines_of(&workspace.join(member).join("src"));
        let ends = |place| str::match_indices(place, '/').map(|(end, _)| &place[..=end]);
        let folders: BTreeSet<&str> = lines.iter().flat_map(|(place, _)| ends(place)).collect();
        for folder in folders.into_iter().chain([""]) {
            let imports = imports_within(&lines, folder);
            let place = format!("{member}/src/{folder}");
            let most = match place.as_str() {
                adapter if WITHOUT_CIRCLES.contains(&adapter) => 0,
                _ => 3,
            };
            let reached: BTreeMap<_, _> = imports
                .keys()
                .map(|from| (from, reached_from(&imports, from)))
                .collect();
            for (from, there) in &reached {
                let circle: Vec<_> = there.iter().filter(|to| reached[to].contains(*from)).collect();
                if circle.len() > most && circle.first() == Some(from) {
                    wrong.push(format!("{place}: {circle:?}"));
                }
            }
            seen += usize::from(!imports.is_empty());
        }
    }
    assert!(wrong.is_empty(), "in a circle:\n{}", wrong.join("\n"));
    assert!(seen > 100, "{seen} folders are read");
}

/// The modules that `from` reaches over any number of imports.
fn reached_from(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(
            imports[module]
                .iter()
                .filter(|used| reached.insert(String::clone(used)))
                .map(String::as_str),
        );
    }
    reached
}

/// The modules of `driver`: those that all others depend on, one for each agent, and the tables of all agents.
const DRIVER: [&[&str]; 7] = [
    &["events", "folder", "version"],
    &["agent"],
    &["process"],
    &["program", "recording"],
    &["program_driver"],
    &[
        "acp", "claude", "codex", "command", "gemini", "opencode", "pi", "scripted",
    ],
    &["ended_agents", "set"],
];

#[test]
fn every_module_of_the_drivers_imports_from_below() {
    let rank = |module: &str| DRIVER.iter().position(|line| line.contains(&module));
    let imports = imports_within(&lines_of(&crate_dir().join("src")), "driver/");
    for (module, used) in &imports {
        let own = rank(module).unwrap_or_else(|| panic!("the table lacks {module}"));
        for target in used {
            assert!(rank(target) < Some(own), "`{module}` must not use `{target}`");
        }
    }
    assert_eq!(
        imports.len(),
        DRIVER.concat().len(),
        "the table names a module that is gone"
    );
}

/// Returns the modules that each module in `folder` uses of the others there. A folder in it counts as one file.
fn imports_within(lines: &[(String, String)], folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let own_file = format!("{}.rs:", folder.trim_end_matches('/'));
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    // Lines of the module itself, whose imports show where its exports come from.
    let mut own = String::new();
    for (place, line) in lines {
        let file = place
            .strip_prefix(folder)
            .and_then(|file| file.split_once(['/', '.']));
        match file {
            Some(("mod" | "lib" | "main", _)) => own += line,
            Some((module, _)) => *texts.entry(module).or_default() += &absolute(place, line),
            None if place.starts_with(&own_file) => own += line,
            None => {}
        }
    }
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let mut origins = BTreeMap::new();
    let own = own.replace("self::", "");
    for (module, names) in own.split("use ").skip(1).filter_map(|line| line.split_once("::")) {
        let names = names.split(';').next().unwrap_or_default();
        origins.extend(words(names).into_iter().map(|name| (name, module)));
    }
    let root = format!("crate::{}", folder.replace('/', "::"));
    let imported = |module: &str, text: &str| -> BTreeSet<String> {
        let names = text.split(&root).skip(1).flat_map(first_names);
        names
            .map(|name| origins.get(name).copied().unwrap_or(name))
            .filter(|name| *name != module && texts.contains_key(name))
            .map(str::to_owned)
            .collect()
    };
    texts
        .iter()
        .map(|(module, text)| ((*module).to_owned(), imported(module, text)))
        .collect()
}

/// A line with `crate::` in the place of each `super::`.
fn absolute(place: &str, line: &str) -> String {
    let (file, _) = place.split_once(".rs").expect("a place is in a file");
    let path: Vec<&str> = file.trim_end_matches("/mod").split('/').collect();
    let levels = (1..=path.len()).rev();
    levels.fold(line.to_owned(), |line, level| {
        let above: String = path[..path.len() - level]
            .iter()
            .map(|name| format!("{name}::"))
            .collect();
        line.replace(&"super::".repeat(level), &format!("crate::{above}"))
    })
}

/// The first name of a path, or those of the paths in braces.
fn first_names(path: &str) -> Vec<&str> {
    let Some(list) = path.strip_prefix('{') else {
        return vec![named(path)];
    };
    let list = list.split(';').next().unwrap_or_default();
    let mut depth = 0;
    let paths = list.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth < 0 || depth == 0 && c == ','
    });
    paths.map(|path| named(path.trim_start())).collect()
}

/// Printed text is made harmless in `screen`, so nothing else may print. The scripted agent is a program of its own,
/// whose output we read.
// covers: S9
#[test]
fn nothing_but_the_border_prints() {
    let mut wrong = Vec::new();
    for (place, line) in lines_of_the_program() {
        if place.starts_with("cli/terminal/screen/") || place.starts_with("driver/scripted/") {
            continue;
        }
        let prints = ["println!", "print!(", "dbg!(", "anstream::std", "AutoStream"];
        let opens = ["stdout()", "stderr()"].iter().any(|stream| {
            let not_asked = line.replace(&format!("{stream}.is_terminal()"), "");
            not_asked.contains(&format!("io::{stream}"))
        });
        if opens || prints.iter().any(|macros| line.contains(macros)) {
            wrong.push(format!("{place}: {line}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "use terminal::screen of hankweave-cli: {}",
        wrong.join("\n")
    );
}

/// A hint that is put together anywhere else lacks the directory, or what the run had. Texts of the help pages name
/// commands that are whole without.
// covers: CLI-4
#[test]
fn commands_that_people_are_told_are_put_together_in_one_place() {
    let subcommands = [
        "approve",
        "attach",
        "checkpoints",
        "init",
        "next",
        "op",
        "page",
        "rollback",
        "run",
        "skip",
        "state",
        "status",
        "stop",
        "thread",
        "undo",
        "validate",
    ];
    let mut wrong = Vec::new();
    for (place, line) in lines_of_the_program() {
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
        let is_told = |name: &str| line.split(&format!("hankweave {name}")).skip(1).any(ends);
        let is_the_place = place.starts_with("cli/hints.rs:") || place.starts_with("cli/args/");
        if !is_the_place && subcommands.iter().any(|name| is_told(name)) {
            wrong.push(format!("{place}: {line}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "use hints of hankweave-cli: {}",
        wrong.join("\n")
    );
}

/// A command without the name of the program cannot be pasted. Lines for people who type into a live run are commands of that run.
// covers: CLI-4
#[test]
fn commands_that_people_are_told_begin_with_the_program() {
    let subcommands = "approve attach checkpoints cleanup clone config cost diff doctor history init journal lock logs next op page prices \
                       pull push replay report rollback run skip state status stop task thread undo validate view worker";
    let subcommands: Vec<&str> = subcommands.split_whitespace().collect();
    let is_one = |text: &str| {
        let (first, rest) = text.split_at(text.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len()));
        let has_argument =
            rest.starts_with(" --") || rest.split(' ').nth(1).is_some_and(|word| !word.is_empty());
        let argument = rest
            .trim_start()
            .split([' ', '`', '"'])
            .next()
            .unwrap_or_default();
        let is_word = argument.len() > 1 && argument.bytes().all(|byte| byte.is_ascii_uppercase());
        let second = rest.trim_start().split(' ').nth(1).unwrap_or_default();
        let is_of_two = ["op", "state", "task"].contains(&first)
            && second.len() > 1
            && second.bytes().all(|byte| byte.is_ascii_uppercase());
        subcommands.contains(&first)
            && (rest.starts_with('`') || has_argument && (rest.starts_with(" --") || is_word || is_of_two))
    };
    let mut wrong = Vec::new();
    for (place, line) in lines_of_the_program() {
        let is_the_place = place.starts_with("cli/hints.rs:") || place.starts_with("cli/args/");
        let is_typed_into_a_run = line.contains(" | ");
        if is_the_place || is_typed_into_a_run {
            continue;
        }
        let starts = ["`", "; ", ", or ", " or `"];
        let told = starts.iter().flat_map(|start| line.split(start).skip(1));
        if told.into_iter().any(is_one) {
            wrong.push(format!("{place}: {line}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "use hints of hankweave-cli: {}",
        wrong.join("\n")
    );
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The lines of the library, and those of the command line as `cli/...`.
fn lines_of_the_program() -> Vec<(String, String)> {
    let mut lines = lines_of(&crate_dir().join("src"));
    let of_the_command_line = lines_of(&crate_dir().join("cli/src")).into_iter();
    lines.extend(of_the_command_line.map(|(place, line)| (format!("cli/{place}"), line)));
    lines
}

/// Every line of the sources that is neither a comment nor part of a test, with its place.
fn lines_of(src: &Path) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for path in sources_below(src) {
        let text = fs::read_to_string(&path).expect("sources are text");
        let file = path.strip_prefix(src).expect("it was found there");
        let file = file.display().to_string();
        if file.ends_with("tests.rs") || file.contains("/tests/") {
            continue;
        }
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        let numbered = (1..).zip(code.lines().map(str::trim));
        let code = numbered.filter(|(_, line)| !line.starts_with("//"));
        lines.extend(code.map(|(number, line)| (format!("{file}:{number}"), line.to_owned())));
    }
    lines
}

/// `docs/reliability.md` names the tests that measure, `docs/protocol.md` one for each event and command: each link is a name in backticks and the file that must have
/// a test of that name.
#[test]
fn every_test_that_a_page_names_exists() {
    check_page("reliability.md", 4);
    check_page("protocol.md", 30);
}

/// The types define the messages of clients, and each message has a row with a test that sees it on a real socket.
// covers: WIRE-15
#[test]
fn the_page_of_the_protocol_shows_every_event_and_every_command() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("protocol.md")).expect("the page is there");
    let (events, commands) = (schema::event(), schema::command());
    let forms = [
        &events["$defs"]["JournalEntry"],
        &events["$defs"]["Direct"],
        &commands,
    ];
    let mut missing = Vec::new();
    for form in forms {
        let variants = form["oneOf"].as_array().expect("there are several");
        for variant in variants {
            let name = variant["properties"]["type"]["const"]
                .as_str()
                .expect("each has a name");
            let row = format!("| `{name}` |");
            let is_shown = |line: &str| line.starts_with(&row) && line.contains("[`");
            if !page.lines().any(is_shown) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "without a row or a test: {missing:?}");
}

fn check_page(name: &str, at_least: usize) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join(name)).expect("the page is there");
    let mut named = 0;
    for link in page.split("[`").skip(1) {
        let (name, rest) = link.split_once("`](").expect("a name in backticks is a link");
        let (path, _) = rest.split_once(')').expect("a link ends");
        let file = fs::read_to_string(docs.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(file.contains(&format!("fn {name}(")), "{path} has no test {name}");
        named += 1;
    }
    assert!(named >= at_least, "{named} tests are named");
}

/// Each planted defect can still be planted, and the test that has to catch it exists. Whether it does
/// is found out by `tests/planted-defects/run`.
#[test]
fn every_planted_defect_fits_the_code_and_names_a_test() {
    #[derive(serde::Deserialize)]
    struct Defect {
        name: String,
        file: String,
        find: String,
        replace: String,
        test: String,
        r#in: String,
    }
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| {
        fs::read_to_string(crate_dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let defects: Vec<Defect> =
        serde_json::from_str(&read("tests/planted-defects/defects.json")).expect("the list is JSON");
    for defect in &defects {
        let Defect { name, find, test, .. } = defect;
        assert_eq!(
            read(&defect.file).matches(find).count(),
            1,
            "{name}: `{find}` in {}",
            defect.file
        );
        assert_ne!(*find, defect.replace, "{name}");
        let place = read(&defect.r#in);
        assert!(
            place.contains(&format!("fn {test}(")),
            "{name}: {} has no test {test}",
            defect.r#in
        );
    }
    assert!(defects.len() >= 15, "{} defects are planted", defects.len());
}

/// For each module at the top of a crate what it names of the others, and one place where it does; tests may name what they like.
fn imports(sources: &Path, prefix: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let lines = lines_of(sources);
    let module_of = |place: &str| {
        let (module, _) = place.split_once(['/', '.']).expect("a place is in a file");
        module.to_owned()
    };
    let mut imports: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (place, _) in &lines {
        imports.entry(module_of(place)).or_default();
    }
    for root in ["lib", "main", "mod"] {
        imports.remove(root);
    }
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for (place, line) in lines {
        let module = module_of(&place);
        let Some(used) = imports.get_mut(&module) else {
            continue;
        };
        let code = line.split("//").next().unwrap_or_default();
        let targets = code.split(prefix).skip(1).map(named);
        for target in targets.filter(|target| *target != module && modules.contains(*target)) {
            used.entry(target.to_owned()).or_insert_with(|| place.clone());
        }
    }
    imports
}

/// Returns the module right after `crate::`.
fn named(path: &str) -> &str {
    assert!(
        !path.starts_with('{'),
        "import from one module of the crate a line: `crate::{path}`"
    );
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
    &path[..end.unwrap_or(path.len())]
}

fn sources_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.expect("sources are readable").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}
