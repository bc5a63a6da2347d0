//! Results: an agent is asked for an answer in the form of its codon's schema, the answer is checked (HANK-90), and commands find the results of all codons
//! in a file (HANK-94).

use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::agent::{AskedResult, ExitOutcome, Verdict, object_in};
use hankweave_core::hank::{AgentChoice, Hank};
use hankweave_core::id::CodonId;
use hankweave_core::thread::ThreadTip;
use hankweave_core::wire::Event;
use serde_json::Value;

use super::context::CodonRun;
use super::run::AgentRun;
use crate::paths::ExecutionDir;
use crate::state_manager::StateManager;
use crate::structured::CheckedSchema;
use crate::world::World;
use crate::world::disk::replace;

/// Variable of commands with the path of the file of all results.
const VARIABLE: &str = "HANKWEAVE_RESULTS";

/// Name of the file of all results, in the folder for temporary files.
const FILE: &str = "results.json";

/// How often in a row the agent is asked again for a result that does not fit.
pub(super) const RETRIES: u64 = 1;

/// The requested result of the codon, if its agent takes the schema itself; `None` if the agent has to be asked in its prompt, or for no result.
pub(super) fn by_schema<'a>(codon: &CodonRun<'a>) -> Option<&'a AskedResult> {
    let asked = codon.config.result.as_ref()?;
    let driver = codon.run.drivers.get(codon.config.agent_name())?;
    driver.capabilities().result.takes(asked).then_some(asked)
}

/// Adds the request for the result to a prompt, for an agent that does not take the schema itself.
pub(super) fn with_request(codon: &CodonRun<'_>, prompt: String) -> String {
    match &codon.config.result {
        Some(asked) if by_schema(codon).is_none() => format!("{prompt}\n\n{}", asked.request()),
        _ => prompt,
    }
}

/// Keeps the answer as the codon's result when it fits the schema; otherwise returns why it does not.
pub(super) fn misfit(codon: &CodonRun<'_>, work: &AgentRun, exit: &ExitOutcome) -> Option<String> {
    let asked = codon.config.result.as_ref()?;
    let is_cut_off = matches!(
        exit.verdict,
        Verdict::Failure {
            context_exceeded: true,
            ..
        }
    );
    // A full context may have cut the answer off. It ends the loop of the codon, which has the results of its earlier iterations.
    if codon.completes_at_full_context() && (is_cut_off || work.context_was_full) {
        return None;
    }
    match fitting(asked, work) {
        Ok(result) => {
            codon.result.replace(Some(result));
            None
        }
        Err(why) => {
            codon.result.replace(None);
            let hint = if plays_no_script(codon) { EXAMPLE_HINT } else { "" };
            Some(format!("{}: {why}{hint}", AskedResult::UNMET))
        }
    }
}

/// Hint for a scripted agent whose example of the schema does not fit.
const EXAMPLE_HINT: &str = "; the scripted agent answers with an example of the schema: write one into it, as \"examples\": [{ … }], or give the codon a script";

fn plays_no_script(codon: &CodonRun<'_>) -> bool {
    let has_script = matches!(codon.config.agent, Some(AgentChoice::Script { .. }));
    codon.config.agent_name() == "scripted" && !has_script
}

/// Returns the result in the agent's answer, or why the answer holds none.
fn fitting(asked: &AskedResult, work: &AgentRun) -> Result<Value, String> {
    let in_text = || object_in(work.answer.as_deref()?).map(Value::from);
    let value = work.structured.clone().or_else(in_text);
    let value = value.ok_or("it holds no JSON object")?;
    let schema = CheckedSchema::of(&Value::from(asked.schema.clone()))?;
    if let Some(differences) = schema.differences(&value) {
        return Err(differences);
    }
    match value.to_string().len() {
        length if length > AskedResult::MAX_BYTES => Err(format!(
            "it has {length} bytes, and a result has at most {}; write into files what is longer",
            AskedResult::MAX_BYTES
        )),
        _ => Ok(value),
    }
}

/// Returns the message for an agent whose answer did not fit.
pub(super) fn prompt(why: &str) -> String {
    format!("Your work was checked, and {why}. Do not do the work again; give the answer so that it fits.")
}

fn has_results(hank: &Hank) -> bool {
    hank.codons().any(|codon| codon.result.is_some())
}

/// Writes the file of results for the commands of a codon, with the codon's own result, which is not recorded yet. Returns the variable with the path.
pub(super) async fn variable_of(codon: &CodonRun<'_>) -> Option<(String, String)> {
    let run = codon.run;
    if !has_results(run.loaded.hank.as_ref().unwrap_or(&run.hank)) {
        return None;
    }
    let own = codon.result.get().map(|result| (&codon.entry.codon_id, result));
    match write(&run.world, &run.dir, &run.manager, own).await {
        Ok(path) => Some(entry(&path)),
        Err(error) => {
            let id = &codon.entry.codon_id;
            let message = format!("{id}: the results could not be written for its commands: {error}");
            run.publish(Event::Info { message }).await;
            None
        }
    }
}

/// Writes the file of results for commands that follow the end of a codon, and returns the variable with the path.
pub(crate) async fn results_variable(
    world: &World,
    dir: &ExecutionDir,
    manager: &StateManager,
    hank: &Hank,
) -> Option<(String, String)> {
    if !has_results(hank) {
        return None;
    }
    let written = write(world, dir, manager, None).await;
    let written = written.inspect_err(|error| tracing::warn!(%error, "results could not be written"));
    Some(entry(&written.ok()?))
}

fn entry(path: &Path) -> (String, String) {
    (VARIABLE.to_owned(), path.to_string_lossy().into_owned())
}

async fn write(
    world: &World,
    dir: &ExecutionDir,
    manager: &StateManager,
    own: Option<(&CodonId, Value)>,
) -> io::Result<PathBuf> {
    let mut results = ThreadTip::of(&manager.snapshot()).results();
    if let Some((id, result)) = own {
        results.set(id, result);
    }
    let (folder, text) = (dir.temp_dir(), results.to_json().to_string());
    let disk = world.disk.clone();
    let work = move || {
        disk.make_private_dirs(&folder)?;
        let path = folder.join(FILE);
        replace(&*disk, &path, text.as_bytes())?;
        Ok(path)
    };
    world.blocking.run(work).await
}
