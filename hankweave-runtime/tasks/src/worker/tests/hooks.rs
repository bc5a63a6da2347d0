//! Optional hooks of a worker.

use super::*;

// covers: TASK-108
#[tokio::test]
async fn a_plan_is_there_before_the_run_and_tells_of_each_attempt_once() {
    let script = format!(
        "cp ../Plan.md first-$(ls | wc -l)\n{CODON}test -e first-1 || {{ echo 'no ink' >&2; exit 1; }}"
    );
    let stage = stage(&script, |options| options.keeps_plans = true).await;
    let plan = || std::fs::read_to_string(stage.files.path().join("Plan.md")).unwrap();
    stage.beside(async |_| ()).await;
    let failed = plan();
    assert!(
        failed.contains("## Attempt 1: failed\n\n- **Agent**: w1\n"),
        "{failed}"
    );
    assert!(
        failed.contains("- **Codon draft**: completed, $0.2500\n"),
        "{failed}"
    );
    assert!(
        failed.contains("## Outcome: failed\n\n- **Attempts**: 1\n"),
        "{failed}"
    );
    let workspace = stage.files.path().join(WORKSPACE);
    let at_start = std::fs::read_to_string(workspace.join("first-0")).unwrap();
    assert!(
        at_start.contains("- **Status**: running\n") && at_start.contains("/hank\"\n"),
        "{at_start}"
    );
    stage
        .worker
        .lifecycle()
        .resume(stage.files.id(), None)
        .await
        .unwrap();
    stage.beside(async |_| ()).await;
    let completed = plan();
    assert_eq!(completed.matches("## Attempt").count(), 2, "{completed}");
    assert!(completed.contains("## Attempt 2: completed\n"), "{completed}");
    let end = "## Outcome: completed\n\n- **Attempts**: 2\n- **Cost**: $0.5000\n";
    assert!(completed.contains(end), "{completed}");
    // Any existing page is replaced, and a killed writer left no partial one.
    std::fs::write(stage.files.path().join("Plan.md"), "torn").unwrap();
    stage.files.save_plan(&stage.row().await).unwrap();
    assert_eq!(plan(), completed);
}

#[tokio::test]
async fn no_plan_is_kept_unless_it_is_asked_for() {
    let stage = stage(CODON, |_| {}).await;
    stage.beside(async |_| ()).await;
    assert!(!stage.files.path().join("Plan.md").exists());
}

// covers: TASK-110
#[tokio::test]
async fn a_run_that_uses_too_much_is_told_of_in_the_log_of_its_task_and_in_the_figures() {
    let watch = ResourceWatch {
        every: Duration::from_millis(10),
        memory: 0.0,
        cpu: 1e9,
        processes: 1e9,
    };
    let stage = stage("", |options| options.watch = Some(watch)).await;
    let go = stage.folder.path().join("go");
    let script = format!(
        "#!/bin/sh\nwhile ! test -e {}; do sleep 0.01; done\n",
        go.display()
    );
    std::fs::write(stage.folder.path().join("hankweave"), script).unwrap();
    let (worked, page) = stage
        .beside(async |_| {
            let mut page = String::new();
            let mut looks = 0;
            // Long enough for several samples.
            while looks < 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                page = stage.worker.page().await;
                looks += usize::from(page.contains("hankweave_task_memory_bytes{task=\"report-7\"} "));
            }
            std::fs::write(&go, "").unwrap();
            page
        })
        .await;
    assert_eq!(worked.completed, 1);
    let warned = "hankweave_task_resource_warnings_total{resource=\"memory\"} 1";
    assert!(page.lines().any(|line| line == warned), "{page}");
    assert!(!stage.worker.page().await.contains("{task=\"report-7\"}"));
    let lines = stage.lines();
    let warnings = lines.iter().filter(|line| line.ends_with("% of the memory"));
    assert_eq!(warnings.count(), 1, "{lines:?}");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

// covers: TASK-111
#[tokio::test]
async fn a_task_whose_workspace_others_may_write_to_does_not_start_and_says_why() {
    let stage = stage(CODON, |options| options.requires_container = true).await;
    let workspace = stage.files.path().join(WORKSPACE);
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o777)).unwrap();
    let (worked, ()) = stage.beside(async |_| ()).await;
    assert_eq!(worked.cancelled, 1);
    let state = stage.state();
    let why = state.data["result"]["error"].as_str().unwrap();
    assert!(why.contains("chmod go-w"), "{why}");
}
