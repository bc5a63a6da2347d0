//! Tasks in the list of `hankweave view --root`, and what they say of work by hand and of limits (WIRE-51, TASK-54).

use serde_json::json;

use crate::support::project;
use crate::task_project::{create, says, shown, text, turn, work, workspace, write_hank};

/// A codon that completed beyond its own limit: every screen of its task says by how much.
// covers: TASK-54, HANK-37
#[test]
fn a_codon_beyond_its_limit_is_told_by_every_screen_of_its_task() {
    let project = project();
    let codon = json!({"id": "draft", "script": turn("Drafted"), "budget": {"maxDollars": 0.1}});
    write_hank(&project, "over", &[codon]);
    create(&project, "over", "Over", "over", &[]);
    work(&project);
    let over = "draft: budget reached: used $0.4500 of $0.1000, over its budget by $0.3500";
    for screen in ["show", "list", "log"] {
        let id = if screen == "list" { None } else { Some("over") };
        let arguments: Vec<&str> = ["task", screen].into_iter().chain(id).collect();
        says(&text(&project, &arguments), &[over]);
    }
    let place = workspace(&project, "over").display().to_string();
    says(&text(&project, &["cost", "-e", &place]), &[over]);
}

/// A hint of a run that its worker quotes can be pasted in any folder.
// covers: CLI-4
#[test]
fn a_hint_that_a_worker_quotes_has_whole_paths() {
    let project = project();
    write_hank(
        &project,
        "odd",
        &[json!({"id": "draft", "script": turn("Drafted")})],
    );
    create(&project, "odd", "Odd", "odd", &[]);
    project.write("odd/hank.json", "{\"hank\": 7}");
    work(&project);
    let lines = shown(&project, "odd")["task"]["failure"]["lastLines"].to_string();
    let place = workspace(&project, "odd").display().to_string();
    says(&lines, &[&format!("-e {place}`")]);
}
