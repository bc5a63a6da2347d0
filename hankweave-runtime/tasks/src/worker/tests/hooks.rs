//! Hooks that a worker has when it is asked to.

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
    // Whatever is there makes way, and a writer that was killed has left nothing half.
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
