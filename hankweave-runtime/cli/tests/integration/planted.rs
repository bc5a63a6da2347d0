//! Folders that came from elsewhere: what their hankweave.json says decides about their runs, and not to whom this machine talks.

use serde_json::{Value, json};

use crate::machines::{Between, free, run_half, write_hank};
use crate::support::project;

/// Whoever has planted the folder waits after the registry with tasks, or for a connection.
// covers: CLI-40, CLI-62
#[test]
fn a_folder_says_not_where_tasks_are() {
    let mut here = project();
    let planted = here.directory().join("planted.db");
    here.write(
        "hankweave.json",
        json!({"registry": format!("sqlite:{}", planted.display())}).to_string(),
    );
    for arguments in [
        &["worker", "--once"][..],
        &["task", "list"],
        &["task", "show", "x"],
        &["lock", "list"],
        &["mcp"],
    ] {
        let refused = here.run(arguments);
        refused.expect_code(2);
        let hint = refused
            .stderr
            .lines()
            .find(|line| line.contains("hint:"))
            .unwrap();
        assert!(
            hint.contains("--registry sqlite:") && hint.contains("HANKWEAVE_REGISTRY"),
            "{refused}"
        );
        assert!(refused.stderr.contains("hankweave.json"), "{refused}");
    }
    assert!(!planted.exists(), "nobody has looked there");
    // Whoever names another one, or this one, is obeyed.
    let own = format!("sqlite:{}", here.home().join("own.db").display());
    here.run(["task", "list", "--registry", &own]).expect_code(0);
    here.set("HANKWEAVE_REGISTRY", &own);
    here.run(["task", "list"]).expect_code(0);
    here.run(["worker", "--once"]).expect_code(0);
    assert!(!planted.exists());
    let planted_url = format!("sqlite:{}", planted.display());
    here.run(["task", "list", "--registry", &planted_url])
        .expect_code(0);
    assert!(planted.exists());
    // A home that nobody can enter has no settings.
    here.set("XDG_CONFIG_HOME", "/dev/null/x");
    here.run(["config"]).expect_code(0);
}

/// What is the user's own counts in every folder.
// covers: CLI-40, CLI-61, CLI-62
#[test]
fn the_settings_of_the_user_say_where_tasks_and_runs_are() {
    let (between, here) = (Between::new(), project());
    let own = here.home().join("own.db");
    let settings = here.home().join(".config/hankweave/hankweave.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let text =
        json!({"registry": format!("sqlite:{}", own.display()), "remote": between.url(), "model": "of-user"});
    std::fs::write(&settings, text.to_string()).unwrap();
    here.write(
        "hankweave.json",
        json!({"registry": "postgres://planted/x", "remote": "ssh://planted/x"}).to_string(),
    );
    here.run(["task", "list"]).expect_code(0);
    assert!(own.exists());
    write_hank(&here);
    run_half(&here);
    here.run(["push"]).expect_code(0);
    assert_eq!(between.references("/record").len(), 1);

    let shown = here.run(["config", "--json"]).expect_code(0).json_document();
    let of = |name: &str| shown["settings"][name].clone();
    assert_eq!(
        (&of("remote")["value"], &of("remote")["source"]),
        (&json!(between.url()), &json!("user"))
    );
    assert_eq!(
        (&of("model")["value"], &of("model")["source"]),
        (&json!("of-user"), &json!("user"))
    );
    // A folder says everything else before the user does.
    here.write("hankweave.json", json!({"model": "of-folder"}).to_string());
    let shown = here.run(["config", "--json"]).expect_code(0).json_document();
    assert_eq!(shown["settings"]["model"]["value"], "of-folder");
    std::fs::write(&settings, "{\"registri\": 1}").unwrap();
    let refused = here.run(["task", "list"]);
    refused.expect_code(65);
    assert!(
        refused.stderr.contains(".config/hankweave/hankweave.json:1:"),
        "{refused}"
    );
}

// covers: CLI-61, CLI-62
#[test]
fn a_folder_says_not_where_runs_go() {
    let (planted, between, here) = (Between::new(), Between::new(), project());
    here.write("hankweave.json", json!({"remote": planted.url()}).to_string());
    write_hank(&here);
    run_half(&here);
    free(&here.directory());
    for (arguments, hint) in [
        (&["push"][..], "hankweave push --remote "),
        (&["pull"], "hankweave push --remote "),
        (&["clone"], "hankweave clone "),
        (&["worker", "--once"], "hankweave worker --remote "),
    ] {
        let refused = here.run(arguments);
        refused.expect_code(2);
        assert!(refused.stderr.contains(hint), "{arguments:?}: {refused}");
    }
    assert_eq!(planted.references("/record"), Vec::<String>::new());
    here.run(["push", "--remote", &between.url()]).expect_code(0);
    // It knows its remote now.
    here.run(["push"]).expect_code(0);
    here.run(["pull"]).expect_code(0);
    assert_eq!(planted.references("/record"), Vec::<String>::new());
    assert_eq!(between.references("/record").len(), 1);
    let shown: Value = here.run(["config", "--json"]).expect_code(0).json_document();
    assert_eq!(shown["settings"]["remote"]["value"], Value::Null);
    assert!(shown["warnings"].to_string().contains("remote"), "{shown}");
}

/// A folder that somebody has packed, with what git reads in it.
// covers: CLI-62, G2
#[test]
fn a_folder_says_not_what_git_starts_and_where_it_goes() {
    let (planted, between, here) = (Between::new(), Between::new(), project());
    write_hank(&here);
    run_half(&here);
    free(&here.directory());
    let evil = here.directory().join("EVIL");
    let config = here.directory().join(".hankweave/checkpoints/config");
    let own = std::fs::read_to_string(&config).unwrap();
    let touch = format!("touch {}", evil.display());
    for settings in [
        format!("[core]\n\tsshCommand = {touch}\n\tgitProxy = {touch}\n"),
        format!("[url \"{}\"]\n\tinsteadOf = {}\n", planted.url(), between.url()),
        format!("[credential]\n\thelper = !{touch}\n"),
    ] {
        for url in ["ssh://127.0.0.1:1/x", "git://127.0.0.1:1/x", &between.url()] {
            std::fs::write(&config, format!("{own}{settings}")).unwrap();
            let finished = here.run(["push", "--remote", url]);
            assert!(!evil.exists(), "{url}, {settings}: {finished}");
        }
    }
    assert_eq!(planted.references("/record"), Vec::<String>::new());
    std::fs::write(&config, own).unwrap();
    here.run(["push", "--remote", &between.url()]).expect_code(0);
    let tracking = here.directory().join(".hankweave/remote.json");
    let known = std::fs::read_to_string(&tracking).unwrap();
    let command = format!("ext::touch {}", evil.display());
    std::fs::write(&tracking, known.replace(&between.url(), &command)).unwrap();
    for command in ["push", "pull"] {
        let refused = here.run([command]);
        assert_ne!(refused.code, Some(0), "{refused}");
        assert!(!evil.exists(), "{refused}");
    }
}
