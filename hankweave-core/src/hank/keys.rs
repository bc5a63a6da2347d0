//! The keys of every object of a hank, and what people write instead of them.

/// The keys of one kind of object.
#[derive(Debug)]
pub(super) struct KeyTable {
    /// Name of the object for people: "a codon", "the hank".
    pub(super) kind: &'static str,
    /// All keys, in the order of the documentation, with spaces between them.
    pub(super) valid: &'static str,
    /// Correct keys with their older names and common mistakes. A mistake that ends in `*` is a prefix.
    pub(super) known_mistakes: &'static [(&'static str, &'static str)],
}

impl KeyTable {
    pub(super) const fn new(kind: &'static str, valid: &'static str) -> Self {
        Self {
            kind,
            valid,
            known_mistakes: &[],
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.valid.split(' ')
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.names().any(|name| name == key)
    }

    /// Returns advice on the key `unknown`: its replacement, a near name, or the list of all keys.
    pub(super) fn advice(&self, unknown: &str) -> String {
        let is_mistake = |mistake: &str| match mistake.strip_suffix('*') {
            Some(prefix) => unknown.starts_with(prefix),
            None => unknown == mistake,
        };
        let mut known_mistakes = self.known_mistakes.iter();
        if let Some((replacement, _)) = known_mistakes.find(|(_, all)| all.split(' ').any(is_mistake)) {
            return format!("write `{replacement}`");
        }
        if std::ptr::eq(self, &ROOT) && OVERRIDES.contains(unknown) {
            let also = match CODON.contains(unknown) {
                true => ", or write it inside a codon of the list `hank`",
                false => "",
            };
            return format!("write `overrides.{unknown}` for the whole hank{also}");
        }
        if std::ptr::eq(self, &ROOT) && CODON.contains(unknown) {
            return format!("`{unknown}` belongs inside a codon of the list `hank`");
        }
        let names: Vec<&str> = self.names().collect();
        did_you_mean(unknown, &names).unwrap_or_else(|| format!("valid keys are {}", names.join(", ")))
    }
}

/// Returns a hint with the entry of `names` that `word` is most probably a misspelling of.
#[must_use]
pub fn did_you_mean(word: &str, names: &[&str]) -> Option<String> {
    let nearest = nearest(word, names, 1).pop()?;
    Some(format!("did you mean `{nearest}`?"))
}

/// The entries of `names` that `word` may be a misspelling of, at most `most`, the nearest one first.
pub(super) fn nearest<'n>(word: &str, names: &[&'n str], most: usize) -> Vec<&'n str> {
    // Comparing takes time proportional to the product of the lengths, and no key is longer than this.
    if word.len() > 64 {
        return Vec::new();
    }
    let lower = word.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&lower, &name.to_lowercase());
    let near = names.iter().map(|name| (likeness(name), *name));
    let mut near: Vec<_> = near.filter(|(likeness, _)| *likeness > 0.85).collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(most).map(|(_, name)| name).collect()
}

/// The root, with the older names of its keys (HANK-2).
pub(super) static ROOT: KeyTable = KeyTable {
    kind: "the hank",
    valid: "$schema meta overrides requirements globalSystemPromptFile globalSystemPromptText hank",
    known_mistakes: &[
        ("hank", "strand phases codons"),
        ("overrides", "recommendations"),
        ("globalSystemPromptText", "globalSystemPrompt"),
        ("meta.name", "name"),
        ("meta.version", "version"),
    ],
};
pub(super) static META: KeyTable = KeyTable::new("`meta`", "name version description author");
pub(super) static OVERRIDES: KeyTable = KeyTable::new(
    "`overrides`",
    "agent model dataHashTimeLimit checkpointedFileLimitMb sentinel shimIdleTimeout settleSeconds maxBackgroundSeconds onBackgroundCut fallback requires effort permissions isolate mcpServers args budget",
);
pub(super) static SENTINEL_DEFAULTS: KeyTable = KeyTable::new(
    "`sentinel`",
    "enablePersistence healthCheckGracePeriodMs waitForAllHealthChecks",
);
pub(super) static REQUIREMENTS: KeyTable = KeyTable::new("`requirements`", "env tools");

/// A codon, with known mistakes and the older names of its keys (HANK-2).
pub(super) static CODON: KeyTable = KeyTable {
    kind: "a codon",
    valid: "type id name description agent model continuationMode promptFile promptText \
            appendSystemPromptFile appendSystemPromptText rigSetup checkpointedFiles env outputFiles \
            sentinels archiveOnSuccess onFailure retryConfig fallback exhaustWithPrompt maxExtensions check requires result \
            autoCompact shimIdleTimeout settleSeconds maxBackgroundSeconds onBackgroundCut effort permissions isolate mcpServers args budget approval",
    known_mistakes: &[
        ("requires", "require requireChanges mustChange*"),
        (
            "result",
            "results answer schema jsonSchema outputSchema structured*",
        ),
        ("fallback", "fallback* failover* onLimit"),
        ("effort", "reasoning* thinking* modelReasoningEffort"),
        (
            "permissions",
            "permission* sandbox* allowedTools disallowedTools tools",
        ),
        ("isolate", "isolated isolation"),
        ("mcpServers", "mcp mcp_servers mcpConfig"),
        ("args", "arguments extraArgs cliArgs"),
        (
            "maxBackgroundSeconds",
            "background* waitForBackground awaitBackground",
        ),
        ("approval", "approve* askFirst requiresApproval gate"),
        ("appendSystemPromptFile", "systemPromptFile*"),
        ("appendSystemPromptText", "systemPrompt*"),
        ("promptText", "prompt"),
        ("promptFile", "prompts promptFiles"),
        ("checkpointedFiles", "trackedFiles tracking watchedFiles"),
        ("rigSetup", "rig setup workspaceSetup"),
        ("archiveOnSuccess", "archive* teardown cleanup"),
        ("env", "environment envVars"),
        ("outputFiles", "output outputs"),
        ("continuationMode", "continuation mode fork forks forkOf"),
        ("budget.maxDollars", "costLimit maxCost maxBudget maxDollars"),
        ("budget.maxTimeSeconds", "maxDuration* timeLimit"),
        ("budget.maxOutputTokens", "maxTokens tokenLimit"),
    ],
};
pub(super) static LOOP: KeyTable = KeyTable {
    kind: "a loop",
    valid: "type id name description terminateOn codons budget stalledAfter archiveOnSuccess",
    known_mistakes: &[
        ("codons", "strand hank"),
        ("stalledAfter", "stalled* stuckAfter"),
        ("terminateOn", "iterations limit"),
    ],
};
pub(super) static FALLBACK: KeyTable = KeyTable::new("a fallback", "agent model env");
pub(super) static AGENT_COMMAND: KeyTable = KeyTable::new("an agent command", "command stream");
pub(super) static AGENT_ACP: KeyTable = KeyTable::new("an agent that speaks ACP", "acp permissions auth");
pub(super) static ACCESS: KeyTable = KeyTable {
    kind: "`permissions`",
    valid: "mode allow deny",
    known_mistakes: &[
        ("allow", "allowed allowedTools tools"),
        ("deny", "denied disallowedTools"),
    ],
};
pub(super) static MCP_SERVER: KeyTable = KeyTable::new("an MCP server", "command args env");
pub(super) static PERMISSIONS: KeyTable = KeyTable::new("permissions", "read edit execute");
pub(super) static AGENT_SCRIPT: KeyTable = KeyTable::new("an agent script", "script");
pub(super) static ITERATION_LIMIT: KeyTable = KeyTable::new("`terminateOn`", "type limit");
pub(super) static CONTEXT_EXCEEDED: KeyTable = KeyTable::new("`terminateOn`", "type");
pub(super) static UNTIL_CHECK_PASSES: KeyTable = KeyTable::new("`terminateOn`", "type run limit");
pub(super) static RESULT: KeyTable = KeyTable::new("`result`", "schema");
pub(super) static CONTINUATION: KeyTable = KeyTable {
    kind: "`continuationMode`",
    valid: "fork",
    known_mistakes: &[("fork", "from of codon continue resume branch")],
};
pub(super) static CHECK: KeyTable = KeyTable::new("`check`", "run retries");
pub(super) static RETRY: KeyTable = KeyTable::new("`retryConfig`", "maxAttempts delayMs maxDelayMs");
pub(super) static COPY_ITEM: KeyTable = KeyTable::new("a copy item", "type copy replace allowFailure");
pub(super) static COPY: KeyTable = KeyTable {
    kind: "`copy`",
    valid: "from to",
    known_mistakes: &[("from", "source src"), ("to", "target destination dest")],
};
pub(super) static COMMAND_ITEM: KeyTable = KeyTable::new("a command item", "type command allowFailure");
pub(super) static BEFORE_COPY_ITEM: KeyTable = KeyTable::new("a command before copying", "type command");
pub(super) static COMMAND: KeyTable = KeyTable {
    kind: "`command`",
    valid: "run workingDirectory",
    known_mistakes: &[("run", "command cmd"), ("workingDirectory", "cwd dir*")],
};
pub(super) static OUTPUT: KeyTable = KeyTable::new("an output item", "copy beforeCopy");
pub(super) static CODON_BUDGET: KeyTable = KeyTable::new(
    "a codon's budget",
    "maxDollars maxTimeSeconds maxOutputTokens maxContextTokens onExceeded",
);
pub(super) static CONTAINER_BUDGET: KeyTable = KeyTable::new(
    "this budget",
    "maxDollars maxTimeSeconds allocation shares onExceeded",
);
pub(super) static SENTINEL_ENTRY: KeyTable = KeyTable {
    kind: "a sentinel entry",
    valid: "sentinelConfig settings",
    known_mistakes: &[("sentinelConfig", "config file")],
};
pub(super) static SENTINEL_SETTINGS: KeyTable = KeyTable::new(
    "`settings`",
    "failCodonIfNotLoaded outputPaths reportToWebsocket mayAsk",
);
pub(super) static SENTINEL: KeyTable = KeyTable::new(
    "a sentinel",
    "$schema id name description model endpoint command answer trigger execution timeoutSeconds maxDollars systemPromptFile systemPromptText userPromptFile \
     userPromptText conversational errorHandling llmParams structuredOutput joinString output \
     reportToWebsocket",
);

/// Keys of a script, with what people write instead of them.
pub(super) static SCRIPT: KeyTable = KeyTable {
    kind: "a script",
    valid: "sessionId turns noInit noResult result exitCode ignoreTerm",
    known_mistakes: &[("turns", "steps actions messages")],
};
pub(super) static SCRIPT_TURN: KeyTable = KeyTable {
    kind: "a turn",
    valid: "afterBackground delayMs thinking text tools usage raw hugeLine invalidUtf8 stderr spawnDetached holdStdout signal hang",
    known_mistakes: &[
        ("tools", "write append read bash"),
        ("text", "say message"),
        ("delayMs", "sleep* wait"),
        ("afterBackground", "await* waitFor* background"),
    ],
};
pub(super) static SCRIPT_TOOL: KeyTable = KeyTable {
    kind: "a tool call",
    valid: "write append read bash background",
    known_mistakes: &[("write", "edit"), ("bash", "run command shell exec")],
};
pub(super) static SCRIPT_WRITE: KeyTable = KeyTable {
    kind: "this tool",
    valid: "path content",
    known_mistakes: &[("path", "file*"), ("content", "text contents")],
};
pub(super) static SCRIPT_READ: KeyTable = KeyTable {
    kind: "`read`",
    valid: "path",
    known_mistakes: &[("path", "file*")],
};
pub(super) static SCRIPT_BASH: KeyTable = KeyTable {
    kind: "`bash`",
    valid: "command",
    known_mistakes: &[("command", "run cmd")],
};
pub(super) static SCRIPT_USAGE: KeyTable = KeyTable::new("`usage`", "input output cacheCreation cacheRead");
pub(super) static SCRIPT_RESULT: KeyTable = KeyTable::new("`result`", "message status contextExceeded");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_mistake_of_a_codon_names_a_valid_key() {
        for keys in [&ROOT, &CODON, &LOOP, &COPY, &COMMAND, &SENTINEL_ENTRY] {
            for (replacement, mistakes) in keys.known_mistakes {
                let key = replacement.split('.').next().unwrap();
                assert!(keys.contains(key), "{mistakes} -> {replacement}");
                for mistake in mistakes.split(' ') {
                    assert!(!keys.contains(mistake), "{mistake} is valid");
                }
            }
        }
    }

    #[test]
    fn advice_is_a_replacement_a_near_name_or_the_whole_list() {
        assert_eq!(CODON.advice("trackedFiles"), "write `checkpointedFiles`");
        assert_eq!(
            CODON.advice("systemPromptFiles"),
            "write `appendSystemPromptFile`"
        );
        assert_eq!(
            CODON.advice("maxDurationMinutes"),
            "write `budget.maxTimeSeconds`"
        );
        assert_eq!(CODON.advice("promptfile"), "did you mean `promptFile`?");
        assert_eq!(
            ROOT.advice("continuationMode"),
            "`continuationMode` belongs inside a codon of the list `hank`"
        );
        assert_eq!(
            META.advice("zzz"),
            "valid keys are name, version, description, author"
        );
        assert_eq!(did_you_mean(&"x".repeat(100_000), &["x"]), None);
    }
}
