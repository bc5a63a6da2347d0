//! The keys of the objects inside a sentinel (HANK-51).

use crate::hank::keys::KeyTable;

pub(super) static OUTPUT_PATHS: KeyTable = KeyTable::new("`outputPaths`", "logFile lastValueFile");
pub(super) static REPORT: KeyTable =
    KeyTable::new("`reportToWebsocket`", "lifecycle errors outputs triggers");
pub(super) static EVENT: KeyTable = KeyTable::new("an event trigger", "type on conditions");
pub(super) static SEQUENCE: KeyTable =
    KeyTable::new("a sequence trigger", "type interestFilter pattern options");
pub(super) static INTEREST: KeyTable = KeyTable::new("`interestFilter`", "on");
pub(super) static PATTERN: KeyTable = KeyTable::new("a step of a pattern", "type conditions");
pub(super) static SEQUENCE_OPTIONS: KeyTable = KeyTable::new("`options`", "consecutive");
pub(super) static CONDITION: KeyTable = KeyTable::new("a condition", "operator path value");
pub(super) static IMMEDIATE: KeyTable = KeyTable::new("an immediate execution", "strategy");
pub(super) static TIMED: KeyTable = KeyTable::new("this execution", "strategy milliseconds");
pub(super) static COUNTED: KeyTable = KeyTable::new("a count execution", "strategy threshold");
pub(super) static CONVERSATIONAL: KeyTable =
    KeyTable::new("`conversational`", "trimmingStrategy continueOnError");
pub(super) static MAX_TURNS: KeyTable = KeyTable::new("`trimmingStrategy`", "type maxTurns");
pub(super) static MAX_TOKENS: KeyTable = KeyTable::new("`trimmingStrategy`", "type maxTokens");
pub(super) static ERROR_HANDLING: KeyTable = KeyTable::new(
    "`errorHandling`",
    "maxConsecutiveFailures unloadOnFatalError onError",
);
pub(super) static ENDPOINT: KeyTable = KeyTable::new("`endpoint`", "api baseUrl keyVariable");
pub(super) static LLM_PARAMS: KeyTable =
    KeyTable::new("`llmParams`", "temperature maxOutputTokens maxRetries");
pub(super) static STRUCTURED_OUTPUT: KeyTable = KeyTable::new(
    "`structuredOutput`",
    "output schemaStr schemaFile enumValues schemaName schemaDescription",
);
pub(super) static OUTPUT: KeyTable = KeyTable::new("`output`", "format file lastValueFile");
