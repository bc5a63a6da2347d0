//! A story in which a user steers, with a crash at every single operation of it.

use std::path::Path;
use std::time::Duration;

use hankweave_core::codon::CodonStatus;
use hankweave_core::thread;
use hankweave_runtime::RunResult;

use crate::agents::{Fate, output_of};
use crate::check::{Broken, check_outputs};
use crate::disk::{Crash, Plan};
use crate::life::{LifeEnd, LifePlan, live};
use crate::machine::{Machine, WORK};
use crate::rng::Rng;
use crate::story::judge;

/// Longer than any agent works that ends by itself.
const LONG: Duration = Duration::from_secs(60);

/// One step of the story.
struct Act {
    name: &'static str,
    /// The prompt of the second codon.
    prompt: &'static str,
    fates: &'static [(&'static str, Fate)],
    skipped: Option<&'static str>,
    back_to: Option<&'static str>,
    back_in_run: Option<&'static str>,
    killed_after: Option<Duration>,
    /// When the runtime is asked to stop.
    stopped_after: Option<Duration>,
    /// Expected codons with their states, oldest first, after the act.
    thread: &'static [(&'static str, CodonStatus)],
    next: Option<&'static str>,
}

const PLAIN: Act = Act {
    name: "",
    prompt: "work",
    fates: &[],
    skipped: None,
    back_to: None,
    back_in_run: None,
    killed_after: None,
    stopped_after: None,
    thread: &[],
    next: None,
};

const ALL: [(&str, CodonStatus); 10] = [
    ("one", CodonStatus::Completed),
    ("two", CodonStatus::Completed),
    ("three", CodonStatus::Completed),
    ("turn#0", CodonStatus::Completed),
    ("turn#1", CodonStatus::Completed),
    ("turn#2", CodonStatus::Failed),
    ("turn#3", CodonStatus::Completed),
    ("held", CodonStatus::Skipped),
    ("spender", CodonStatus::Completed),
    ("last", CodonStatus::Completed),
];

/// The second codon fails, and the user rolls back to the first. Another prompt is tried; the runtime is asked to stop,
/// and killed. It recovers, goes through a loop with one ignored failure, a skipped codon and one that uses up its
/// budget, and completes. Then a command rolls it back.
const ACTS: &[Act] = &[
    Act {
        name: "the second codon fails",
        fates: &[("two", Fate::Fails)],
        thread: &[("one", CodonStatus::Completed), ("two", CodonStatus::Failed)],
        ..PLAIN
    },
    Act {
        name: "back to the first",
        back_to: Some("one"),
        thread: &[("one", CodonStatus::Completed)],
        next: Some("two"),
        ..PLAIN
    },
    Act {
        name: "asked to stop with another prompt",
        prompt: "work again",
        fates: &[("two", Fate::Hangs)],
        stopped_after: Some(LONG),
        thread: &[("one", CodonStatus::Completed), ("two", CodonStatus::Failed)],
        next: Some("two"),
        ..PLAIN
    },
    Act {
        name: "killed with another prompt",
        prompt: "work again",
        fates: &[("two", Fate::Hangs)],
        killed_after: Some(LONG),
        thread: &[("one", CodonStatus::Completed), ("two", CodonStatus::Running)],
        ..PLAIN
    },
    Act {
        name: "to the end",
        prompt: "work again",
        fates: &[("turn#2", Fate::Fails), ("held", Fate::Hangs)],
        skipped: Some("held"),
        thread: &ALL,
        ..PLAIN
    },
    Act {
        name: "back to the first, in a run that is open",
        prompt: "work again",
        back_in_run: Some("one"),
        thread: &[("one", CodonStatus::Completed)],
        next: Some("two"),
        ..PLAIN
    },
];

/// Plays the story once for each of these operations of each of its acts, with a crash there. The act is then started
/// again, and the story must still reach its end. Returns the number of crashes.
///
/// # Errors
///
/// The first promise that was broken, and where.
pub fn steered(crash: Crash, operations: impl Iterator<Item = u64> + Clone) -> Result<u64, String> {
    let mut crashes = 0;
    for (index, act) in ACTS.iter().enumerate() {
        for n in operations.clone() {
            match play_with_crash(index, n, crash) {
                Ok(true) => crashes += 1,
                Ok(false) => break,
                Err(broken) => {
                    let name = act.name;
                    return Err(format!(
                        "{crash:?} at operation {n} of \u{201c}{name}\u{201d}: {broken}"
                    ));
                }
            }
        }
    }
    Ok(crashes)
}

/// Plays the story with one crash; returns whether it came to that.
fn play_with_crash(crashed_act: usize, n: u64, crash: Crash) -> Result<bool, Broken> {
    let mut machine =
        Machine::new(&Rng::new(n), &hank(PLAIN.prompt), 0).map_err(|error| error.to_string())?;
    for (index, act) in ACTS.iter().enumerate() {
        machine
            .rewrite_hank(&hank(act.prompt))
            .map_err(|error| error.to_string())?;
        for (codon, fate) in act.fates {
            machine.processes.doom(codon, *fate);
        }
        if index == crashed_act {
            let plan = Plan {
                crash_at: Some(n),
                ..Plan::default()
            };
            if !play(&mut machine, act, plan, crash)? {
                return Ok(false);
            }
        }
        play(&mut machine, act, Plan::default(), crash)?;
        check(&machine, act)?;
        for (codon, _) in act.fates {
            machine.processes.pardon(codon);
        }
    }
    Ok(true)
}

/// Plays one act, and returns whether the disk crashed in it.
fn play(machine: &mut Machine, act: &Act, disk: Plan, crash: Crash) -> Result<bool, Broken> {
    let at = disk.crash_at;
    let plan = LifePlan {
        disk,
        killed_after: act.killed_after,
        stopped_after: act.stopped_after,
        skipped: act.skipped,
        back_to: act.back_to,
        back_in_run: act.back_in_run,
        ..LifePlan::default()
    };
    let end = live(machine, &plan)?;
    judge(machine, &end).map_err(|broken| format!("{} ({end:?})", broken))?;
    let crashed = at.is_some_and(|at| machine.disk.operations() >= at) && matches!(end, LifeEnd::Crashed);
    let how = match (crashed, act.killed_after) {
        (true, _) => Some(crash),
        (false, Some(_)) => Some(Crash::Kill),
        (false, None) => None,
    };
    machine.end_life(how);
    let expected = match &end {
        LifeEnd::Ran(Ok(outcome)) => match act.next.is_none() && act.thread.len() == ALL.len() {
            true => matches!(outcome.result, RunResult::Completed | RunResult::NothingToDo),
            false if act.stopped_after.is_some() || act.back_in_run.is_some() => {
                matches!(outcome.result, RunResult::Stopped(_))
            }
            false => matches!(outcome.result, RunResult::Failed(_)),
        },
        LifeEnd::WentBack(back) => back.is_ok(),
        LifeEnd::Crashed => crashed || act.killed_after.is_some(),
        LifeEnd::Ran(Err(_)) | LifeEnd::NotOpened(_) => false,
    };
    match expected {
        true => Ok(crashed),
        false => Err(format!("{} ended with {end:?}", act.name)),
    }
}

/// Checks the thread after the act, with the next codon.
fn check(machine: &Machine, act: &Act) -> Result<(), Broken> {
    let state = machine.records()?.state;
    let thread = thread::build(&state, None, None);
    let found: Vec<_> = thread
        .codons
        .iter()
        .rev()
        .map(|entry| (entry.codon.codon_id().as_str(), entry.codon.status()))
        .collect();
    if found != act.thread {
        return Err(format!(
            "after \u{201c}{}\u{201d} the thread is {found:?}",
            act.name
        ));
    }
    let next = thread.next_codon_id.as_ref().map(|id| id.as_str());
    if next != act.next {
        return Err(format!("after \u{201c}{}\u{201d} {next:?} is next", act.name));
    }
    let files = machine.disk.tree(Path::new(WORK), ".hankweave");
    check_outputs(&state, Path::new(WORK), &files)?;
    let went_back = act.back_to.or(act.back_in_run).is_some();
    let is_left = |id: &str| went_back && !found.iter().any(|(stays, _)| *stays == id);
    for (id, _) in ALL.iter().filter(|(id, _)| is_left(id)) {
        let (path, _) = output_of(Path::new(""), id);
        if files.contains_key(&path) {
            return Err(format!("G7: what {id} made is still there"));
        }
    }
    let spender = thread
        .codons
        .iter()
        .find(|entry| entry.codon.codon_id().as_str() == "spender");
    match spender.is_none_or(|spender| spender.codon.budget_exceeded().is_some()) {
        true => Ok(()),
        false => Err("the spender kept to its budget".to_owned()),
    }
}

fn hank(prompt: &str) -> String {
    let codon = |id: &str, prompt: &str, more: &str| {
        format!(
            r#"{{"id":"{id}","name":"N","continuationMode":"fresh","promptText":"{prompt}","agent":{{"command":["agent"],"stream":"claude"}}{more}}}"#
        )
    };
    let turn = codon("turn", "work", r#","onFailure":"ignore""#);
    let items = [
        codon("one", "work", ""),
        codon("two", prompt, ""),
        codon("three", "work", ""),
        format!(
            r#"{{"type":"loop","id":"l","name":"L","terminateOn":{{"type":"iterationLimit","limit":4}},"codons":[{turn}]}}"#
        ),
        codon("held", "work", ""),
        codon("spender", "work", r#","budget":{"maxOutputTokens":5}"#),
        codon("last", "work", ""),
    ];
    format!(r#"{{"hank":[{}]}}"#, items.join(","))
}
