//! Events of the run on a real socket (WIRE-15, WIRE-16).

use serde_json::{Value, json};

use super::guest::Guest;
use super::*;
use crate::world::disk::{Fault, FaultyDisk, RealDisk};

/// The types of all events of the journal, in the order in which they came.
fn types(guest: &Guest) -> Vec<&str> {
    journaled(guest)
        .map(|message| message["type"].as_str().unwrap())
        .collect()
}

fn journaled(guest: &Guest) -> impl Iterator<Item = &Value> {
    guest.heard.iter().filter(|message| message["seq"].is_u64())
}

fn of_type<'g>(guest: &'g Guest, wanted: &str) -> Vec<&'g Value> {
    let messages = guest.heard.iter().filter(|message| message["type"] == wanted);
    messages.map(|message| &message["data"]).collect()
}

// covers: WIRE-16
#[tokio::test]
async fn a_snapshot_goes_to_whoever_asks_and_is_not_recorded() {
    let live = live(waiting(&["one", "two"])).await;
    let mut guest = Guest::commander(&live).await;
    let (mut watcher, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    for (id, ended) in [("1", json!(["a"])), ("2", json!(["b", "a"]))] {
        guest.accepted(id, "codon.next", json!(null)).await;
        guest
            .idle(if id == "1" {
                "codon-completed"
            } else {
                "all-codons-completed"
            })
            .await;
        let last = guest
            .heard
            .iter()
            .rev()
            .find_map(|message| message["seq"].as_u64());
        let answer = watcher.command(id, "state.snapshot", json!(null)).await;
        assert_eq!(answer["type"], "state.snapshot");
        assert_eq!((&answer["commandId"], &answer["seq"]), (&json!(id), &Value::Null));
        let snapshot = answer["data"].clone();
        assert_eq!(snapshot["seq"].as_u64(), last);
        let codons: Vec<&Value> = snapshot["completedCodons"]
            .as_array()
            .unwrap()
            .iter()
            .map(|codon| &codon["codonId"])
            .collect();
        assert_eq!(json!(codons), ended, "newest first");
        assert_eq!(
            (&snapshot["currentCodon"], &snapshot["isRollingBack"]),
            (&Value::Null, &json!(false))
        );
        assert!(snapshot["totalCost"].is_number() && snapshot["totalTime"].is_u64());
        assert_eq!(snapshot["fileTree"][0]["path"], "done.txt");
    }
    let types = types(&guest);
    let place = |wanted: &str| types.iter().position(|found| *found == wanted).unwrap();
    assert!(place("codon.started") < place("codon.completed"));
    assert!(!types.contains(&"state.snapshot"), "{types:?}");
    live.stop().await;
}

// covers: WIRE-18
#[tokio::test]
async fn files_that_change_are_told_before_the_codon_ends() {
    let project = waiting(&["one", "two", "three"]);
    std::fs::create_dir_all(project.work().join("notes")).unwrap();
    std::fs::write(project.work().join("notes/old.txt"), "old").unwrap();
    std::fs::write(project.work().join("ignored.md"), "no pattern has it").unwrap();
    let live = live(project).await;
    let mut guest = Guest::commander(&live).await;
    guest.accepted("1", "codon.next", json!(null)).await;
    guest.idle("codon-completed").await;
    let created = of_type(&guest, "file.updated");
    let digest = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806";
    let expected = json!({"path": "done.txt", "filename": "done.txt", "action": "created", "size": 4, "fingerprint": digest});
    assert_eq!(created, [&expected], "SHA-256 of \"one\\n\"");
    let types = types(&guest);
    let place = |wanted: &str| types.iter().rposition(|found| *found == wanted).unwrap();
    assert!(
        place("file.updated") < place("filetree.updated")
            && place("filetree.updated") < place("codon.completed")
    );
    let trees = of_type(&guest, "filetree.updated");
    let names = |tree: &Value| {
        tree["tree"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(trees[trees.len() - 1]),
        ["done.txt"],
        "what no pattern has is not shown"
    );

    guest.accepted("2", "codon.next", json!(null)).await;
    guest.idle("codon-completed").await;
    assert_eq!(of_type(&guest, "file.updated")[1]["action"], "modified");
    std::fs::remove_file(live.project.work().join("done.txt")).unwrap();
    guest.accepted("3", "codon.next", json!(null)).await;
    guest.idle("all-codons-completed").await;
    let actions: Vec<&Value> = of_type(&guest, "file.updated")
        .iter()
        .map(|data| &data["action"])
        .collect();
    assert!(actions[2] == "deleted" || actions[2] == "modified", "{actions:?}");
    live.stop().await;
}

// covers: RUN-19
#[tokio::test]
async fn a_rollback_is_told_step_by_step() {
    let live = live(waiting(&["one", "two", "three"])).await;
    let mut guest = Guest::commander(&live).await;
    for id in ["1", "2", "3"] {
        guest.accepted(id, "codon.next", json!(null)).await;
        guest.until("codon.completed").await;
        guest.until("server.idle").await;
    }
    guest.heard.clear();
    let data = json!({"codonId": "a", "checkpointType": "end"});
    guest.accepted("4", "rollback.toCodon", data).await;
    guest.idle("rollback-completed").await;
    let told: Vec<&str> = journaled(&guest)
        .map(|message| match message["type"].as_str().unwrap() {
            "state.transition" => message["data"]["transitionType"].as_str().unwrap(),
            name => name,
        })
        // Recorded before the client gets its answer, while the run continues.
        .filter(|name| *name != "command.accepted")
        .collect();
    assert_eq!(
        told,
        [
            "info",
            "rollback.started",
            "RollbackPending",
            "rollback.progress",
            "rollback.codonCheckpoint",
            "rollback.progress",
            "rollback.codonCheckpoint",
            "rollback.progress",
            "RollbackPending",
            "info",
            "rollback.codonCheckpoint",
            "RunCompleted",
            "run.ended",
            "RunStarted",
            "rollback.completed",
            "run.described",
            "server.idle",
        ]
    );
    let kept = of_type(&guest, "info")[0]["message"].as_str().unwrap();
    assert!(
        kept.contains("is kept in checkpoint"),
        "the copy of the files comes first: {kept}"
    );
    let steps: Vec<(u64, u64)> = of_type(&guest, "rollback.progress")
        .iter()
        .map(|data| {
            (
                data["currentStep"].as_u64().unwrap(),
                data["totalSteps"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(steps, [(1, 3), (2, 3), (3, 3)]);
    let codons: Vec<&Value> = of_type(&guest, "rollback.codonCheckpoint")
        .iter()
        .map(|data| &data["codonId"])
        .collect();
    assert_eq!(codons, ["c", "b", "a"], "newest first, and then where it goes");
    assert_eq!(of_type(&guest, "rollback.completed")[0]["autoRestart"], false);
    let snapshot = &guest.command("5", "state.snapshot", json!(null)).await["data"];
    assert_eq!(
        (
            snapshot["completedCodons"].as_array().unwrap().len(),
            &snapshot["fileTree"][0]["path"]
        ),
        (1, &json!("done.txt"))
    );
    live.stop().await;
}

/// Clients that only watch get the error too; events from before are unchanged.
// covers: P5
#[tokio::test]
async fn a_disk_that_fails_is_told_to_every_client_as_fatal() {
    let project = waiting(&["one"]);
    let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::None);
    let mut builder = project.builder();
    builder.0.world.disk = Arc::new(disk.clone());
    let hankweave = builder.open().await.unwrap();
    let live = live_in(project, hankweave).await;
    let mut commander = Guest::commander(&live).await;
    let (mut watcher, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    disk.crash();
    let message = "lost".to_owned();
    assert!(live.manager.record(Event::Info { message }).await.await.is_err());
    for guest in [&mut commander, &mut watcher] {
        let told = guest.until("error").await["data"].clone();
        assert_eq!(
            (&told["fatal"], &told["severity"]),
            (&json!(true), &json!("fatal")),
            "{told}"
        );
        assert!(
            !guest
                .heard
                .iter()
                .any(|message| message["data"]["message"] == "lost")
        );
    }
    assert!(live.task.await.unwrap().is_err());
}
