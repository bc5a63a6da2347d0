//! Finding and killing descendants that outlived their agent; also finding those to suspend.
//!
//! Descendants are found by the marker in their environment, by their session and by their parents. In a process that adopts
//! orphans they are also found as its children, even if they dropped their environment and detached themselves. To "hold" a
//! process is to stop it with SIGSTOP, so that it starts nothing more before it is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::SPARED_MARKER;
use super::table::{Process, ProcessKey, carries};
use crate::world::system;

/// Minimum time for a sweep: a part of the ten seconds of a whole stop (S3).
pub(super) const DEADLINE: Duration = Duration::from_millis(2_500);

/// Interval at which the process table is read while killed processes disappear.
const INTERVAL: Duration = Duration::from_millis(10);

/// Result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep {
    /// Number of processes that were killed.
    pub killed: usize,
    /// Number of processes that still existed at the end, because they were stuck in the kernel.
    pub survivors: usize,
}

/// Number of scans in a row that must find nothing before a sweep ends.
const CALM_SCANS: u32 = 2;

/// Extent of a scan.
#[derive(Debug)]
pub(super) enum SweepDepth<'h> {
    /// The whole process table.
    Everywhere,
    /// Our children alone, which takes a small part of the time; an adopted orphan is our child. The scan holds each child
    /// that is not in this set yet and adds it, and reaps those that have ended.
    HoldChildren(&'h mut BTreeSet<ProcessKey>),
}

/// Kills and reaps every process that carries `marker`, with its descendants, until none is left or 2.5 seconds are
/// over. Recovery uses it for the agents of a server that crashed.
pub async fn sweep_marked(marker: &str) -> Sweep {
    sweep_all(DEADLINE, |depth| match depth {
        SweepDepth::Everywhere => ProcessSet {
            marker,
            session: None,
        }
        .find(),
        SweepDepth::HoldChildren(_) => SweepScan::default(),
    })
    .await
}

/// Returns the process ids of the living processes that carry `marker` and of their descendants, in order.
#[must_use]
pub fn marked(marker: &str) -> Vec<i32> {
    let session = None;
    let found = ProcessSet { marker, session }.find();
    let mut pids: Vec<i32> = found.living.iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    pids
}

/// Result of one scan of the process table.
#[derive(Debug, Default)]
pub(super) struct SweepScan {
    /// Processes to be killed.
    living: Vec<Process>,
    /// Adopted orphans that have ended, perhaps while the table was read. Then the table may lack a process that such an
    /// orphan started last and that is our child by now: another scan is needed.
    ended: Vec<i32>,
}

impl SweepScan {
    fn is_nothing(&self) -> bool {
        self.living.is_empty() && self.ended.is_empty()
    }

    /// Kills the living processes, without waiting for their end, and reaps the ended ones.
    pub(super) fn kill(&self) {
        for process in &self.living {
            process.kill();
        }
        reap(&self.ended);
    }
}

/// Kills and reaps what `find` finds, until [`CALM_SCANS`] scans in a row find nothing or the time limit is reached.
pub(super) async fn sweep_all(limit: Duration, find: impl Fn(SweepDepth<'_>) -> SweepScan) -> Sweep {
    let deadline = Instant::now() + limit;
    let mut killed = BTreeSet::new();
    let mut calm_scans = 0;
    while calm_scans < CALM_SCANS {
        let found = hold(&find, deadline).await;
        found.kill();
        killed.extend(found.living.iter().map(Process::key));
        calm_scans = if found.is_nothing() { calm_scans + 1 } else { 0 };
        if calm_scans == 0 {
            sleep(INTERVAL).await;
        }
        reap(killed.iter().map(|(pid, _)| pid));
        if calm_scans == 0 && Instant::now() >= deadline {
            break;
        }
    }
    let survivors = match calm_scans {
        CALM_SCANS => 0,
        _ => find(SweepDepth::Everywhere).living.len(),
    };
    Sweep {
        killed: killed.len(),
        survivors,
    }
}

/// Holds every process that `find` finds, until a scan finds no new one, and returns the result of that scan.
///
/// A process may start another one and end before it is killed, and so may that one: a chain, which killing alone would never
/// catch. A held process starts nothing more, not even if the signal arrives in the middle of a fork. So scans repeat without
/// a pause until each chain is held. Our children are held first: then they use no processor any more, and the processes that
/// they would start do not make the scans of the whole table slow.
async fn hold(find: &impl Fn(SweepDepth<'_>) -> SweepScan, deadline: Instant) -> SweepScan {
    let mut held = BTreeSet::new();
    loop {
        while !find(SweepDepth::HoldChildren(&mut held)).is_nothing() && Instant::now() < deadline {
            yield_now().await;
        }
        let found = find(SweepDepth::Everywhere);
        let mut is_calm = found.ended.is_empty();
        for process in &found.living {
            if held.insert(process.key()) {
                system::signal(process, Signal::STOP);
                is_calm = false;
            }
        }
        if is_calm || Instant::now() >= deadline {
            return found;
        }
        reap(&found.ended);
    }
}

/// Returns the existing processes with these numbers.
pub(super) fn processes_of(pids: &[i32]) -> impl Iterator<Item = Process> {
    pids.iter().filter_map(|pid| system::process(*pid))
}

/// Processes of one codon's agent: those that carry its marker, those in its session, and all their descendants.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessSet<'a> {
    pub(super) marker: &'a str,
    /// The session of a child of this process; `None` in the search for what an earlier process has left.
    pub(super) session: Option<i32>,
}

impl ProcessSet<'_> {
    /// Returns when the first process of the set may have started. Older processes need no check of their environment,
    /// which takes the longest.
    fn earliest_start(&self) -> u64 {
        let of_ours = self.session.and_then(|_| system::process(own_pid()));
        of_ours.map_or(0, |own| own.start_time)
    }

    /// Whether the process is in the session or carries the marker; `begin` is the [earliest start](Self::earliest_start).
    fn has(&self, process: &Process, begin: u64) -> bool {
        self.session == Some(process.session)
            || (process.start_time >= begin && carries(process.pid, self.marker))
    }

    /// Finds the living processes of the set.
    pub(super) fn find(&self) -> SweepScan {
        let (all, begin) = (others(), self.earliest_start());
        let roots = all.iter().filter(|process| self.has(process, begin));
        let roots = roots.map(|process| process.pid).collect();
        SweepScan {
            living: with_descendants(all, roots),
            ended: Vec::new(),
        }
    }

    /// Like [`find`](Self::find), with every orphan that we have adopted: every child of ours that is not in `owned`, except
    /// those with the [`SPARED_MARKER`] (S2).
    ///
    /// If this finds nothing, nothing is left: a descendant that lived when the scan began is a child of ours or has one
    /// above it, and only we can reap that child. So the scan finds that child living, or ended and worth another scan.
    pub(super) fn find_with_orphans(&self, owned: &BTreeSet<i32>) -> SweepScan {
        let own_pid = own_pid();
        let (all, begin) = (others(), self.earliest_start());
        let adopted = |process: &&Process| process.parent == own_pid && !owned.contains(&process.pid);
        let is_root = |process: &&Process| match adopted(process) {
            true => process.lives && !carries(process.pid, SPARED_MARKER),
            false => self.has(process, begin),
        };
        let roots = all.iter().filter(is_root).map(|process| process.pid).collect();
        let ended = all.iter().filter(adopted).filter(|process| !process.lives);
        SweepScan {
            ended: ended.map(|process| process.pid).collect(),
            living: with_descendants(all, roots),
        }
    }
}

/// Holds the orphans among our children that are not in `held` yet, reaps those that have ended, and returns both kinds.
///
/// The scan competes with the processes it looks for, so it does little for each: most have ended. The number of a child
/// needs no check, because only we can reap it.
pub(super) fn hold_orphans(owned: &BTreeSet<i32>, held: &mut BTreeSet<ProcessKey>) -> SweepScan {
    let mut found = SweepScan::default();
    for pid in system::our_children() {
        if owned.contains(&pid) || held.range((pid, 0)..=(pid, u64::MAX)).next().is_some() {
            continue;
        }
        if reap([&pid]) > 0 {
            found.ended.push(pid);
        } else if !carries(pid, SPARED_MARKER) {
            hold_child(pid);
            if let Some(process) = system::process(pid) {
                held.insert(process.key());
                found.living.push(process);
            }
        }
    }
    found
}

fn hold_child(pid: i32) {
    // A child that has ended meanwhile is found by the next scan.
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::STOP));
}

/// Stops all [`descendants`], parents first, until a scan finds no new one or the time limit is reached. Returns those that
/// were not stopped before.
pub(super) fn stop_descendants(limit: Duration) -> Vec<Process> {
    let deadline = Instant::now() + limit;
    let (mut seen, mut stopped) = (BTreeSet::new(), Vec::new());
    loop {
        // A process that was stopped while it started another has a new child in the next scan.
        let mut is_calm = true;
        for process in descendants() {
            if seen.insert(process.key()) {
                is_calm = false;
                if !process.is_stopped {
                    system::signal(&process, Signal::STOP);
                    stopped.push(process);
                }
            }
        }
        if is_calm || Instant::now() >= deadline {
            return stopped;
        }
    }
}

/// Lets the processes that [`stop_descendants`] has stopped continue. Children come first, so that no parent sees them stopped.
pub(super) fn continue_all(stopped: &[Process]) {
    for process in stopped.iter().rev() {
        system::signal(process, Signal::CONT);
    }
}

/// Returns the living descendants of this process, without those of the user, which carry [`SPARED_MARKER`].
fn descendants() -> Vec<Process> {
    let (all, own_pid) = (others(), own_pid());
    let is_root = |process: &&Process| process.parent == own_pid && !carries(process.pid, SPARED_MARKER);
    let roots = all.iter().filter(is_root).map(|process| process.pid).collect();
    with_descendants(all, roots)
}

/// Reaps the orphans that have ended: they would fill the process table while an agent works.
pub(super) fn reap_orphans(owned: &BTreeSet<i32>) {
    let orphans = system::our_children()
        .into_iter()
        .filter(|pid| !owned.contains(pid));
    reap(&orphans.collect::<Vec<i32>>());
}

/// Returns process id and parent of each living process of a set.
pub(super) fn living_family(family: &ProcessSet<'_>) -> Vec<(i32, i32)> {
    let living = family.find().living.into_iter();
    living.map(|process| (process.pid, process.parent)).collect()
}

/// Returns the living processes of `all` that are in `family` or descend from a member.
fn with_descendants(all: Vec<Process>, mut family: BTreeSet<i32>) -> Vec<Process> {
    loop {
        let before = family.len();
        let children = all.iter().filter(|process| family.contains(&process.parent));
        family.extend(children.map(|process| process.pid).collect::<Vec<_>>());
        if family.len() == before {
            break;
        }
    }
    let found = all.into_iter();
    found
        .filter(|process| process.lives && family.contains(&process.pid))
        .collect()
}

/// All processes but this one.
fn others() -> Vec<Process> {
    let own_pid = own_pid();
    let mut all = system::processes();
    all.retain(|process| process.pid != own_pid);
    all
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// Reaps those of `pids` that are our children and have ended, and returns their number.
fn reap<'p>(pids: impl IntoIterator<Item = &'p i32>) -> usize {
    let pids = pids.into_iter().filter_map(|pid| Pid::from_raw(*pid));
    // For a process that is not our child, `waitpid` fails; its parent reaps it.
    let has_ended = |pid: &Pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_)));
    pids.filter(has_ended).count()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::super::MARKER_VARIABLE;
    use super::*;

    /// Its end may come between the scan of the processes that it had started and the scan of itself.
    // covers: S2, P9, F9
    #[test]
    fn behind_an_orphan_that_has_ended_one_looks_again() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_raw(pid).unwrap()), ended).unwrap();
        // Children of other tests are orphans here, too.
        let found = |owned: &[i32]| {
            let nobody = ProcessSet {
                marker: "nobody's",
                session: None,
            };
            let found = nobody.find_with_orphans(&owned.iter().copied().collect());
            assert_eq!(
                found.is_nothing(),
                found.living.is_empty() && found.ended.is_empty()
            );
            found.ended.contains(&pid)
        };
        assert!(found(&[]));
        assert!(!found(&[pid]), "somebody waits for it");
        child.wait().unwrap();
        assert!(!found(&[]));
    }

    // covers: S2
    #[test]
    fn what_belongs_to_the_user_is_no_orphan_of_ours() {
        let child = |marker: &str| {
            let mut sleep = Command::new("sleep");
            sleep.arg("600").env(MARKER_VARIABLE, marker).spawn().unwrap()
        };
        let mut children = [child(SPARED_MARKER), child("a run's")];
        let nobody = ProcessSet {
            marker: "nobody's",
            session: None,
        };
        let found = nobody.find_with_orphans(&BTreeSet::new());
        let is_found = children.each_ref().map(|child| {
            let pid = i32::try_from(child.id()).unwrap();
            found.living.iter().any(|process| process.pid == pid)
        });
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(is_found, [false, true]);
    }
}
