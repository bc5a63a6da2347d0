//! `hankweave service`: a unit of systemd, by a `systemctl` that only notes what it is asked, and on a machine without systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hankweave_testing::TestProject;
use serde_json::json;

use crate::support::{port, project, shell_agent};

/// A name in which everything needs quotes.
const ODD: &str = "a b%c$d\"e'f\\g;";

fn write_hank(project: &TestProject, folder: &str, prompt: &str) -> PathBuf {
    let agent = shell_agent(project);
    let hank = json!({"hank": [{"id": "one", "name": "One", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": prompt}]});
    let file = project.write(&format!("{folder}/hank.json"), hank.to_string());
    fs::canonicalize(file.parent().unwrap()).unwrap()
}

/// Puts a `systemctl` in front of all others that notes its arguments and fails where they hold `$FAILS`.
fn with_systemctl(project: &mut TestProject) {
    let program = project.write(
        "bin/systemctl",
        "#!/bin/sh\necho \"$*\" >> \"$HOME/calls\"\ncase \"$*\" in *\"${FAILS:-nothing}\"*) echo 'it is broken' >&2; exit 1;; *is-active*) echo active;; *is-enabled*) echo enabled;; esac\n",
    );
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    project.set("PATH", std::env::join_paths(folders).unwrap());
}

fn calls(project: &TestProject) -> Vec<String> {
    let text = fs::read_to_string(project.home().join("calls")).unwrap_or_default();
    let _ = fs::remove_file(project.home().join("calls"));
    text.lines().map(str::to_owned).collect()
}

/// Lets systemd read the unit, where its tools are.
fn verify(project: &TestProject, unit: &Path) {
    let checked = Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .arg(unit)
        .env("XDG_RUNTIME_DIR", project.home())
        .output();
    let Ok(checked) = checked else {
        return println!("skipped: there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    if said.contains("Failed to initialize manager") {
        return println!("skipped: {said}");
    }
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

// covers: CLI-81
#[test]
fn a_service_is_written_enabled_listed_and_removed_in_order() {
    let mut project = project();
    with_systemctl(&mut project);
    let folder = write_hank(&project, ODD, "go");
    project
        .set("SOME_API_KEY", "very-\"secret\"")
        .set("OTHER_API_KEY", "another");
    let options = [
        "--max-cost",
        "20",
        "--notify",
        "echo 50% \"$HANKWEAVE_REASON\"; true",
    ];
    let arguments = [
        &["service", "install", "--env", "SOME_API_KEY", ODD],
        &options[..],
    ]
    .concat();
    let installed = project.run(arguments);
    installed.expect_code(0);
    let all = calls(&project);
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(
        (&*all[0], &*all[1]),
        ("--user show-environment", "--user daemon-reload")
    );
    let name = all[2].strip_prefix("--user enable --now -- ").unwrap();
    let unit = project.home().join(".config/systemd/user").join(name);
    let text = fs::read_to_string(&unit).unwrap();
    let quoted = folder
        .to_str()
        .unwrap()
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    let command = format!(
        "run \"{quoted}\" --headless --max-cost 20 --notify \"echo 50%% \\\"$HANKWEAVE_REASON\\\"; true\"\n"
    );
    assert!(text.contains(&command), "{command} is not in {text}");
    assert!(
        text.contains("\nRestartPreventExitStatus=1 2 3 65 70\n"),
        "{text}"
    );
    assert!(!text.contains("secret") && !text.contains("another"), "{text}");
    verify(&project, &unit);

    let variables = project
        .home()
        .join(".config/hankweave/services")
        .join(name)
        .with_extension("env");
    assert_eq!(
        fs::metadata(&variables).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let kept = fs::read_to_string(&variables).unwrap();
    assert!(
        kept.contains("SOME_API_KEY=\"very-\\\"secret\\\"\"\n") && kept.contains("\nPATH=\""),
        "{kept}"
    );
    assert!(
        installed
            .stderr
            .contains("the service does not have OTHER_API_KEY"),
        "{installed}"
    );
    assert!(
        !installed.stdout.contains("secret") && !installed.stderr.contains("another"),
        "{installed}"
    );

    // What was added by hand stays when the service is installed again.
    fs::write(&variables, format!("{kept}MINE=\"x\"\n")).unwrap();
    project.run(["service", "install", ODD]).expect_code(0);
    let again = fs::read_to_string(&variables).unwrap();
    assert!(
        again.contains("MINE=\"x\"\n") && again.matches("PATH=").count() == 1,
        "{again}"
    );
    calls(&project);

    let listed = project
        .run(["service", "status", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(
        listed,
        json!([{"execution": folder, "unit": name, "active": "active", "enabled": "enabled"}])
    );
    calls(&project);
    project.run(["service", "uninstall", ODD]).expect_code(0);
    assert_eq!(
        calls(&project),
        [
            format!("--user disable --now -- {name}"),
            "--user daemon-reload".to_owned()
        ]
    );
    assert!(!unit.exists() && !variables.exists());
    let nothing = project.run(["service", "uninstall", ODD]);
    assert!(
        nothing.expect_code(65).stderr.contains("no service runs"),
        "{nothing}"
    );
    let listed = project
        .run(["service", "status", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(listed, json!([]));

    // The service does not have the variable of this shell.
    let work = project.directory().canonicalize().unwrap().join("work");
    project.set("HANKWEAVE_EXECUTION", &work);
    let named = format!("-e {}", work.display());
    for (options, end) in [(&[][..], &*named), (&["-e", "other"], "-e other")] {
        project
            .run([&["service", "install", ODD], options].concat())
            .expect_code(0);
        let all = calls(&project);
        let name = all[2].strip_prefix("--user enable --now -- ").unwrap();
        let text = fs::read_to_string(unit.with_file_name(name)).unwrap();
        assert!(
            text.contains(&format!(" --headless {end}\n")),
            "{end} is not in {text}"
        );
    }
}

// covers: CLI-81
#[test]
fn where_no_systemd_is_nothing_is_written_and_a_crontab_line_is_named() {
    let mut project = project();
    let folder = write_hank(&project, "night", "go");
    // A machine with systemd has none for a program without a session, and one without it has no program.
    for path in [None, Some("/nonexistent")] {
        if let Some(path) = path {
            project.set("PATH", path);
        }
        let refused = project.run(["service", "install", "night", "--max-cost", "2"]);
        let said = &refused.expect_code(1).stderr;
        assert!(said.contains("no systemd takes services of this user"), "{said}");
        let line = format!("run {} --headless --max-cost 2", folder.display());
        assert!(said.contains("@reboot cd ") && said.contains(&line), "{said}");
        assert!(!project.home().join(".config").exists());
    }
    assert_eq!(
        project.run(["service", "status"]).expect_code(0).stdout,
        "no services; `hankweave service install DIR` makes one\n"
    );
}

// covers: CLI-81
#[test]
fn what_no_service_can_have_is_refused_before_anything_is_written() {
    let mut project = project();
    with_systemctl(&mut project);
    write_hank(&project, "night", "wait for go");
    write_hank(&project, "line\nbreak", "go");
    project.write("wrong/hank.json", "{");
    for (arguments, code, why) in [
        (&["line\nbreak"][..], 2, "line break"),
        (&["night", "--detach"], 2, "--detach is for one start"),
        (&["night", "--new"], 2, "--new is for one start"),
        (&["night", "--max-coins", "3"], 2, "--max-coins"),
        (&["night", "--notify", "a\nb"], 2, "line break"),
        (&["--env", "NOT_SET", "night"], 2, "NOT_SET is not set"),
        (&["--env", "NOT=SET", "night"], 2, "the name of a variable"),
        (&["wrong"], 65, "hank.json"),
        (&["missing"], 65, "missing"),
    ] {
        let refused = project.run([&["service", "install"], arguments].concat());
        assert!(
            refused.expect_code(code).stderr.contains(why),
            "{arguments:?}: {refused}"
        );
        assert_eq!(calls(&project), [] as [String; 0], "{arguments:?}");
    }
    let running = project.start(["run", "night", "--headless"]);
    port(&project.directory().join("night"));
    let live = project.run(["service", "install", "night"]);
    assert!(live.expect_code(75).stderr.contains("hankweave stop"), "{live}");
    running.kill();
    assert!(!project.home().join(".config").exists());

    project.set("FAILS", "enable --now");
    let broken = project.run(["service", "install", "night"]);
    let said = &broken.expect_code(1).stderr;
    assert!(
        said.contains("it is broken") && said.contains("hankweave service uninstall"),
        "{said}"
    );
    project.run(["service", "uninstall", "night"]).expect_code(0);
    let units = project.home().join(".config/systemd/user");
    assert_eq!(fs::read_dir(units).unwrap().count(), 0);
}
