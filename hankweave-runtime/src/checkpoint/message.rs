//! Commit messages, written and read (RUN-17).

use std::fmt::Write as _;

use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::store::{CheckpointRequest, KnownCheckpoint};

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
    let CheckpointRequest {
        kind,
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
    /// The first word of its message: `initial`, `rig-setup`, `completed`, `error`, `skipped` or `safety`.
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
    use std::time::Duration;

    use hankweave_core::id::{CodonId, RunId};

    use super::*;
    use hankweave_core::codon::CheckpointType;

    fn request(codon_name: &str, duration: Option<Duration>) -> CheckpointRequest {
        CheckpointRequest {
            kind: CheckpointType::RigSetup,
            run_id: RunId::new("1736000000000-abc").unwrap(),
            codon_id: CodonId::new("review#1").unwrap(),
            codon_name: codon_name.to_owned(),
            patterns: Vec::new(),
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
