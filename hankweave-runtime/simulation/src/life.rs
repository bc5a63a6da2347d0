//! One life of the runtime, from its start to an end of whatever kind.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::CodonId;
use hankweave_core::thread::CodonPoint;
use hankweave_core::wire::Event;
use hankweave_runtime::hank_files::load_from;
use hankweave_runtime::instance_lock::LockError;
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::World;
use hankweave_runtime::{
    Builder, Commander, Hankweave, OpenExecutionError, Rollback, RollbackError, RollbackTarget, RunCommand,
    RunError, RunOptions, RunOutcome, ServerOptions, Shutdown, StopCause,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::check::{Broken, check_leftovers};
use crate::disk::{Plan, SimDisk};
use crate::machine::{HANK, Machine, WORK, Witness, state_dir};
use crate::world::LONGEST;

/// How long the runtime may continue after it was asked to stop: a grace of 5 s and its ends (S3, D8).
const LONGEST_STOP: Duration = Duration::from_secs(30);

/// Plan of the outside events during one life.
#[derive(Debug, Clone, Default)]
pub(crate) struct LifePlan {
    pub(crate) disk: Plan,
    /// When the runtime is killed, however far it is.
    pub(crate) killed_after: Option<Duration>,
    /// When it is asked to stop.
    pub(crate) stopped_after: Option<Duration>,
    /// When it is asked again.
    pub(crate) forced_after: Option<Duration>,
    /// When another process tries to start a second one.
    pub(crate) rivalled_after: Option<Duration>,
    pub(crate) restless_clock: bool,
    /// The codon that a client skips as soon as its agent works.
    pub(crate) skipped: Option<&'static str>,
    /// The codon that a user rolls back to, instead of a run.
    pub(crate) back_to: Option<&'static str>,
    /// The codon that a client rolls back to by command, in a run that starts nothing by itself.
    pub(crate) back_in_run: Option<&'static str>,
}

/// How a life ended.
#[derive(Debug)]
pub(crate) enum LifeEnd {
    Ran(Result<RunOutcome, RunError>),
    NotOpened(OpenExecutionError),
    WentBack(Result<Rollback, RollbackError>),
    Crashed,
}

/// Lives one life. The runtime ends when this returns, but its way to the disk is not closed yet.
///
/// # Errors
///
/// The first promise that was broken.
pub(crate) fn live(machine: &mut Machine, plan: &LifePlan) -> Result<LifeEnd, Broken> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| format!("no tokio runtime: {error}"))?;
    let end = runtime.block_on(async {
        let world = machine.begin_life(plan.disk.clone(), plan.restless_clock);
        let crashed = machine.disk.crashed();
        tokio::select! {
            biased;
            () = crashed.notified() => Ok(LifeEnd::Crashed),
            () = kill(&machine.disk, plan.killed_after) => Ok(LifeEnd::Crashed),
            end = run(machine, plan, world) => end,
            () = tokio::time::sleep(LONGEST) => Err("the runtime hangs".to_owned()),
        }
    });
    drop(runtime);
    machine.witness.verdict()?;
    if machine.disk.is_down() {
        return Ok(LifeEnd::Crashed);
    }
    end
}

async fn kill(disk: &SimDisk, after: Option<Duration>) {
    match after {
        Some(after) => {
            tokio::time::sleep(after).await;
            disk.crash_now();
        }
        None => std::future::pending().await,
    }
}

fn builder(machine: &Machine, world: &World, disk: &SimDisk) -> Result<Builder, Broken> {
    let hank = load_from(&disk.outside(), Path::new(HANK)).map_err(|error| error.to_string())?;
    let builder = Hankweave::builder_in(world.clone(), hank);
    Ok(builder
        .execution_dir(WORK)
        .checkpoints(Arc::new(machine.checkpoints(disk))))
}

async fn run(machine: &Machine, plan: &LifePlan, world: World) -> Result<LifeEnd, Broken> {
    let disk = machine.disk.present();
    let mut options = RunOptions::default();
    options.autostart = plan.back_in_run.is_none();
    let builder = builder(machine, &world, &disk)?.options(options);
    let mut hankweave = match builder.open().await {
        Ok(hankweave) => hankweave,
        Err(error) => return Ok(LifeEnd::NotOpened(error)),
    };
    if !disk.is_down() {
        check_opened(machine)?;
    }
    let heard = tokio::spawn(listen(hankweave.subscribe(), machine.witness.clone()));
    if let Some(codon) = plan.back_to {
        return go_back(hankweave, heard, codon).await;
    }
    let skip = skip(plan, hankweave.subscribe(), hankweave.commander());
    // They go with this life, wherever they are.
    let mut audience = JoinSet::new();
    let spectators = machine.audience();
    if !spectators.is_empty() && hankweave.serve(ServerOptions::default()).await.is_ok() {
        for spectator in spectators {
            let outside = Arc::new(machine.disk.outside());
            audience.spawn(spectator.watch(outside, machine.witness.clone()));
        }
    }
    let shutdown = Shutdown::new();
    let back = go_back_in_run(plan, hankweave.subscribe(), hankweave.commander(), &shutdown);
    let mut asked = None;
    let outcome = {
        let work = hankweave.run(shutdown.clone());
        let rival = rival(machine, plan, &world, &disk);
        let stop = stop(plan, &shutdown, &mut asked);
        tokio::pin!(work, rival, stop, skip, back);
        let (mut rival_done, mut stop_done, mut skip_done, mut back_done) = (false, false, false, false);
        loop {
            tokio::select! {
                biased;
                outcome = &mut work => break outcome,
                answered = &mut rival, if !rival_done => { answered?; rival_done = true; }
                () = &mut stop, if !stop_done => stop_done = true,
                () = &mut skip, if !skip_done => skip_done = true,
                () = &mut back, if !back_done => back_done = true,
            }
        }
    };
    if let Some(asked) = asked.map(|asked: Instant| asked.elapsed())
        && asked > LONGEST_STOP
    {
        return Err(format!(
            "S3, D8: the runtime stopped {asked:?} after it was asked to"
        ));
    }
    // A subscription ends with the manager.
    heard
        .await
        .map_err(|error| format!("the listener failed: {error}"))?;
    Ok(LifeEnd::Ran(outcome))
}

/// Checks what must hold when a directory is opened.
fn check_opened(machine: &Machine) -> Result<(), Broken> {
    let records = machine.records()?;
    records.check(&machine.witness.notes().told, &machine.vault)?;
    for seen in &machine.spectators {
        records.check_seen(&seen.numbers())?;
    }
    if let Some(alive) = machine.processes.alive().first() {
        return Err(format!(
            "P9: a process of {alive} outlived the crash of its runtime"
        ));
    }
    if machine.disk.refusals() > 0 {
        return Ok(());
    }
    check_leftovers(&machine.disk.tree(&state_dir(), ""), true)
}

async fn listen(mut subscription: Subscription, witness: Witness) {
    while let Ok(Some(delivery)) = subscription.next().await {
        if let Delivery::Events(events) = delivery {
            for entry in events.entries() {
                let heard = witness.notes().told.hear(entry);
                witness.check(heard);
            }
        }
    }
}

async fn stop(plan: &LifePlan, shutdown: &Shutdown, asked: &mut Option<Instant>) {
    let Some(after) = plan.stopped_after else {
        return;
    };
    tokio::time::sleep(after).await;
    *asked = Some(Instant::now());
    shutdown.request(StopCause::Terminate);
    if let Some(after) = plan.forced_after {
        tokio::time::sleep(after).await;
        shutdown.request(StopCause::Interrupt);
    }
}

/// Skips the codon of the plan whenever its agent works.
async fn skip(plan: &LifePlan, mut events: Subscription, commander: Commander) {
    while let (Some(skipped), Ok(Some(delivery))) = (plan.skipped, events.next().await) {
        let Delivery::Events(events) = delivery else {
            continue;
        };
        let works = |event: &Event| matches!(event, Event::CodonStarted { codon_id, .. } if codon_id.as_str() == skipped);
        for _ in events.entries().filter(|entry| works(&entry.event)) {
            // A run that ends at this moment refuses, and then the codon is skipped the next time.
            let _ = commander.send(RunCommand::Skip).await;
        }
    }
}

/// Rolls back to the end of a codon as soon as nothing runs, and then ends the run.
async fn go_back_in_run(
    plan: &LifePlan,
    mut events: Subscription,
    commander: Commander,
    shutdown: &Shutdown,
) {
    let Some(id) = plan.back_in_run.and_then(|codon| CodonId::new(codon).ok()) else {
        return;
    };
    while let Ok(Some(delivery)) = events.next().await {
        let Delivery::Events(events) = delivery else {
            continue;
        };
        let idles = |event: &Event| matches!(event, Event::ServerIdle { .. });
        if events.entries().any(|entry| idles(&entry.event)) {
            let (target, restart) = (end_of(id), false);
            // Its outcome is in the records.
            let _ = commander.send(RunCommand::RollBack { target, restart }).await;
            return shutdown.request(StopCause::Request);
        }
    }
}

fn end_of(codon: CodonId) -> RollbackTarget {
    RollbackTarget::Codon(codon, CodonPoint::End)
}

/// Rolls back to the end of a codon, as a user would.
async fn go_back(hankweave: Hankweave, heard: JoinHandle<()>, codon: &str) -> Result<LifeEnd, Broken> {
    let id = CodonId::new(codon).map_err(|error| error.to_string())?;
    let back = hankweave.roll_back(&end_of(id)).await;
    hankweave
        .close()
        .await
        .map_err(|error| format!("the directory is not given back: {error}"))?;
    // A subscription ends with the manager.
    heard
        .await
        .map_err(|error| format!("the listener failed: {error}"))?;
    Ok(LifeEnd::WentBack(back))
}

/// Starts a second runtime, which must find the directory taken, however long it asks (L1).
async fn rival(machine: &Machine, plan: &LifePlan, world: &World, disk: &SimDisk) -> Result<(), Broken> {
    let Some(after) = plan.rivalled_after else {
        return Ok(());
    };
    tokio::time::sleep(after).await;
    let opened = builder(machine, &machine.beside(world), disk)?.open().await;
    match opened {
        Err(OpenExecutionError::Lock(LockError::Held { .. })) => Ok(()),
        Err(_) if disk.is_down() => Ok(()),
        Err(error) => Err(format!(
            "L1: a second runtime was refused for another reason: {error}"
        )),
        Ok(_) => Err("L1: a second runtime was admitted".to_owned()),
    }
}
