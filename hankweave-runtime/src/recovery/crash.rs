//! Closes runs and codons that a crashed process left open: finds its remaining processes, the costs of its agents, and the events that record the
//! crash (L4, STATE-36). `open::possess` calls these functions and records the events.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::codon::{CodonExecution, CodonPhase, CodonTransition, Fail, Running};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::document::{HankweaveState, RunRecord, RunStatus};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::id::CodonId;
use hankweave_core::plan::agent_of;
use hankweave_core::run::{self, Crash};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;

use crate::counting::Counting;
use crate::driver::{CutOffAgent, LogContext, ProcessHost, final_usage};
use crate::fallback::resolved;
use crate::journal;
use crate::paths::ExecutionDir;
use crate::sentinel::sentinel_marker;
use crate::world::World;
use crate::world::disk::Disk;
use crate::world::process::{marked, marker};

/// Returns the markers of processes that a crashed run may have left running (P9): the agent and the sentinels of its open codon, or
/// the commands after the end of its last codon. A marker is the value of a variable in the environment of all processes of a codon.
pub(super) fn markers(disk: &dyn Disk, directory: &Path, state: &HankweaveState) -> Vec<String> {
    let marker = |run: &RunRecord, codon: &CodonId| marker(disk, directory, &run.run_id, codon);
    let of_open_or_last = |run: &RunRecord| {
        let last = || run.codons.last().map(Arc::as_ref);
        Some(marker(run, run.open_codon().or_else(last)?.codon_id()))
    };
    let of_open = |run: &RunRecord| Some(marker(run, run.open_codon()?.codon_id()));
    let of_sentinels = state.runs.iter().flat_map(|run| {
        let open = run.open_codon().into_iter();
        open.flat_map(move |codon| {
            let sentinels = codon.sentinels().iter();
            sentinels
                .map(move |sentinel| sentinel_marker(&marker(run, codon.codon_id()), sentinel.id.as_str()))
        })
    });
    let of_running_runs = state.running_runs().filter_map(of_open_or_last);
    of_running_runs
        .chain(ended_runs(state).filter_map(of_open))
        .chain(of_sentinels)
        .collect()
}

/// Returns the ids of the processes that crashed runs of an execution directory have left running, in order; the next start ends them.
#[must_use]
pub fn left_running(disk: &dyn Disk, dir: &ExecutionDir, state: &HankweaveState) -> Vec<i32> {
    // Runs resolve the path of the directory before they make markers of it.
    let root = disk
        .real_path(dir.root())
        .unwrap_or_else(|_| dir.root().to_owned());
    let mut pids: Vec<i32> = markers(disk, &root, state)
        .iter()
        .flat_map(|marker| marked(marker))
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Returns the last sign of life of a run whose process has ended: its newest event, or the last `heartbeat` in the lock
/// file that it left. Returns `None` if there is neither.
#[must_use]
pub fn last_sign(disk: &dyn Disk, dir: &ExecutionDir, heartbeat: Option<Timestamp>) -> Option<Timestamp> {
    let newest = journal::last(disk, &journal::segments(disk, &dir.events()));
    newest.map(|entry| entry.timestamp).max(heartbeat)
}

/// Returns the minimum working time of the open codon of a run whose process has ended: until `last`, the run's last sign of
/// life, without suspensions.
#[must_use]
pub fn lived(disk: &dyn Disk, dir: &ExecutionDir, codon: &CodonExecution, last: Timestamp) -> Duration {
    let segments = journal::segments(disk, &dir.events());
    let (began, suspended) = (*codon.start_time(), Cell::new(0_u64));
    // Adds up the suspensions since the start of the codon, newest first; ends at the first event from before.
    let is_before_codon = |event: &Event| match event {
        Event::RunContinued {
            suspended_at,
            suspended_ms,
            ..
        } if *suspended_at >= began => {
            suspended.set(suspended.get().saturating_add(*suspended_ms));
            false
        }
        _ => true,
    };
    // The found event is not needed: the search only visits the suspensions.
    let _ = journal::newest(disk, &segments, "run.continued", &is_before_codon, u64::MAX);
    let suspended = Duration::from_millis(suspended.get());
    last.since(began).saturating_sub(suspended)
}

/// Part of the message about processes that were ended; the report of a run finds the message in the journal by these words.
pub const LEFT_BEHIND: &str = "that a crashed run had left behind";

/// Returns the message about processes of crashed runs that were ended; `None` if there were none.
pub(super) fn ended_words(killed: usize) -> Option<String> {
    match killed {
        0 => None,
        1 => Some(format!("1 process {LEFT_BEHIND} was ended")),
        count => Some(format!("{count} processes {LEFT_BEHIND} were ended")),
    }
}

fn ended_runs(state: &HankweaveState) -> impl Iterator<Item = &RunRecord> {
    let runs = state.runs.iter().map(Arc::as_ref);
    runs.filter(|run| run.status != RunStatus::Running)
}

/// Returns the crash event, with a notice, of each run that is recorded as running. `heartbeat` is the last one in the lock
/// file. We hold the lock, so the run's process has ended, even if `currentRunId` or the recorded pid say otherwise (L4).
pub(super) fn crashes(
    state: &HankweaveState,
    now: Timestamp,
    heartbeat: Option<Timestamp>,
) -> Vec<(StateEvent, String)> {
    let close = |run: &RunRecord| {
        let open = run.open_codon().map(|codon| codon.status());
        let running = run::Run::<run::Running>::try_from(run.life()).ok()?;
        let crashed = running.step(Crash { end_time: now }).into_event();
        let closed = open.map_or("", |_| "; its open codon is closed as crashed");
        let notice = format!("run {} had crashed{closed}", run.run_id);
        let event = StateEvent::run_ended(run.run_id.clone(), &crashed, open);
        Some((event.with_heartbeat(heartbeat), notice))
    };
    state.running_runs().filter_map(close).collect()
}

/// Returns an event that closes a codon, with a notice, for each codon that is open in a run that has ended. hankweave never writes
/// such a state, but another program may have; no run could continue after the open codon.
pub(super) fn left_open(state: &HankweaveState, now: Timestamp) -> Vec<(StateEvent, String)> {
    let close = |run: &RunRecord| {
        let codon = run.open_codon()?;
        let notice = format!(
            "run {} had ended ({}) and left codon {} open ({}); the codon is closed as crashed",
            run.run_id,
            run.status,
            codon.codon_id(),
            codon.status()
        );
        Some((crash_of_codon(run, codon, now)?, notice))
    };
    ended_runs(state).filter_map(close).collect()
}

/// The sources for the costs of codons that a crash interrupted.
pub(super) struct Sources<'a> {
    pub(super) world: &'a World,
    pub(super) dir: &'a ExecutionDir,
    /// The hank, for the variables that name the folders of agents' transcripts; the record does not hold their values.
    pub(super) hank: Option<&'a Hank>,
    /// Prices for a run that noted none.
    pub(super) prices: &'a Arc<Prices>,
    /// Last heartbeat in the lock file that a crashed process left.
    pub(super) heartbeat: Option<Timestamp>,
}

/// Returns events with the costs of codons that a crash interrupted, from the logs and transcripts of their agents. Blocks.
///
/// The events also close these codons where their cost is a lower bound or their working time is known, because the crash event of the run
/// cannot record either.
pub(super) fn costs(sources: &Sources<'_>, state: &HankweaveState, now: Timestamp) -> Vec<StateEvent> {
    let disk = &*sources.world.disk;
    let last = last_sign(disk, sources.dir, sources.heartbeat);
    let of_run = |run: &RunRecord| {
        let Some(open) = run.open_codon() else {
            return Vec::new();
        };
        let (mut events, is_lower_bound) = match open {
            CodonExecution::Running(codon) => costs_of_running(sources, state, run, (open, codon)),
            // The agent may have asked its model already, in a session that is unknown.
            CodonExecution::Initializing(_) => (Vec::new(), true),
            // Without a lock file of the crashed process, the record may come from another machine, where the codon continued.
            _ => (Vec::new(), sources.heartbeat.is_none()),
        };
        let lived = last.map(|last| lived(disk, sources.dir, open, last));
        if let Some(mut crash) = crash_of_codon(run, open, now)
            && (is_lower_bound || lived.is_some())
        {
            if let Some(lived) = lived {
                crash = crash.with_measured(lived);
            }
            if is_lower_bound {
                crash = crash.with_cost_as_lower_bound();
            }
            events.push(crash);
        }
        events
    };
    state.running_runs().flat_map(of_run).collect()
}

/// Returns the event that closes an open codon as crashed; `None` if its state is not one of an open codon.
fn crash_of_codon(run: &RunRecord, codon: &CodonExecution, now: Timestamp) -> Option<StateEvent> {
    let phase = CodonPhase::try_from(codon.status()).ok()?;
    let fail = CodonTransition::Fail(Fail::crashed(now));
    let (run_id, codon_id) = (run.run_id.clone(), codon.codon_id().clone());
    Some(StateEvent::transitioned(run_id, codon_id, phase, &fail))
}

/// Returns an event with the costs of a codon if they are more than the recorded ones, and whether more was used than is known.
fn costs_of_running(
    sources: &Sources<'_>,
    state: &HankweaveState,
    run: &RunRecord,
    (record, codon): (&CodonExecution, &Running),
) -> (Vec<StateEvent>, bool) {
    let chosen = record.chosen_agent();
    let counting = Counting::load(&*sources.world.disk, sources.dir, &run.run_id);
    let counting = counting.unwrap_or_else(|| Counting::with(Arc::clone(sources.prices)));
    let context = LogContext {
        resumed: codon.previous_session_id.as_ref(),
        model: counting.model_of(&codon.codon_id, chosen.as_ref()),
        auth: counting.auth_of(&codon.codon_id, chosen.as_ref()),
        before: state.carried_in(&codon.agent_session_id),
        prices: &counting.prices,
    };
    let mut events = Vec::new();
    let (codon_id, log) = (&codon.codon_id, &codon.agent_log_path);
    let config = sources.hank.and_then(|hank| agent_of(hank, record));
    let config = config.map(|agent| resolved(agent, &sources.world.environment));
    let nothing = BTreeMap::new();
    // The path comes from state.json, which others may have edited: it must stay in the state directory.
    let is_ours = log.components().all(|part| matches!(part, Component::Normal(_)));
    let reckoned = is_ours.then(|| {
        // Only a codon with fallbacks has its agent on record. For any other, Claude Code is assumed unless the hank has the codon.
        let recorded_name = chosen.as_ref().map_or("claude", |chosen| &chosen.agent);
        let name = config
            .as_ref()
            .map_or(recorded_name, |config| config.agent_name());
        let agent = CutOffAgent {
            log: &sources.dir.state_dir().join(log),
            session: &codon.agent_session_id,
            past: context,
            since: codon.start_time,
            work_dir: sources.dir.root(),
            env: config.as_ref().map_or(&nothing, |config| &config.env),
        };
        final_usage(&ProcessHost::new(sources.world), name, &agent)
    });
    let (cost, tokens) = (codon.current_cost, codon.current_tokens.usage);
    let lower_bound = match reckoned {
        Some(Ok(used)) => {
            let (final_cost, final_tokens) = (used.cost.max(cost), used.tokens.at_least(tokens));
            if (final_cost, final_tokens) != (cost, tokens) {
                events.push(StateEvent::CodonFinalCostSet {
                    run_id: run.run_id.clone(),
                    codon_id: codon_id.clone(),
                    final_cost,
                    final_tokens,
                });
            }
            // A log that shows less than the record is incomplete.
            used.lower_bound || used.cost < cost
        }
        Some(Err(_)) | None => true,
    };
    (events, lower_bound)
}

#[cfg(test)]
mod tests {
    use hankweave_core::state::LiveState;

    use super::*;
    use crate::world::disk::RealDisk;
    use crate::world::environment::Environment;

    // A start can continue after the runs of any foreign file.
    // covers: STATE-36
    #[test]
    fn what_ended_runs_left_open_is_closed_as_after_a_crash() {
        let open = |id: &str, status: &str| serde_json::json!({"codonId": id, "status": status, "startTime": "2025-01-04T12:00:00.000Z"});
        for status in ["completed", "failed", "crashed"] {
            let document = serde_json::json!({
                "runs": [{
                    "runId": "r", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": status,
                    "startingConditions": {"type": "fresh"}, "startTime": "2025-01-04T12:00:00.000Z",
                    "codons": [open("a", "starting")],
                }],
                "currentRunId": null, "executionPlan": [],
            });
            let state = hankweave_core::document::parse(document.to_string().as_bytes()).unwrap();
            let mut live = LiveState::new(state);
            let closed = left_open(live.document(), Timestamp::UNIX_EPOCH);
            let own = markers(&RealDisk, Path::new("/"), live.document());
            assert_eq!(own.len(), 1);
            assert_ne!(own, markers(&RealDisk, Path::new("/proc"), live.document()));
            for (event, told) in closed {
                assert!(told.contains(status), "{told}");
                live.apply_event(&event, Timestamp::UNIX_EPOCH).unwrap();
            }
            let run = &live.document().runs[0];
            assert!(run.open_codon().is_none(), "{status}");
            assert_eq!(run.status.to_string(), status);
            assert!(left_open(live.document(), Timestamp::UNIX_EPOCH).is_empty());
        }
    }

    // Requests that its agent may have made by then are not known.
    // covers: AGENT-8
    #[test]
    fn a_codon_whose_agent_had_named_no_session_may_have_cost_more() {
        let folder = tempfile::tempdir().unwrap();
        let (world, dir) = (
            World::with_environment(Environment::default()),
            ExecutionDir::new(folder.path().to_owned()),
        );
        let begun = serde_json::json!({"codonId": "a", "startTime": "2025-01-04T12:00:00.000Z"});
        // A record without the lock file of its process may be one of another machine.
        let here = Some(Timestamp::UNIX_EPOCH);
        for (status, heartbeat, is_uncertain) in [
            ("preparing", here, false),
            ("starting", here, false),
            ("initializing", here, true),
            ("preparing", None, true),
        ] {
            let sources = Sources {
                world: &world,
                dir: &dir,
                hank: None,
                prices: &Arc::default(),
                heartbeat,
            };
            let mut codon = begun.clone();
            codon["status"] = status.into();
            if status == "initializing" {
                codon["claudePid"] = 7.into();
                codon["claudeLogPath"] = "runs/r/a-claude.log".into();
            }
            let mut live = LiveState::new(running(codon));
            let events = costs(&sources, live.document(), Timestamp::UNIX_EPOCH);
            assert!(!is_uncertain || events.len() == 1, "{status}");
            for event in events.into_iter().chain(
                crashes(live.document(), Timestamp::UNIX_EPOCH, None)
                    .into_iter()
                    .map(|(event, _)| event),
            ) {
                live.apply_event(&event, Timestamp::UNIX_EPOCH).unwrap();
            }
            let closed = &live.document().runs[0].codons[0];
            assert_eq!(closed.cost_is_lower_bound(), is_uncertain, "{status}");
            assert!(matches!(**closed, CodonExecution::Failed(_)), "{status}");
        }
    }

    /// A state whose run works at this codon.
    fn running(codon: serde_json::Value) -> HankweaveState {
        let document = serde_json::json!({
            "runs": [{
                "runId": "r", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "running",
                "startingConditions": {"type": "fresh"}, "startTime": "2025-01-04T12:00:00.000Z", "codons": [codon],
            }],
            "currentRunId": "r", "executionPlan": [],
        });
        hankweave_core::document::parse(document.to_string().as_bytes()).unwrap()
    }

    /// Its agent printed nothing, so that no event shows how long it worked.
    // covers: HANK-35, L2
    #[test]
    fn a_codon_whose_run_was_killed_has_worked_until_the_last_heartbeat() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::with_environment(Environment::default());
        let dir = ExecutionDir::new(folder.path().to_owned());
        let at = |seconds: u64| {
            let began = Timestamp::parse("2025-01-04T12:00:00.000Z").unwrap();
            began.after(Duration::from_secs(seconds))
        };
        let sources = Sources {
            world: &world,
            dir: &dir,
            hank: None,
            prices: &Arc::default(),
            heartbeat: Some(at(7)),
        };
        let codon = serde_json::json!({"codonId": "a", "status": "starting", "startTime": "2025-01-04T12:00:00.000Z"});
        let mut live = LiveState::new(running(codon));
        for event in costs(&sources, live.document(), at(60)) {
            live.apply_event(&event, at(60)).unwrap();
        }
        let closed = &live.document().runs[0].codons[0];
        assert_eq!(closed.duration(), Some(Duration::from_secs(7)));
    }

    // Also the current run, and every other one that was not closed.
    // covers: L4
    #[test]
    fn every_run_that_was_left_running_has_crashed() {
        let run = |id: &str, status: &str| {
            serde_json::json!({
                "runId": id, "runFolder": format!("/p/{id}"), "gitBranch": format!("run-{id}"), "codons": [], "serverPid": 1,
                "startingConditions": {"type": "fresh"}, "status": status, "startTime": "2025-01-04T12:00:00.000Z",
            })
        };
        let document = serde_json::json!({
            "runs": [run("current", "running"), run("older", "running"), run("ended", "failed")],
            "currentRunId": "current", "executionPlan": [],
        });
        let state = hankweave_core::document::parse(document.to_string().as_bytes()).unwrap();
        let crashed = crashes(&state, Timestamp::UNIX_EPOCH, None);
        let runs: Vec<_> = crashed
            .iter()
            .filter_map(|(event, _)| Some(event.run_id()?.as_str()))
            .collect();
        assert_eq!(runs, ["current", "older"]);
    }
}
