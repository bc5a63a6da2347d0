//! Runs the command of a sentinel: it gets the events on its standard input and prints an answer (SENT-9).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::sentinel::{AnswerFormat, Firing, SentinelAnswer, SentinelConfig};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::call::CallError;
use super::{Context, sentinel_marker};
use crate::world::World;
use crate::world::environment::find_program;
use crate::world::process::{CommandSpec, GroupSignal, Stdin, child_environment};
use crate::world::suspension::Stopwatch;

/// Longest answer, in bytes.
const MOST_ANSWER_BYTES: u64 = 1 << 20;

/// Longest error output of a command that is kept, in bytes.
const MOST_COMPLAINT_BYTES: u64 = 4 << 10;

/// Whether the program of the command can be found, for a hank in this folder and a codon with these variables.
pub(super) fn check(
    config: &SentinelConfig,
    hank: &Path,
    world: &World,
    env: &BTreeMap<String, String>,
) -> Result<(), String> {
    let program = config.command.iter().flatten().next();
    let program = program.ok_or("it has no command")?;
    match find(program, hank, world, env) {
        Some(_) => Ok(()),
        None => Err(format!("the program `{program}` was not found")),
    }
}

/// Finds a program: a bare name in the `PATH` of the codon, a path relative to the folder of the hank.
fn find(program: &str, hank: &Path, world: &World, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if program.contains('/') {
        let path = hank.join(program);
        return world.disk.metadata_followed(&path).is_ok().then_some(path);
    }
    let env = child_environment(&world.environment, env);
    let path = env.get(&OsString::from("PATH")).cloned().unwrap_or_default();
    find_program(&*world.disk, program, &path)
}

/// Gives the events to the command and reads its answer.
pub(super) async fn call(
    context: Context,
    config: SentinelConfig,
    firing: Firing,
) -> Result<SentinelAnswer, CallError> {
    let words = config.command.clone().unwrap_or_default();
    let (program, args) = words
        .split_first()
        .ok_or_else(|| CallError::Start(io::ErrorKind::NotFound.into()))?;
    let found = find(program, &context.hank, &context.world, &context.env)
        .ok_or_else(|| CallError::Start(io::ErrorKind::NotFound.into()))?;
    let mut env = child_environment(&context.world.environment, &context.env);
    env.insert("HANKWEAVE_HANK".into(), context.hank.clone().into_os_string());
    let spec = CommandSpec {
        program: found,
        args: args.iter().map(OsString::from).collect(),
        env,
        work_dir: context.dir.root().to_owned(),
        stdin: Stdin::Bytes(input(&context, &config, &firing)),
        marker: sentinel_marker(&context.marker(), config.id.as_str()),
    };
    let mut process = context.world.spawner.spawn(spec).map_err(CallError::Start)?;
    let answered = async {
        let (printed, complaint) = tokio::join!(
            read(&mut process.stdout, MOST_ANSWER_BYTES),
            read(&mut process.stderr, MOST_COMPLAINT_BYTES)
        );
        (printed, complaint, process.control.wait().await)
    };
    let clock = &*context.world.clock;
    let started = Stopwatch::start(clock);
    let answered = tokio::select! {
        biased;
        answered = answered => Some(answered),
        () = started.reach(clock, config.timeout()) => None,
    };
    // Otherwise processes that the command left running would outlive its answer.
    let _ = process.control.signal_group(GroupSignal::Kill);
    process.control.sweep().await;
    let Some((printed, complaint, exit)) = answered else {
        return Err(CallError::Timeout(config.timeout().as_secs()));
    };
    let exit = exit.map_err(CallError::Start)?;
    if !exit.is_success() {
        let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
        let complaint = match complaint.as_str() {
            "" => String::new(),
            said => format!(": {said}"),
        };
        let exit = exit.to_string();
        return Err(CallError::Failed { exit, complaint });
    }
    if printed.len() as u64 > MOST_ANSWER_BYTES {
        return Err(CallError::TooLong);
    }
    let printed = String::from_utf8(printed).map_err(|_| CallError::NotUtf8)?;
    Ok(SentinelAnswer::read(
        &printed,
        config.answer.unwrap_or(AnswerFormat::Text),
    )?)
}

/// Returns the input of the command: one JSON object, whose `events` are the lines of the journal, unchanged.
fn input(context: &Context, config: &SentinelConfig, firing: &Firing) -> Vec<u8> {
    let mut text = json!({
        "sentinelId": config.id,
        "runId": context.run,
        "codonId": context.codon,
        "trigger": firing.number,
    })
    .to_string();
    // Opens the object again to add the events.
    text.pop();
    text.push_str(",\"events\":[");
    for (index, event) in firing.events.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{}", event.line);
    }
    text.push_str("]}\n");
    text.into_bytes()
}

/// Reads to the end and keeps at most one byte more than `most`, so that the caller sees whether there was more.
async fn read(output: &mut (impl AsyncRead + Unpin), most: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    // Output that cannot be read is left out: the exit code shows whether the command failed.
    let _ = (&mut *output).take(most + 1).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(output, &mut tokio::io::sink()).await;
    kept
}
