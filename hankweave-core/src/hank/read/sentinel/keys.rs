//! The keys of the objects inside a sentinel (HANK-51).

use crate::hank::keys::Keys;

pub(super) static OUTPUT_PATHS: Keys = Keys::new("`outputPaths`", "logFile lastValueFile");
pub(super) static REPORT: Keys = Keys::new("`reportToWebsocket`", "lifecycle errors outputs triggers");
pub(super) static EVENT: Keys = Keys::new("an event trigger", "type on conditions");
pub(super) static SEQUENCE: Keys = Keys::new("a sequence trigger", "type interestFilter pattern options");
pub(super) static INTEREST: Keys = Keys::new("`interestFilter`", "on");
pub(super) static PATTERN: Keys = Keys::new("a step of a pattern", "type conditions");
pub(super) static SEQUENCE_OPTIONS: Keys = Keys::new("`options`", "consecutive");
pub(super) static CONDITION: Keys = Keys::new("a condition", "operator path value");
pub(super) static IMMEDIATE: Keys = Keys::new("an immediate execution", "strategy");
pub(super) static TIMED: Keys = Keys::new("this execution", "strategy milliseconds");
pub(super) static COUNTED: Keys = Keys::new("a count execution", "strategy threshold");
pub(super) static CONVERSATIONAL: Keys = Keys::new("`conversational`", "trimmingStrategy continueOnError");
pub(super) static MAX_TURNS: Keys = Keys::new("`trimmingStrategy`", "type maxTurns");
pub(super) static MAX_TOKENS: Keys = Keys::new("`trimmingStrategy`", "type maxTokens");
pub(super) static ERROR_HANDLING: Keys = Keys::new(
    "`errorHandling`",
    "maxConsecutiveFailures unloadOnFatalError onError",
);
pub(super) static ENDPOINT: Keys = Keys::new("`endpoint`", "api baseUrl keyVariable");
pub(super) static LLM_PARAMS: Keys = Keys::new("`llmParams`", "temperature maxOutputTokens maxRetries");
pub(super) static STRUCTURED_OUTPUT: Keys = Keys::new(
    "`structuredOutput`",
    "output schemaStr schemaFile enumValues schemaName schemaDescription",
);
pub(super) static OUTPUT: Keys = Keys::new("`output`", "format file lastValueFile");
