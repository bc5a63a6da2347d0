//! The keys of every object of a hank, and what people write instead of them.

/// The keys of one kind of object.
#[derive(Debug)]
pub(super) struct Keys {
    /// What people call the object: "a codon", "the hank".
    pub(super) kind: &'static str,
    /// All keys, in the order of the documentation.
    pub(super) valid: &'static [&'static str],
    /// Keys of older versions and common mistakes, with what to write. A name that ends in `*` means a beginning.
    pub(super) known_mistakes: &'static [(&'static str, &'static str)],
}

impl Keys {
    pub(super) const fn new(kind: &'static str, valid: &'static [&'static str]) -> Self {
        Self {
            kind,
            valid,
            known_mistakes: &[],
        }
    }

    /// What to do about the key `unknown`: its replacement, a near name, or the list of all keys.
    pub(super) fn advice(&self, unknown: &str) -> String {
        if let Some((_, replacement)) = self
            .known_mistakes
            .iter()
            .find(|(mistake, _)| matches(mistake, unknown))
        {
            return format!("write `{replacement}`");
        }
        if std::ptr::eq(self, &ROOT) && CODON.valid.contains(&unknown) {
            return format!("`{unknown}` belongs inside a codon of the list `hank`");
        }
        if let Some(near) = nearest(unknown, self.valid) {
            return format!("did you mean `{near}`?");
        }
        format!("valid keys are {}", self.valid.join(", "))
    }
}

/// The entry of `names` that `word` is most probably a misspelling of.
pub(super) fn nearest<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    nearest_names(word, names, 1).pop()
}

/// The entries of `names` that `word` may be a misspelling of, at most `most`, the nearest one first.
pub(super) fn nearest_names<'n>(word: &str, names: &[&'n str], most: usize) -> Vec<&'n str> {
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

fn matches(mistake: &str, key: &str) -> bool {
    match mistake.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == mistake,
    }
}

/// The root, with the older names of its keys (HANK-2).
pub(super) static ROOT: Keys = Keys {
    kind: "the hank",
    valid: &[
        "$schema",
        "meta",
        "overrides",
        "requirements",
        "globalSystemPromptFile",
        "globalSystemPromptText",
        "hank",
    ],
    known_mistakes: &[
        ("strand", "hank"),
        ("phases", "hank"),
        ("codons", "hank"),
        ("recommendations", "overrides"),
        ("globalSystemPrompt", "globalSystemPromptText"),
        ("name", "meta.name"),
        ("version", "meta.version"),
    ],
};
pub(super) static META: Keys = Keys::new("`meta`", &["name", "version", "description", "author"]);
pub(super) static OVERRIDES: Keys = Keys::new(
    "`overrides`",
    &[
        "model",
        "dataHashTimeLimit",
        "sentinel",
        "shimIdleTimeout",
        "settleSeconds",
        "budget",
    ],
);
pub(super) static SENTINEL_DEFAULTS: Keys = Keys::new(
    "`sentinel`",
    &[
        "enablePersistence",
        "healthCheckGracePeriodMs",
        "waitForAllHealthChecks",
    ],
);
pub(super) static REQUIREMENTS: Keys = Keys::new("`requirements`", &["env", "tools"]);

/// A codon, with known mistakes and the older names of its keys (HANK-2).
pub(super) static CODON: Keys = Keys {
    kind: "a codon",
    valid: &[
        "type",
        "id",
        "name",
        "description",
        "agent",
        "model",
        "continuationMode",
        "promptFile",
        "promptText",
        "appendSystemPromptFile",
        "appendSystemPromptText",
        "rigSetup",
        "checkpointedFiles",
        "env",
        "outputFiles",
        "sentinels",
        "archiveOnSuccess",
        "onFailure",
        "retryConfig",
        "exhaustWithPrompt",
        "maxExtensions",
        "autoCompact",
        "shimIdleTimeout",
        "settleSeconds",
        "budget",
    ],
    known_mistakes: &[
        ("systemPromptFile*", "appendSystemPromptFile"),
        ("systemPrompt*", "appendSystemPromptText"),
        ("prompt", "promptText"),
        ("prompts", "promptFile"),
        ("promptFiles", "promptFile"),
        ("trackedFiles", "checkpointedFiles"),
        ("tracking", "checkpointedFiles"),
        ("watchedFiles", "checkpointedFiles"),
        ("rig", "rigSetup"),
        ("setup", "rigSetup"),
        ("workspaceSetup", "rigSetup"),
        ("archive*", "archiveOnSuccess"),
        ("teardown", "archiveOnSuccess"),
        ("cleanup", "archiveOnSuccess"),
        ("environment", "env"),
        ("envVars", "env"),
        ("output", "outputFiles"),
        ("outputs", "outputFiles"),
        ("continuation", "continuationMode"),
        ("mode", "continuationMode"),
        ("costLimit", "budget.maxDollars"),
        ("maxCost", "budget.maxDollars"),
        ("maxBudget", "budget.maxDollars"),
        ("maxDollars", "budget.maxDollars"),
        ("maxDuration*", "budget.maxTimeSeconds"),
        ("timeLimit", "budget.maxTimeSeconds"),
        ("maxTokens", "budget.maxOutputTokens"),
        ("tokenLimit", "budget.maxOutputTokens"),
    ],
};
pub(super) static LOOP: Keys = Keys {
    kind: "a loop",
    valid: &[
        "type",
        "id",
        "name",
        "description",
        "terminateOn",
        "codons",
        "budget",
        "archiveOnSuccess",
    ],
    known_mistakes: &[
        ("strand", "codons"),
        ("hank", "codons"),
        ("iterations", "terminateOn"),
        ("limit", "terminateOn"),
    ],
};
pub(super) static AGENT_COMMAND: Keys = Keys::new("an agent command", &["command", "stream"]);
pub(super) static AGENT_SCRIPT: Keys = Keys::new("an agent script", &["script"]);
pub(super) static ITERATION_LIMIT: Keys = Keys::new("`terminateOn`", &["type", "limit"]);
pub(super) static CONTEXT_EXCEEDED: Keys = Keys::new("`terminateOn`", &["type"]);
pub(super) static RETRY: Keys = Keys::new("`retryConfig`", &["maxAttempts", "delayMs", "maxDelayMs"]);
pub(super) static COPY_ITEM: Keys = Keys::new("a copy item", &["type", "copy", "replace", "allowFailure"]);
pub(super) static COPY: Keys = Keys {
    kind: "`copy`",
    valid: &["from", "to"],
    known_mistakes: &[
        ("source", "from"),
        ("src", "from"),
        ("target", "to"),
        ("destination", "to"),
        ("dest", "to"),
    ],
};
pub(super) static COMMAND_ITEM: Keys = Keys::new("a command item", &["type", "command", "allowFailure"]);
pub(super) static BEFORE_COPY_ITEM: Keys = Keys::new("a command before copying", &["type", "command"]);
pub(super) static COMMAND: Keys = Keys {
    kind: "`command`",
    valid: &["run", "workingDirectory"],
    known_mistakes: &[
        ("command", "run"),
        ("cmd", "run"),
        ("cwd", "workingDirectory"),
        ("dir*", "workingDirectory"),
    ],
};
pub(super) static OUTPUT: Keys = Keys::new("an output item", &["copy", "beforeCopy"]);
pub(super) static CODON_BUDGET: Keys = Keys::new(
    "a codon's budget",
    &[
        "maxDollars",
        "maxTimeSeconds",
        "maxOutputTokens",
        "maxContextTokens",
        "onExceeded",
    ],
);
pub(super) static CONTAINER_BUDGET: Keys = Keys::new(
    "this budget",
    &[
        "maxDollars",
        "maxTimeSeconds",
        "allocation",
        "shares",
        "onExceeded",
    ],
);
pub(super) static SENTINEL_ENTRY: Keys = Keys {
    kind: "a sentinel entry",
    valid: &["sentinelConfig", "settings"],
    known_mistakes: &[("config", "sentinelConfig"), ("file", "sentinelConfig")],
};
pub(super) static SENTINEL_SETTINGS: Keys = Keys::new(
    "`settings`",
    &["failCodonIfNotLoaded", "outputPaths", "reportToWebsocket"],
);
pub(super) static SENTINEL: Keys = Keys::new(
    "a sentinel",
    &[
        "id",
        "name",
        "description",
        "model",
        "trigger",
        "execution",
        "systemPromptFile",
        "systemPromptText",
        "userPromptFile",
        "userPromptText",
        "conversational",
        "errorHandling",
        "llmParams",
        "structuredOutput",
        "joinString",
        "output",
        "reportToWebsocket",
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_mistake_of_a_codon_names_a_valid_key() {
        for keys in [&ROOT, &CODON, &LOOP, &COPY, &COMMAND, &SENTINEL_ENTRY] {
            for (mistake, replacement) in keys.known_mistakes {
                let key = replacement.split('.').next().unwrap();
                assert!(keys.valid.contains(&key), "{mistake} -> {replacement}");
                assert!(!keys.valid.contains(mistake), "{mistake} is valid");
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
        assert_eq!(nearest(&"x".repeat(100_000), CODON.valid), None);
    }
}
