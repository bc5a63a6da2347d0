//! Output and questions of a terminal: drawing, keys, questions, reports of a run as it works, results, and the exit code. Nothing
//! here knows a command.

pub(crate) mod approval_prompt;
pub(crate) mod exit;
pub(crate) mod keyboard;
pub(crate) mod keys;
pub(crate) mod left_out;
pub(crate) mod output;
pub(crate) mod prompt_line;
pub(crate) mod question;
pub(crate) mod report;
pub(crate) mod screen;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod stopping;
pub(crate) mod suspend;
pub(crate) mod suspended_run;
pub(crate) mod wrap;
