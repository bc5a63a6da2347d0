//! Actions of agents and rig commands, decided by the seed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::rng::Rng;

/// One thing that a process does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Print(Vec<u8>),
    Pause(Duration),
    /// Replaces a file and does not sync it.
    Write(PathBuf, Vec<u8>),
    /// Starts another process that does nothing and does not end.
    Fork(Child),
    Exit(i32),
    /// Dies by this signal.
    Fall(i32),
    /// Neither ends nor prints anything.
    Hang,
}

/// A child that a process leaves running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Child {
    /// It has left the group of its parent.
    pub(crate) own_group: bool,
    /// It keeps the output of its parent open.
    pub(crate) holds_output: bool,
}

/// A whole life of a process.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    pub(crate) ignores_term: bool,
}

impl Script {
    /// Gives the agent another end.
    pub(crate) fn suffer(&mut self, fate: Fate) {
        match fate {
            Fate::Fails => replace_end(&mut self.steps, [Step::Exit(1)]),
            Fate::Hangs => {
                self.steps.truncate(UNTIL_ITS_FIRST_MESSAGE);
                self.steps.push(Step::Hang);
            }
        }
    }
}

/// Fate of an agent that would otherwise do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The work is done, but the agent fails.
    Fails,
    /// The agent prints something and then never continues.
    Hangs,
}

/// A pause, the opening line and a message.
const UNTIL_ITS_FIRST_MESSAGE: usize = 3;

/// Work that one process was asked to do.
#[derive(Debug, Clone)]
pub(crate) struct Task<'a> {
    /// The codon, for an agent; `None` for a rig command.
    pub(crate) codon: Option<&'a str>,
    pub(crate) args: &'a [OsString],
    pub(crate) work_dir: &'a Path,
    /// Outputs of other codons, which this one should not touch.
    pub(crate) others: &'a [PathBuf],
}

/// Returns the file that the codon `codon` leaves in the workspace when it completes.
pub(crate) fn output_of(work_dir: &Path, codon: &str) -> (PathBuf, Vec<u8>) {
    let text = format!("what {codon} made\n").repeat(20);
    (work_dir.join(format!("{codon}.txt")), text.into_bytes())
}

/// Makes up what a process does; `tame` ones do what they should.
pub(crate) fn script(task: &Task<'_>, tame: bool, rng: &mut Rng) -> Script {
    let mischief = !tame && rng.one_in(2);
    let mut steps = match task.codon {
        Some(codon) => agent(task, codon, mischief, rng),
        None => command(task, mischief, rng),
    };
    if mischief && rng.one_in(3) {
        let child = Child {
            own_group: rng.one_in(2),
            holds_output: rng.one_in(2),
        };
        steps.insert(rng.up_to(steps.len() - 1), Step::Fork(child));
    }
    Script {
        steps,
        ignores_term: mischief && rng.one_in(3),
    }
}

fn agent(task: &Task<'_>, codon: &str, mischief: bool, rng: &mut Rng) -> Vec<Step> {
    let session = format!("session-{:08x}", rng.roll() >> 32);
    let mut steps = vec![pause(rng), init(&session)];
    for message in 0..rng.within(1..4) {
        steps.push(assistant(&session, message));
        steps.push(pause(rng));
        if rng.one_in(3) {
            let (path, whole) = output_of(task.work_dir, codon);
            steps.push(Step::Write(path, whole[..rng.up_to(whole.len())].to_vec()));
        }
    }
    let (path, whole) = output_of(task.work_dir, codon);
    steps.push(Step::Write(path, whole));
    steps.extend([result(&session, false), Step::Exit(0)]);
    if mischief {
        spoil(&mut steps, task, &session, rng);
    }
    steps
}

fn spoil(steps: &mut Vec<Step>, task: &Task<'_>, session: &str, rng: &mut Rng) {
    if let Some(other) = task.others.first()
        && rng.one_in(2)
    {
        // Only a failure restores the file, and all that follow here are failures.
        let at = rng.within(2..steps.len() as u64 - 1);
        steps.insert(at as usize, Step::Write(other.clone(), b"ruined".to_vec()));
        steps.truncate(at as usize + 1);
        return steps.push(Step::Exit(1));
    }
    match rng.up_to(7) {
        0 => *steps = vec![pause(rng), Step::Exit(0)],
        1 => *steps = vec![Step::Hang],
        2 => replace_end(steps, [Step::Fall(11)]),
        3 => replace_end(steps, [result(session, true), Step::Exit(1)]),
        4 => replace_end(steps, [Step::Exit(0)]),
        5 => replace_end(steps, [Step::Hang]),
        6 => steps.insert(
            1,
            Step::Print(b"\xff\xfe no JSON \0 at all\n{\"type\":7}\n[1e999]\n".to_vec()),
        ),
        _ => steps.insert(1, Step::Print(vec![b'x'; 3_000])),
    }
}

/// The result and the exit give way to something else.
fn replace_end(steps: &mut Vec<Step>, end: impl IntoIterator<Item = Step>) {
    steps.truncate(steps.len() - 2);
    steps.extend(end);
}

fn command(task: &Task<'_>, mischief: bool, rng: &mut Rng) -> Vec<Step> {
    let line = task.args.last().map(|line| line.to_string_lossy().into_owned());
    let path = task.work_dir.join("from-a-command.txt");
    let content = line.unwrap_or_default().into_bytes();
    let mut steps = vec![
        Step::Print(b"working\n".to_vec()),
        pause(rng),
        Step::Write(path, content),
        Step::Exit(0),
    ];
    if mischief {
        steps.pop();
        steps.push(rng.pick(&[Step::Exit(3), Step::Fall(9), Step::Hang]).clone());
    }
    steps
}

fn pause(rng: &mut Rng) -> Step {
    Step::Pause(Duration::from_millis(rng.within(0..400)))
}

fn init(session: &str) -> Step {
    line(format!(
        r#"{{"type":"system","subtype":"init","session_id":"{session}","model":"sim","cwd":"/","tools":[]}}"#
    ))
}

fn assistant(session: &str, number: u64) -> Step {
    line(format!(
        r#"{{"type":"assistant","session_id":"{session}","parent_tool_use_id":null,"message":{{"id":"{session}-{number}","role":"assistant","model":"sim","content":[{{"type":"text","text":"part {number}"}}],"usage":{{"input_tokens":10,"output_tokens":1}}}}}}"#
    ))
}

fn result(session: &str, is_error: bool) -> Step {
    line(format!(
        r#"{{"type":"result","subtype":"success","is_error":{is_error},"session_id":"{session}","result":"done","num_turns":1,"total_cost_usd":0.25,"usage":{{"input_tokens":10,"output_tokens":5}},"model_usage_since_last_result":{{"sim":{{"inputTokens":10,"outputTokens":5,"costUSD":0.25}}}}}}"#
    ))
}

fn line(mut text: String) -> Step {
    text.push('\n');
    Step::Print(text.into_bytes())
}
