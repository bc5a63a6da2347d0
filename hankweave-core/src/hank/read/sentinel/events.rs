//! The events that a sentinel can name, and where in their data it can look (HANK-53).

/// An event with the paths into its `data`. A path that ends in `.**` leads to a value of any form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventData {
    pub(super) name: &'static str,
    paths: &'static [&'static str],
}

impl EventData {
    /// Whether the data of this event can have something at `path`.
    pub(super) fn can_have(&self, path: &str) -> bool {
        self.paths.iter().any(|known| match known.strip_suffix(".**") {
            Some(free) => is_on_the_way(free, path) || is_on_the_way(path, free),
            None => is_on_the_way(known, path),
        })
    }

    /// The beginnings of all paths, for advice.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.paths
            .iter()
            .map(|path| path.split_once('.').map_or(*path, |(field, _)| field))
    }

    /// Why no sentinel ever sees this event; `None` when they do.
    pub(super) fn unseen(&self) -> Option<&'static str> {
        match self.name {
            "server.ready" | "pong" | "history.batch" | "incomplete.codon" => {
                Some("goes to one client alone; no sentinel sees it")
            }
            name if name.starts_with("sentinel.") => Some("comes from sentinels and is never given to them"),
            _ => None,
        }
    }
}

/// Whether `path` is `whole` or leads to something around it.
fn is_on_the_way(whole: &str, path: &str) -> bool {
    whole
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn event(name: &str) -> Option<&'static EventData> {
    EVENTS.iter().find(|event| event.name == name)
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|event| event.name)
}

const fn of(name: &'static str, paths: &'static [&'static str]) -> EventData {
    EventData { name, paths }
}

const EVENTS: &[EventData] = &[
    of(
        "codon.started",
        &[
            "codonId",
            "codonName",
            "codonDescription",
            "sessionId",
            "previousSessionId",
            "startTime",
            "promptMetadata.name",
            "promptMetadata.description",
            "promptMetadata.tags.**",
            "promptMetadata.version",
            "promptMetadata.author",
        ],
    ),
    of(
        "codon.completed",
        &[
            "codonId",
            "success",
            "cost",
            "duration",
            "exitStatus.type",
            "exitStatus.code",
            "exitStatus.signal",
            "failureReason.type",
            "failureReason.retriable",
            "failureReason.message",
            "failureReason.retryAfterMs",
            "failureReason.retryAt",
            "failureReason.interrupted",
            "failureReason.sentinelRefs.**",
            "failureIgnored",
            "costIsLowerBound",
            "budgetExceeded.currency",
            "budgetExceeded.limit",
            "budgetExceeded.used",
        ],
    ),
    of(
        "codon.extended",
        &[
            "codonId",
            "codonName",
            "extensionNumber",
            "exhaustWithPrompt",
            "cumulativeTokens.**",
            "cumulativeCost",
        ],
    ),
    of(
        "state.snapshot",
        &[
            "currentCodon.**",
            "completedCodons.**",
            "fileTree.**",
            "totalCost",
            "totalSpend",
            "totalTime",
            "recentFileAccess.**",
            "isRollingBack",
        ],
    ),
    of(
        "state.transition",
        &[
            "transitionType",
            "runId",
            "codonId",
            "transition.type",
            "transition.data.**",
            "resultingState.currentRunId",
            "resultingState.runCount",
            "resultingState.totalCost",
            "resultingState.totalSpend",
            "resultingState.currentRunCost",
        ],
    ),
    of("server.idle", &["reason", "message"]),
    of(
        "token.usage",
        &[
            "codonId",
            "inputTokens",
            "outputTokens",
            "cacheCreationTokens",
            "cacheReadTokens",
            "totalCost",
            "costIsLowerBound",
            "modelId",
            "modelUsage.**",
        ],
    ),
    of("info", &["message"]),
    of(
        "error",
        &["message", "fatal", "codon", "severity", "context", "code"],
    ),
    of("checkpoint.list", &["runId", "currentBranch", "checkpoints.**"]),
    of(
        "rollback.started",
        &[
            "fromRun",
            "fromCodon",
            "toCodon",
            "toCheckpoint",
            "checkpointType",
            "codonsToProcess.**",
        ],
    ),
    of("rollback.progress", &["currentStep", "totalSteps", "message"]),
    of(
        "rollback.codonCheckpoint",
        &["codonId", "codonName", "checkpoint", "checkpointType", "message"],
    ),
    of(
        "rollback.rigCleanup",
        &[
            "codonId",
            "codonName",
            "directories.**",
            "status",
            "successfulCleanups.**",
            "failedCleanups.**",
            "error",
        ],
    ),
    of(
        "rollback.archiveRestore",
        &["codonId", "restoredPaths.**", "failedPaths.**", "status"],
    ),
    of(
        "rollback.completed",
        &[
            "fromRun",
            "toRun",
            "checkpoint",
            "codonId",
            "codonName",
            "checkpointType",
            "autoRestart",
        ],
    ),
    of(
        "loop.iteration.completed",
        &[
            "loopId",
            "iteration",
            "durationMs",
            "costUsd",
            "tokensUsed",
            "isFinal",
            "terminationReason",
        ],
    ),
    of("archive.completed", &["codonId", "archivedPaths.**"]),
    of(
        "archive.partial",
        &["codonId", "archivedPaths.**", "failedPaths.**"],
    ),
    of(
        "budget.summary",
        &["ceiling.**", "allocation.**", "rows.**", "totals.**"],
    ),
    of(
        "assistant.action",
        &[
            "codonId",
            "action",
            "content",
            "toolName",
            "toolInput.**",
            "toolUseId",
        ],
    ),
    of(
        "tool.result",
        &[
            "codonId",
            "toolUseId",
            "toolName",
            "result",
            "truncated",
            "originalLength",
            "executionTimeMs",
            "isError",
        ],
    ),
    // `content` is legal even where events carry a fingerprint instead (HANK-53).
    of(
        "file.updated",
        &["path", "filename", "content", "fingerprint", "size", "action"],
    ),
    of("filetree.updated", &["tree.**"]),
    of(
        "rig.setup.completed",
        &[
            "codonId",
            "rigType",
            "commandCount",
            "durationMs",
            "createdCheckpoint",
        ],
    ),
    of(
        "rig.setup.failed",
        &["codonId", "failureType", "exitCode", "commandIndex", "ignored"],
    ),
    of("rig.output", &["codonId", "stream", "line", "commandIndex"]),
    of("output.truncated", &["codonId", "length", "sha256"]),
    of("output.unparsed", &["codonId", "start"]),
    of(
        "sentinel.loaded",
        &[
            "sentinelId",
            "codonId",
            "model",
            "triggerType",
            "executionStrategy",
            "conversational",
            "source",
            "sourcePath",
        ],
    ),
    of(
        "sentinel.triggered",
        &[
            "sentinelId",
            "codonId",
            "triggerNumber",
            "strategy",
            "eventCount",
            "queueSize",
        ],
    ),
    of(
        "sentinel.output",
        &[
            "sentinelId",
            "codonId",
            "triggerNumber",
            "outputType",
            "content.**",
            "cost",
            "tokens.input",
            "tokens.output",
            "eventCount",
        ],
    ),
    of(
        "sentinel.error",
        &[
            "sentinelId",
            "codonId",
            "errorType",
            "message",
            "retriable",
            "consecutiveFailureCount",
        ],
    ),
    of(
        "sentinel.unloaded",
        &[
            "sentinelId",
            "codonId",
            "reason",
            "errorType",
            "finalCost",
            "llmCallCount",
        ],
    ),
    of(
        "server.ready",
        &[
            "serverVersion",
            "executionPath",
            "agentRootPath",
            "dataPath",
            "port",
            "proxyPort",
            "outputDirectory",
        ],
    ),
    of("pong", &["message", "timestamp", "clientId"]),
    of("history.batch", &["events.**", "hasMore"]),
    of("incomplete.codon", &["codonId", "codonName", "message"]),
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The events that are documented and written by sentinels, which nothing does yet.
    const OF_SENTINELS: [&str; 5] = [
        "sentinel.loaded",
        "sentinel.triggered",
        "sentinel.output",
        "sentinel.error",
        "sentinel.unloaded",
    ];

    /// Documented fields that we never write; a hank may name them all the same.
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
        // An acknowledgement answers one client's command; no hank can be about it.
        assert!(written.remove("command.ack").is_some());
        let known: BTreeSet<&str> = names().filter(|name| !OF_SENTINELS.contains(name)).collect();
        assert_eq!(known, written.keys().map(String::as_str).collect());
        for (name, fields) in &written {
            let known: BTreeSet<&str> = event(name).unwrap().fields().collect();
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
        let completed = event("codon.completed").unwrap();
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
