//! Messages of the commits that are checkpoints, written and read (RUN-17).
//!
//! The first line is `<kind>: <text>`, for a codon `<kind>:<codon> [run:<run>] <name>`. After an empty line, lines such as
//! `Timestamp: <time>`, `Base: <sha>` and `Left out: <file>` follow.

use std::fmt::Write as _;

use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, LeftOutFile, LeftOutReason};

use super::store::{CheckpointRequest, KnownCheckpoint, Skipped};

/// The message of the commit that every repository begins with.
pub(super) fn root() -> String {
    "repository: created by hankweave\n".to_owned()
}

/// The message of the checkpoint before any codon.
pub(super) fn initial(at: Timestamp) -> String {
    format!("initial: the project before any codon\n\nStatus: initial\nTimestamp: {at}\n")
}

/// The message of the checkpoint that a restore of `target` makes first.
pub(super) fn safety(target: &CheckpointSha, at: Timestamp) -> String {
    format!("safety: the files before {target} was restored\n\nStatus: safety\nTimestamp: {at}\n")
}

/// The message of a codon's checkpoint.
pub(super) fn codon(request: &CheckpointRequest) -> String {
    of_codon(request, &request.kind.to_string())
}

/// The message of the checkpoint before a codon starts.
pub(super) fn start(request: &CheckpointRequest) -> String {
    of_codon(request, "start")
}

fn of_codon(request: &CheckpointRequest, kind: &str) -> String {
    let CheckpointRequest {
        run_id,
        codon_id,
        codon_name,
        at,
        ..
    } = request;
    let (run_id, codon_name) = (escape(run_id.as_str()), escape(codon_name));
    let mut message = format!("{kind}:{codon_id} [run:{run_id}] {codon_name}");
    message.truncate(message.trim_end().len());
    let _ = write!(
        message,
        "\n\nCodon: {codon_id}\nStatus: {kind}\nTimestamp: {at}\n"
    ); // A String takes any text.
    if let Some(duration) = request.duration {
        let _ = writeln!(message, "Duration: {}ms", duration.as_millis());
    }
    message
}

/// Returns the message for a checkpoint whose commit does not follow the one that it was made from.
pub(super) fn made_from(message: &str, base: &CheckpointSha) -> String {
    format!("{message}Base: {base}\n")
}

/// Maximum number of left-out files that are named.
pub(super) const MOST_NAMED: usize = 20;

/// Prefix of the lines about left-out files: reason, length (`-` where it is not the reason) and path follow; in a last
/// line `<number> more`.
const LEFT_OUT: &str = "Left out: ";

/// Returns the message for a checkpoint without the `skipped` files that would belong to it.
pub(super) fn without(mut message: String, skipped: &[Skipped]) -> String {
    let left_out: Vec<LeftOutFile> = skipped.iter().filter_map(Skipped::left_out).collect();
    for LeftOutFile { path, reason, size } in left_out.iter().take(MOST_NAMED) {
        let (reason, size) = (reason.as_str(), size.map(|size| size.to_string()));
        let size = size.as_deref().unwrap_or("-");
        let _ = writeln!(message, "{LEFT_OUT}{reason} {size} {path}"); // A String takes any text.
    }
    let more = left_out.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        let _ = writeln!(message, "{LEFT_OUT}{more} more");
    }
    message
}

/// Returns the event about a checkpoint that lacks the files `left_out`; `None` when it lacks none.
pub(crate) fn incomplete(
    codon_id: Option<&CodonId>,
    sha: &CheckpointSha,
    mut left_out: Vec<LeftOutFile>,
) -> Option<Event> {
    let count = left_out.len() as u64;
    left_out.truncate(MOST_NAMED);
    (count > 0).then(|| Event::CheckpointIncomplete {
        codon_id: codon_id.cloned(),
        sha: sha.clone(),
        left_out,
        count,
    })
}

/// Returns the left-out files that a message names, and the number of all left-out files.
pub(super) fn left_out(message: &str) -> (Vec<LeftOutFile>, usize) {
    let (mut named, mut more) = (Vec::new(), 0);
    for line in message.lines().filter_map(|line| line.strip_prefix(LEFT_OUT)) {
        match line
            .strip_suffix(" more")
            .and_then(|more| more.parse::<usize>().ok())
        {
            Some(others) => more = others,
            None => named.extend(left_out_file(line)),
        }
    }
    let count = named.len().saturating_add(more);
    (named, count)
}

fn left_out_file(line: &str) -> Option<LeftOutFile> {
    let (reason, rest) = line.split_once(' ')?;
    let (size, path) = rest.split_once(' ')?;
    let reasons = [
        LeftOutReason::TooLarge,
        LeftOutReason::Unreadable,
        LeftOutReason::TooDeep,
    ];
    Some(LeftOutFile {
        path: path.to_owned(),
        reason: reasons.into_iter().find(|known| known.as_str() == reason)?,
        size: size.parse().ok(),
    })
}

/// Returns the checkpoint that this one was made from, if that is not the parent of its commit.
pub(super) fn base(message: &str) -> Option<CheckpointSha> {
    let base = message
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Base: "))?;
    Some(CheckpointSha::new(base))
}

/// Whether the message is that of the checkpoint before any codon.
pub(super) fn is_initial(message: &str) -> bool {
    kind(message) == "initial"
}

/// The word that a message begins with.
pub(super) fn kind(message: &str) -> &str {
    message.split(':').next().unwrap_or(message)
}

/// The codon and the run that a codon's message names in its first line, `<kind>:<codon> [run:<run>] …`.
pub(super) fn codon_and_run(message: &str) -> Option<(&str, &str)> {
    let (start, rest) = message.lines().next()?.split_once(" [run:")?;
    let (_, codon_id) = start.split_once(':')?;
    let (run_id, _) = rest.split_once(']')?;
    Some((codon_id, run_id))
}

/// The branch that a codon's message names.
pub(super) fn branch(message: &str) -> Option<String> {
    codon_and_run(message).map(|(_, run_id)| format!("run-{run_id}"))
}

/// The time in a message, exact to the millisecond; git's own time only knows seconds.
pub(super) fn timestamp(message: &str) -> Option<Timestamp> {
    let text = message
        .lines()
        .find_map(|line| line.strip_prefix("Timestamp: "))?;
    Timestamp::parse(text).ok()
}

/// Text on one line: a codon's name must not be able to write lines of its own (G6).
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{2028}' | '\u{2029}' => escaped.extend(character.escape_unicode()),
            _ if character.is_control() => escaped.extend(character.escape_default()),
            _ => escaped.push(character),
        }
    }
    escaped
}

impl KnownCheckpoint {
    /// Returns the files that would belong to this checkpoint and are not in it: the first of them, ordered by path, and the number of all.
    #[must_use]
    pub fn left_out(&self) -> (Vec<LeftOutFile>, usize) {
        left_out(&self.message)
    }

    /// The first word of its message: `initial`, `start`, `rig-setup`, `completed`, `error`, `skipped` or `safety`.
    #[must_use]
    pub fn kind(&self) -> &str {
        kind(&self.message)
    }

    /// The codon that its message names.
    #[must_use]
    pub fn codon(&self) -> Option<&str> {
        codon_and_run(&self.message).map(|(codon, _)| codon)
    }

    /// The run that its message names.
    #[must_use]
    pub fn run(&self) -> Option<&str> {
        codon_and_run(&self.message).map(|(_, run)| run)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use hankweave_core::id::RunId;

    use super::super::SkipReason;
    use super::*;
    use hankweave_core::codon::CheckpointType;

    fn request(codon_name: &str, duration: Option<Duration>) -> CheckpointRequest {
        CheckpointRequest {
            kind: CheckpointType::RigSetup,
            run_id: RunId::new("1736000000000-abc").unwrap(),
            codon_id: CodonId::new("review#1").unwrap(),
            codon_name: codon_name.to_owned(),
            patterns: Vec::new(),
            left_out: BTreeSet::new(),
            parent: None,
            at: Timestamp::from_millis(1_736_000_000_123),
            duration,
        }
    }

    // covers: RUN-17
    #[test]
    fn a_message_has_the_documented_form() {
        insta::assert_snapshot!(codon(&request("Review it", Some(Duration::from_millis(1_500)))), @r"
        rig-setup:review#1 [run:1736000000000-abc] Review it

        Codon: review#1
        Status: rig-setup
        Timestamp: 2025-01-04T14:13:20.123Z
        Duration: 1500ms
        ");
    }

    // covers: G6, RUN-17
    #[test]
    fn a_codon_name_cannot_add_lines() {
        let message = codon(&request("x\nStatus: completed\r\u{2028}y", None));
        assert_eq!(
            message.lines().filter(|line| line.starts_with("Status:")).count(),
            1
        );
        assert!(
            message.starts_with(
                "rig-setup:review#1 [run:1736000000000-abc] x\\nStatus: completed\\r\\u{2028}y\n"
            )
        );
    }

    #[test]
    fn what_a_checkpoint_was_made_from_is_read_back() {
        let (message, sha) = (codon(&request("a", None)), CheckpointSha::new("a".repeat(40)));
        assert_eq!((base(&message), is_initial(&message)), (None, false));
        let initial = initial(Timestamp::from_millis(1_736_000_000_123));
        let initial = made_from(&initial, &sha);
        assert_eq!((base(&initial), is_initial(&initial)), (Some(sha), true));
    }

    // covers: G4
    #[test]
    fn what_is_left_out_is_read_back() {
        let skipped = |path: &str, reason, size| Skipped {
            path: crate::checkpoint::TreePath::new(path.as_bytes()).unwrap(),
            reason,
            size,
        };
        let message = codon(&request("a", None));
        assert_eq!(left_out(&message), (Vec::new(), 0));
        let mut all = vec![
            skipped(".git", SkipReason::Protected, None),
            skipped("a b\nStatus: x", SkipReason::TooLarge, Some(7)),
            skipped("c", SkipReason::Unreadable, None),
        ];
        let whole = without(message.clone(), &all);
        assert!(whole.ends_with("Left out: too-large 7 a b\\nStatus: x\nLeft out: unreadable - c\n"));
        let told: Vec<_> = all.iter().filter_map(Skipped::left_out).collect();
        assert_eq!(left_out(&whole), (told, 2));
        all.extend((0..30).map(|number| skipped(&format!("d{number}"), SkipReason::TooDeep, None)));
        let (named, count) = left_out(&without(message, &all));
        assert_eq!((named.len(), count), (MOST_NAMED, 32));
    }

    #[test]
    fn branch_and_time_are_read_back() {
        let message = codon(&request("a [run:other] b", None));
        assert_eq!(branch(&message).as_deref(), Some("run-1736000000000-abc"));
        assert_eq!(
            timestamp(&message),
            Some(Timestamp::from_millis(1_736_000_000_123))
        );
        assert_eq!((branch("initial: x"), timestamp("")), (None, None));
        assert_eq!(codon_and_run(&message), Some(("review#1", "1736000000000-abc")));
        assert_eq!((kind(&message), kind("initial: x")), ("rig-setup", "initial"));
    }
}
