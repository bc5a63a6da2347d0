//! Reading from a remote: its histories of runs, the current record of one, and the fetch of that record.

use hankweave_runtime::world::World;
use serde::Serialize;

use crate::book::SEEN;
use crate::error::RemoteError;
use crate::execution::{ROOT, RemoteExecution};
use crate::git::Git;
use crate::limits::ArrivalLimits;
use crate::url::{check_url, shown};

/// History of runs on a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RemoteListing {
    /// Name of the history.
    pub execution: RemoteExecution,
    /// Commit of its record.
    pub record: String,
}

/// Lists all histories of runs on the remote `url`, by name.
///
/// # Errors
///
/// [`RemoteError`] when git cannot reach the remote.
pub async fn list(world: &World, url: &str) -> Result<Vec<RemoteListing>, RemoteError> {
    check_url(url)?;
    let git = Git::anywhere(world)?.without_questions().await?;
    let pattern = format!("{ROOT}*/record");
    let printed = references(&git, url, &pattern).await?;
    let listed = printed.lines().filter_map(|line| {
        let (record, reference) = line.split_once('\t')?;
        let (execution, record) = (RemoteExecution::of_reference(reference)?, record.to_owned());
        Some(RemoteListing { execution, record })
    });
    Ok(listed.collect())
}

/// Returns the history that fits `wanted`, or the only one.
pub(crate) async fn choose(
    world: &World,
    url: &str,
    wanted: Option<&str>,
) -> Result<RemoteExecution, RemoteError> {
    let listed = list(world, url).await?;
    let names: Vec<RemoteExecution> = listed.into_iter().map(|listed| listed.execution).collect();
    let known = |names: &[RemoteExecution]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let fits = |name: &&RemoteExecution| wanted.is_none_or(|wanted| name.is_meant_by(wanted));
    let mut fitting: Vec<RemoteExecution> = names.iter().filter(fits).cloned().collect();
    let exact = |name: &RemoteExecution| wanted.is_some_and(|wanted| name.to_string() == wanted);
    if fitting.iter().any(exact) {
        fitting.retain(exact);
    }
    let url = shown(url);
    match (&fitting[..], wanted) {
        ([one], _) => Ok(one.clone()),
        ([], None) => Err(RemoteError::Empty { url }),
        ([], Some(wanted)) => Err(RemoteError::NoSuchRun {
            url,
            wanted: wanted.to_owned(),
            known: known(&names),
        }),
        (several, _) => Err(RemoteError::Several {
            url,
            known: known(several),
        }),
    }
}

/// Returns the commit of the remote's record of an execution, if it has one.
pub(crate) async fn head(
    git: &Git,
    url: &str,
    execution: &RemoteExecution,
) -> Result<Option<String>, RemoteError> {
    let printed = references(git, url, &execution.record()).await?;
    Ok(printed.split_whitespace().next().map(str::to_owned))
}

/// Returns the lines of `git ls-remote` for the references that match `pattern`: commit, tab, reference.
async fn references(git: &Git, url: &str, pattern: &str) -> Result<String, RemoteError> {
    let listed = git
        .ask("reach the remote", &["ls-remote", "--", url, pattern])
        .await?;
    listed.without_secret(url).or_refused("reach the remote")
}

/// Fetches the record of an execution with all its checkpoints, within the limits, and returns its commit.
pub(crate) async fn fetch(
    git: &Git,
    url: &str,
    execution: &RemoteExecution,
    limits: &ArrivalLimits,
) -> Result<String, RemoteError> {
    const ACTION: &str = "fetch the run";
    let wanted = format!("+{}:{SEEN}", execution.record());
    let limited = git.with_limit(limits.bytes);
    let fetched = limited.fetch(ACTION, url, &[&wanted]).await?.without_secret(url);
    if !fetched.exit.is_success() {
        // Git does not report that it reached the limit of the system for the length of a file.
        if remove_unfinished(git).await >= limits.bytes {
            return Err(RemoteError::TooLarge {
                what: format!("git fetches more than {} bytes", limits.bytes),
            });
        }
        if is_damage(&fetched.said) {
            return Err(RemoteError::corrupt(fetched.said));
        }
    }
    fetched.or_refused(ACTION)?;
    let name = git
        .run("read what was fetched", &["rev-parse", "--verify", SEEN])
        .await?;
    Ok(name.trim().to_owned())
}

/// Removes unfinished packs that git has left, and returns the length of the longest, in bytes. Their names end in six random characters; the name of
/// a pack that a live run writes does not.
async fn remove_unfinished(git: &Git) -> u64 {
    let Some(packs) = git.packs() else { return 0 };
    let disk = git.world().disk.clone();
    let sweep = move || {
        let mut longest = 0;
        for name in disk.list_dir(&packs)? {
            let is_of_git = |name: &str| {
                name.strip_prefix("tmp_pack_")
                    .is_some_and(|random| random.len() == 6)
            };
            if name.to_str().is_some_and(is_of_git) {
                let path = packs.join(name);
                longest = longest.max(disk.metadata(&path)?.length);
                disk.remove_file(&path)?;
            }
        }
        Ok::<_, std::io::Error>(longest)
    };
    git.world().blocking.run(sweep).await.unwrap_or_else(|error| {
        // The next run that opens the checkpoints removes the rest.
        tracing::warn!(%error, "the beginning of what was fetched stays");
        0
    })
}

/// Whether git's error output is about damaged objects from the remote, rather than about the connection.
fn is_damage(said: &str) -> bool {
    [
        "bad object",
        "corrupt",
        "missing",
        "inflate",
        "did not send all necessary objects",
        "unable to read",
    ]
    .iter()
    .any(|word| said.contains(word))
}
