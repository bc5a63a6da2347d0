//! Programs that embed the runtime, and have children of their own.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use hankweave_core::wire::Event;
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::{Hankweave, RunResult, Shutdown, hank_files};
use hankweave_testing::TestProject;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::child_subreaper;

use crate::supervision::{is_there, text_of, write_hank};
use crate::support::project;

async fn open(project: &TestProject) -> Hankweave {
    let hank = hank_files::load(&project.directory()).unwrap();
    Hankweave::builder(hank).open().await.unwrap()
}

/// Waits until the agent of the only codon has said its first word.
async fn agent_works(events: &mut Subscription) {
    while let Some(delivery) = events.next().await.unwrap() {
        if let Delivery::Events(events) = delivery
            && events
                .entries()
                .any(|entry| matches!(entry.event, Event::CodonStarted { .. }))
        {
            return;
        }
    }
    panic!("the run ended before its agent worked");
}

/// Leaves two processes after: one that has left the session, and one that has dropped its environment, its group and its parent.
const LEAVES_BEHIND: &str = r#"
setsid sleep 600 & echo $! > detached.txt
(env -i PATH="$PATH" timeout 600 sh -c 'echo up > up.txt; sleep 600' & echo $! > lost.txt)
while [ ! -s up.txt ]; do sleep 0.01; done
"#;

// covers: S11
#[tokio::test(flavor = "multi_thread")]
async fn two_runs_and_another_child_of_one_program_leave_each_other_alone() {
    let (long, short) = (project(), project());
    let gate = long.home().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // This descriptor is open for both ends, so that no end waits for the other one.
    let mut opener = File::options().read(true).write(true).open(&gate).unwrap();
    write_hank(&long, &format!("read -r line < '{}'", gate.display()));
    write_hank(&short, LEAVES_BEHIND);
    let mut foreign = Command::new("sh")
        .args(["-c", "read -r line; exit 7"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();

    let hankweave = open(&long).await;
    let mut events = hankweave.subscribe();
    let long_run = tokio::spawn(hankweave.run(Shutdown::new()));
    agent_works(&mut events).await;
    let ended = open(&short).await.run(Shutdown::new()).await.unwrap();
    assert!(matches!(ended.result, RunResult::Completed), "{ended:?}");
    for left in ["detached.txt", "lost.txt"] {
        assert!(!is_there(&text_of(&short, left)), "{left}: it lives on");
    }

    opener.write_all(b"\n").unwrap();
    let ended = long_run.await.unwrap().unwrap();
    assert!(matches!(ended.result, RunResult::Completed), "{ended:?}");
    assert_eq!(foreign.try_wait().unwrap(), None, "it was killed");
    drop(foreign.stdin.take());
    assert_eq!(foreign.wait().unwrap().code(), Some(7));
    assert_eq!(child_subreaper().unwrap(), None);
}
