//! The events that the trigger of a sentinel can name, and the paths into their data for its conditions (HANK-53).

/// An event and the paths of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventData {
    pub(super) name: &'static str,
    /// Paths into `data` with spaces between them. Below a path that ends in `.**` there may be any values.
    paths: &'static str,
}

impl EventData {
    /// Whether the data of this event can have a value at `path`, which may also stop at an object or lead into a `.**`.
    pub(super) fn can_have(&self, path: &str) -> bool {
        self.paths
            .split(' ')
            .any(|known| match known.strip_suffix(".**") {
                Some(prefix) => is_same_or_above(path, prefix) || is_same_or_above(prefix, path),
                None => is_same_or_above(path, known),
            })
    }

    /// Returns the first name of each path, for advice.
    pub(super) fn fields(self) -> impl Iterator<Item = &'static str> {
        let paths = self.paths.split(' ');
        paths.map(|path| path.split_once('.').map_or(path, |(field, _)| field))
    }

    /// Returns the reason why no sentinel ever sees this event; `None` for an event that sentinels see.
    pub(super) fn unseen(&self) -> Option<&'static str> {
        match self.name {
            "server.ready" | "pong" | "history.batch" | "incomplete.codon" | "state.snapshot" => {
                Some("goes to one client alone; no sentinel sees it")
            }
            "codon.fallback" | "rig.setup.completed" | "rig.setup.failed" => {
                Some("comes before the sentinels of its codon begin to watch; none sees it")
            }
            "codon.prompted" => Some("is for clients and the journal; no sentinel sees it"),
            "loop.iteration.completed" | "archive.completed" | "archive.partial" => {
                Some("comes when the sentinels of the codon have ended; none sees it")
            }
            "approval.requested" | "budget.summary" | "run.described" | "run.ended" | "server.idle"
            | "disk.usage" => Some("comes while no codon runs; no sentinel sees it"),
            "rehearsal.step" => Some("comes in a rehearsal, which starts no sentinel"),
            name if name.starts_with("rollback.") => Some("comes while no codon runs; no sentinel sees it"),
            name if name.starts_with("sentinel.") => Some("comes from sentinels and is never given to them"),
            _ => None,
        }
    }
}

/// Whether `path` is `other`, or leads to a value that contains the one at `other`.
fn is_same_or_above(path: &str, other: &str) -> bool {
    let rest = other.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn find_event(name: &str) -> Option<EventData> {
    all().find(|event| event.name == name)
}

/// All events, in the order of the documentation.
pub(super) fn all() -> impl Iterator<Item = EventData> {
    let events = EVENTS.iter().filter_map(|event| event.split_once(": "));
    events.map(|(name, paths)| EventData { name, paths })
}

/// The name of each event and, after the colon, its paths.
const EVENTS: &[&str] = &[
    "codon.started: codonId codonName codonDescription sessionId previousSessionId startTime \
     promptMetadata.name promptMetadata.description promptMetadata.tags.** promptMetadata.version \
     promptMetadata.author agent model",
    "codon.completed: codonId success cost sentinelCost duration exitStatus.type exitStatus.code exitStatus.signal \
     failureReason.type failureReason.retriable failureReason.message failureReason.retryAfterMs \
     failureReason.retryAt failureReason.interrupted failureReason.sentinelRefs.** failureIgnored \
     costIsLowerBound budgetExceeded.currency budgetExceeded.limit budgetExceeded.used filesChanged result.**",
    "codon.fallback: codonId entry agent script model auth instead.agent instead.script instead.model \
     instead.cause instead.until sameSession",
    "codon.prompted: codonId prompt originalLength",
    "codon.extended: codonId codonName extensionNumber exhaustWithPrompt cumulativeTokens.** \
     cumulativeCost",
    "state.snapshot: currentCodon.** completedCodons.** fileTree.** totalCost totalSpend totalTime \
     recentFileAccess.** isRollingBack seq",
    "state.transition: transitionType runId codonId transition.type transition.data.** \
     resultingState.currentRunId resultingState.runCount resultingState.totalCost \
     resultingState.totalSpend resultingState.currentRunCost",
    "run.described: hank.** goal maxDollars maxTimeMs loops.** rehearsal",
    "rehearsal.step: codonId kind text",
    "disk.usage: usedBytes limitBytes",
    "run.continued: runId suspendedAt suspendedMs",
    "run.ended: runId outcome cause",
    "approval.requested: codonId question",
    "check.completed: codonId loopId run passed durationMs why says",
    "command.accepted: command clientId codonId reason by",
    "server.idle: reason message",
    "token.usage: codonId inputTokens outputTokens cacheCreationTokens cacheReadTokens totalCost \
     costIsLowerBound modelId message.inputTokens message.outputTokens message.cacheCreationTokens \
     message.cacheReadTokens contextTokens contextWindow modelUsage.**",
    "progress: codonId kind subject done total endsAt",
    "info: message",
    "error: message fatal codon severity context code",
    "checkpoint.list: runId currentBranch checkpoints.**",
    "checkpoint.incomplete: codonId sha leftOut.** count",
    "rollback.started: fromRun fromCodon toCodon toCheckpoint checkpointType codonsToProcess.**",
    "rollback.progress: currentStep totalSteps message",
    "rollback.codonCheckpoint: codonId codonName checkpoint checkpointType message",
    "rollback.rigCleanup: codonId codonName directories.** status successfulCleanups.** failedCleanups.** \
     error",
    "rollback.archiveRestore: codonId restoredPaths.** failedPaths.** status",
    "rollback.completed: fromRun toRun checkpoint codonId codonName checkpointType autoRestart",
    "loop.iteration.completed: loopId iteration durationMs costUsd tokensUsed isFinal terminationReason",
    "archive.completed: codonId archivedPaths.**",
    "archive.partial: codonId archivedPaths.** failedPaths.**",
    "budget.summary: ceiling.** allocation.** rows.** totals.**",
    "assistant.action: codonId action content toolName toolInput.** toolUseId parentToolUseId",
    "tool.result: codonId toolUseId toolName result truncated originalLength executionTimeMs isError \
     parentToolUseId",
    // `content` is legal even where events carry a fingerprint instead (HANK-53).
    "file.updated: path filename content fingerprint size action checkpointed",
    "filetree.updated: tree.**",
    "rig.setup.completed: codonId rigType commandCount durationMs createdCheckpoint",
    "rig.setup.failed: codonId failureType exitCode commandIndex ignored",
    "rig.output: codonId stream line commandIndex",
    "output.truncated: codonId length sha256",
    "output.unparsed: codonId start",
    "sentinel.loaded: sentinelId codonId model triggerType executionStrategy conversational source \
     sourcePath",
    "sentinel.triggered: sentinelId codonId triggerNumber strategy eventCount queueSize",
    "sentinel.output: sentinelId codonId triggerNumber outputType content.** cost costIsLowerBound \
     tokens.input tokens.output eventCount",
    "sentinel.error: sentinelId codonId errorType message retriable consecutiveFailureCount",
    "sentinel.unloaded: sentinelId codonId reason errorType finalCost costIsLowerBound dropped \
     llmCallCount",
    "server.ready: serverVersion executionPath agentRootPath dataPath port proxyPort outputDirectory",
    "pong: message timestamp clientId",
    "history.batch: events.** hasMore",
    "incomplete.codon: codonId codonName message",
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Documented fields that we never write; a hank may still name them.
    const UNWRITTEN: [(&str, &str); 4] = [
        ("state.snapshot", "recentFileAccess"),
        ("token.usage", "modelUsage"),
        ("server.ready", "proxyPort"),
        ("server.ready", "outputDirectory"),
    ];

    /// The fields of the data of each event that the types write.
    fn written() -> BTreeMap<String, BTreeSet<String>> {
        let schema = crate::schema::event();
        let mut events: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for form in ["JournalEntry", "Direct"] {
            let variants = schema["$defs"][form]["oneOf"].as_array().unwrap();
            for variant in variants {
                let name = variant["properties"]["type"]["const"].as_str().unwrap();
                let mut data = &variant["properties"]["data"];
                if let Some(reference) = data["$ref"].as_str() {
                    data = schema.pointer(&reference[1..]).unwrap();
                }
                let fields = data["properties"].as_object().unwrap().keys();
                events.entry(name.to_owned()).or_default().extend(fields.cloned());
            }
        }
        events
    }

    /// The table knows what the types write, and nothing else.
    // covers: HANK-53
    #[test]
    fn the_table_names_every_event_and_every_field_that_is_written() {
        let mut written = written();
        // Answers go to one client; no hank can be about them.
        for direct in [
            "command.ack",
            "view",
            "view.patch",
            "diff.files",
            "diff.lines",
            "report",
            "plan.codon",
        ] {
            assert!(written.remove(direct).is_some());
        }
        let known: BTreeSet<&str> = all().map(|event| event.name).collect();
        assert_eq!(known, written.keys().map(String::as_str).collect());
        for (name, fields) in &written {
            let known: BTreeSet<&str> = find_event(name).unwrap().fields().collect();
            for field in fields {
                // Only in answers to one client.
                let direct = name == "error" && ["hint", "commandId"].contains(&field.as_str());
                assert!(direct || known.contains(field.as_str()), "{name} has {field}");
            }
            for field in known {
                let unwritten = UNWRITTEN.contains(&(name, field));
                assert!(unwritten != fields.contains(field), "{name} and {field}");
            }
        }
    }

    #[test]
    fn a_path_leads_to_a_value_around_one_or_into_a_free_one() {
        let completed = find_event("codon.completed").unwrap();
        for possible in [
            "cost",
            "exitStatus",
            "exitStatus.code",
            "failureReason.sentinelRefs.0",
            "failureReason.sentinelRefs",
        ] {
            assert!(completed.can_have(possible), "{possible}");
        }
        for impossible in ["", "costs", "cost.usd", "exit", "exitStatus.codes", "exitStatus."] {
            assert!(!completed.can_have(impossible), "{impossible}");
        }
    }
}
