//! Notifications for a user who does not look: a run waits for a command, its record is nearly full, or it has ended (CLI-27).
//!
//! While the run works, [`Notifier::watch`] follows its events and sends what [`NewsFilter`] takes from them; after the end, the program itself sends the last
//! notification. Sending may fail and never affects the run.

mod ntfy;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::view::disk_words;
use hankweave_core::wire::{Event, IdleReason, ProgressKind};
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::World;
use hankweave_runtime::world::environment::find_program;
use hankweave_runtime::world::http::HttpRequest;
use hankweave_runtime::world::process::{CommandSpec, GroupSignal, Stdin, child_environment};
use hankweave_runtime::{AnswerTokens, RunOutcome, RunResult, StopCause};
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;

use crate::terminal::screen::{ring, with_zoned_times};

/// Time limit of one notification. hankweave waits for the last one before it exits.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Program that shows a message on the desktop.
const DESKTOP: &str = "notify-send";

/// News to send.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Notification {
    /// `waiting`, `disk`, `paused`, `stopped`, `failed` or `completed`.
    pub(crate) event: &'static str,
    /// One sentence.
    pub(crate) reason: String,
    /// The command that continues; empty when there is nothing to continue with.
    pub(crate) next: String,
    /// File with the report of a run that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<PathBuf>,
    /// Codon that waits for an approval.
    #[serde(skip)]
    pub(crate) asks: Option<CodonId>,
}

impl Notification {
    /// Returns the news that a run has ended. `None` if it was stopped without a reason: the user who stopped it knows, and a reason is written for others.
    pub(crate) fn of(outcome: &RunOutcome, reason: String, next: &str) -> Option<Self> {
        let (event, next) = match &outcome.result {
            RunResult::Completed | RunResult::NothingToDo => ("completed", ""),
            RunResult::Failed(_) | RunResult::OutputFailed(..) | RunResult::Unsaved(_) => ("failed", next),
            RunResult::Paused(_) => ("paused", next),
            // Every codon had ended, so nothing is left to continue. An earlier stop by a sentinel is a `RunResult::Paused`.
            RunResult::Stopped(StopCause::Sentinel) => ("paused", ""),
            RunResult::Stopped(_) if outcome.stop_reason.is_some() => ("stopped", next),
            RunResult::Stopped(_) => return None,
        };
        Some(Self {
            event,
            reason,
            next: next.to_owned(),
            report: None,
            asks: None,
        })
    }
}

/// Way in which news is sent.
#[derive(Debug)]
enum NotifyMethod {
    Bell,
    /// Path of [`DESKTOP`].
    Desktop(PathBuf),
    /// An address that gets the news as JSON.
    Webhook(String),
    /// Address of a topic of an ntfy server, which passes messages on to phones.
    Ntfy(String),
    /// A line for the shell.
    Command(String),
    /// None, for this reason.
    Missing(String),
}

impl NotifyMethod {
    /// `how` is `bell`, `desktop`, an address, `ntfy:` with the address of a topic, or a command.
    fn parse(how: &str, world: &World) -> Self {
        match (how, how.strip_prefix("ntfy:")) {
            ("bell", _) => Self::Bell,
            ("desktop", _) => {
                let path = world.environment.get("PATH").unwrap_or_default();
                find_program(&*world.disk, DESKTOP, path).map_or_else(
                    || Self::Missing(format!("there is no {DESKTOP} on PATH")),
                    Self::Desktop,
                )
            }
            (_, Some(topic)) if is_address(topic) => Self::Ntfy(topic.to_owned()),
            // Not a command: that would fail each time, and only the log would say so.
            (_, Some(topic)) => Self::Missing(format!(
                "`{how}` has no address; a topic of the public server is ntfy:https://ntfy.sh/{topic}"
            )),
            _ if is_address(how) => Self::Webhook(how.to_owned()),
            _ => Self::Command(how.to_owned()),
        }
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Commands that end a wait.
#[derive(Debug)]
pub(crate) struct NextCommands {
    /// Lets a run continue that waits for a command.
    pub(crate) next: String,
    /// Grants the approval for which a run waits.
    pub(crate) approve: String,
    /// Makes room in a record that takes nearly all of its room.
    pub(crate) cleanup: String,
}

/// Collects news from events. Between two calls of `news`, while a notification is sent, many events may come: of their waits only the newest counts, and
/// only if it has not ended.
#[derive(Debug, Default)]
struct NewsFilter {
    /// Codon of the newest question, which is published before the wait for its answer.
    asked: Option<CodonId>,
    /// News that the run waits.
    wait: Option<Notification>,
    /// News that the record is nearly full, which are published once for each twentieth of its room.
    disk: Option<Notification>,
}

impl NewsFilter {
    fn take_event(&mut self, event: &Event, commands: &NextCommands) {
        match event {
            Event::ApprovalRequested { codon_id, .. } => self.asked = Some(codon_id.clone()),
            Event::ServerIdle { reason, message } => {
                let message = message.clone();
                self.wait = match reason {
                    IdleReason::CodonCompleted => Some(waiting(message, &commands.next)),
                    IdleReason::ApprovalRequired => Some(Notification {
                        asks: self.asked.take(),
                        ..waiting(message, &commands.approve)
                    }),
                    _ => None,
                };
            }
            // A wait with a subject and an end is that for a usage limit, which ends without a command.
            Event::Progress {
                codon_id: Some(codon),
                kind: ProgressKind::Wait,
                subject: Some(limit),
                ends_at: Some(end),
                ..
            } => self.wait = Some(waiting(format!("{codon} waits for its {limit} until {end}"), "")),
            Event::DiskUsage {
                used_bytes,
                limit_bytes,
            } => {
                self.disk = Some(Notification {
                    event: "disk",
                    ..waiting(disk_words(*used_bytes, *limit_bytes), &commands.cleanup)
                });
            }
            Event::StateTransition { transition, .. } if ends_wait(transition) => self.wait = None,
            _ => {}
        }
    }

    /// Takes the collected news.
    fn news(&mut self) -> impl Iterator<Item = Notification> + use<> {
        self.disk.take().into_iter().chain(self.wait.take())
    }
}

fn waiting(reason: String, next: &str) -> Notification {
    Notification {
        event: "waiting",
        reason,
        next: next.to_owned(),
        report: None,
        asks: None,
    }
}

/// Whether a run that waited does so no longer: its question is answered, a codon begins or it has ended.
fn ends_wait(transition: &StateEvent) -> bool {
    matches!(
        transition,
        StateEvent::ApprovalSet { .. }
            | StateEvent::CodonStarted { .. }
            | StateEvent::RunCompleted { .. }
            | StateEvent::RunFailed { .. }
    )
}

/// Sends the news of one run.
#[derive(Debug)]
pub(crate) struct Notifier {
    method: NotifyMethod,
    /// Address of the run's page from outside, and the source of tokens for the buttons Approve and Deny.
    page: Option<(String, AnswerTokens)>,
    world: World,
    execution: PathBuf,
}

impl Notifier {
    /// Returns a notifier by the method that `--notify` names.
    pub(crate) fn new(how: &str, world: &World, execution: &Path) -> Self {
        Self {
            method: NotifyMethod::parse(how, world),
            page: None,
            world: world.clone(),
            execution: execution.to_owned(),
        }
    }

    /// Adds the page that notifications lead to.
    pub(crate) fn with_page(mut self, url: &str, answers: AnswerTokens) -> Self {
        self.page = Some((url.to_owned(), answers));
        self
    }

    /// Returns the reason why nothing will be sent, if there is one.
    pub(crate) fn obstacle(&self) -> Option<String> {
        match &self.method {
            NotifyMethod::Missing(why) => Some(format!("nobody is notified: {why}")),
            _ => None,
        }
    }

    /// Sends a notification each time that a run waits for a command, for an approval or for the end of a usage limit, or that its record is nearly full. A
    /// wait that ends while an earlier notification is sent is left out. Never returns, so that it can stand in a `select!` next to the run.
    pub(crate) async fn watch(&self, mut events: Subscription, commands: &NextCommands) -> Infallible {
        let mut filter = NewsFilter::default();
        while let Ok(Some(delivery)) = events.next().await {
            if let Delivery::Events(events) = delivery {
                events
                    .values()
                    .for_each(|entry| filter.take_event(&entry.event, commands));
            }
            for news in filter.news() {
                self.send(&news).await;
            }
        }
        std::future::pending().await
    }

    /// Sends news, and logs if that fails.
    pub(crate) async fn send(&self, news: &Notification) {
        let title = format!("hankweave: {}", news.event);
        match &self.method {
            NotifyMethod::Missing(_) => {}
            NotifyMethod::Bell => ring(),
            NotifyMethod::Desktop(program) => {
                let body = format!("{} {}", with_zoned_times(&news.reason), news.next);
                let args = ["--app-name=hankweave", "--", &title, body.trim_end()].map(OsString::from);
                self.run(program, args.into(), news).await;
            }
            NotifyMethod::Webhook(address) => {
                let headers = vec![("content-type".into(), "application/json".to_owned())];
                let body = serde_json::to_vec(news).unwrap_or_default();
                self.post(address, headers, body).await;
            }
            NotifyMethod::Ntfy(topic) => {
                let (headers, body) = ntfy::message(news, &title, &self.actions(news));
                self.post(topic, headers, body.into_bytes()).await;
            }
            NotifyMethod::Command(command) => {
                let args = ["-c", command].map(OsString::from);
                self.run(Path::new("/bin/sh"), args.into(), news).await;
            }
        }
    }

    /// Returns the buttons of a notification: a link to the page and, if the run waits for an approval, one for each answer, with tokens that are good for this
    /// question only.
    fn actions(&self, news: &Notification) -> Vec<ntfy::Action> {
        let Some((page, answers)) = &self.page else {
            return Vec::new();
        };
        let of_page = ntfy::Action::view("Open page", page);
        let Some(codon) = &news.asks else {
            return vec![of_page];
        };
        let paths = answers.issue(&self.world, codon);
        let post = |label, path: &str| ntfy::Action::post(label, &format!("{page}{path}"));
        vec![
            post("Approve", &paths.approve),
            post("Deny", &paths.deny),
            of_page,
        ]
    }

    /// Posts news. The address may hold a secret and must not be logged.
    async fn post(&self, address: &str, headers: Vec<(Cow<'static, str>, String)>, body: Vec<u8>) {
        let request = HttpRequest {
            url: address.to_owned(),
            headers,
            body,
            timeout: TIME_LIMIT,
        };
        match self.world.http.post(request).await {
            Ok(answer) if (200..300).contains(&answer.status) => {}
            Ok(answer) => tracing::warn!(
                status = answer.status,
                "the address that notifies has refused the news"
            ),
            Err(error) => tracing::warn!(%error, "the address that notifies did not get the news"),
        }
    }

    /// Runs a program that gets the news as JSON on its standard input, and in variables.
    async fn run(&self, program: &Path, args: Vec<OsString>, news: &Notification) {
        let mut env = child_environment(&self.world.environment, &BTreeMap::new());
        // Variables are shown to people, in local time; the JSON is read by programs and has UTC.
        let reason = with_zoned_times(&news.reason);
        for (name, value) in [
            ("HANKWEAVE_EVENT", news.event),
            ("HANKWEAVE_REASON", &reason),
            ("HANKWEAVE_NEXT", &news.next),
        ] {
            env.insert(name.into(), value.into());
        }
        if let Some(report) = &news.report {
            env.insert("HANKWEAVE_REPORT".into(), report.into());
        }
        let spec = CommandSpec {
            program: program.to_owned(),
            args,
            env,
            work_dir: self.execution.clone(),
            stdin: Stdin::Bytes(format!("{}\n", json!(news)).into_bytes()),
            marker: format!("notify/{}", self.execution.display()),
        };
        let mut process = match self.world.spawner.spawn(spec) {
            Ok(process) => process,
            Err(error) => return tracing::warn!(%error, "nobody could be notified"),
        };
        let (mut out_sink, mut error_sink) = (tokio::io::sink(), tokio::io::sink());
        let ended = async {
            // Read and dropped, so that a full pipe does not block the program. Programs that it has started hold the pipes as well, and are waited for, too.
            let _ = tokio::join!(
                tokio::io::copy(&mut process.stdout, &mut out_sink),
                tokio::io::copy(&mut process.stderr, &mut error_sink)
            );
            process.control.wait().await
        };
        let ended = timeout(TIME_LIMIT, ended).await;
        // Programs that the command has started would outlive the run.
        let _ = process.control.signal_group(GroupSignal::Kill);
        process.control.sweep().await;
        match ended {
            Ok(Ok(exit)) if exit.is_success() => {}
            Ok(Ok(exit)) => tracing::warn!(%exit, "the command that notifies has failed"),
            Ok(Err(error)) => tracing::warn!(%error, "the command that notifies has failed"),
            Err(_) => {
                let limit_s = TIME_LIMIT.as_secs();
                tracing::warn!(
                    limit_s,
                    "the command that notifies, or what it has started, took too long and was ended"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> NextCommands {
        NextCommands {
            next: "next".to_owned(),
            approve: "approve".to_owned(),
            cleanup: "cleanup".to_owned(),
        }
    }

    fn event(json: serde_json::Value) -> Event {
        serde_json::from_value(json).unwrap()
    }

    fn question(codon: &str) -> [Event; 2] {
        [
            event(json!({"type": "approval.requested", "data": {"codonId": codon, "question": "Go?"}})),
            event(
                json!({"type": "server.idle", "data": {"reason": "approval-required", "message": format!("{codon} waits")}}),
            ),
        ]
    }

    fn answered() -> Event {
        let figures = json!({"currentRunId": null, "runCount": 1, "totalCost": 0, "currentRunCost": 0});
        event(
            json!({"type": "state.transition", "data": {"transitionType": "ApprovalSet",
            "transition": {"type": "ApprovalSet", "data": {}}, "resultingState": figures}}),
        )
    }

    /// News of batches of events, each as its event, reason, next command and codon that asks.
    fn news_of(batches: &[&[Event]]) -> Vec<(&'static str, String, String, Option<String>)> {
        let (mut filter, commands) = (NewsFilter::default(), commands());
        let mut sent = Vec::new();
        for batch in batches {
            batch.iter().for_each(|event| filter.take_event(event, &commands));
            sent.extend(filter.news());
        }
        sent.into_iter()
            .map(|news| {
                (
                    news.event,
                    news.reason,
                    news.next,
                    news.asks.map(|id| id.to_string()),
                )
            })
            .collect()
    }

    // covers: CLI-27
    #[test]
    fn of_what_happened_meanwhile_each_kind_is_told_and_no_wait_that_has_ended() {
        let full = || event(json!({"type": "disk.usage", "data": {"usedBytes": 80, "limitBytes": 100}}));
        let [asked, waits] = question("b");
        let asks = |id: &str| {
            (
                "waiting",
                format!("{id} waits"),
                "approve".to_owned(),
                Some(id.to_owned()),
            )
        };
        let disk = (
            "disk",
            "the record in .hankweave takes 80 % of the room that it may (maxDiskGb)".to_owned(),
            "cleanup".to_owned(),
            None,
        );
        assert_eq!(
            news_of(&[&[full(), asked.clone(), waits.clone()]]),
            [disk.clone(), asks("b")]
        );
        assert_eq!(
            news_of(&[&[asked.clone(), full()], std::slice::from_ref(&waits)]),
            [disk, asks("b")],
            "the question keeps its buttons"
        );
        assert_eq!(news_of(&[&[asked.clone(), waits.clone(), answered()]]), []);
        let [next, next_waits] = question("c");
        assert_eq!(
            news_of(&[&[asked, waits, answered(), next, next_waits]]),
            [asks("c")]
        );
    }

    #[test]
    fn a_topic_without_its_address_is_no_command() {
        let world = World::real();
        let of = |how: &str| Notifier::new(how, &world, Path::new("/p")).obstacle();
        let why = of("ntfy:my-night").unwrap();
        assert!(why.ends_with("ntfy:https://ntfy.sh/my-night"), "{why}");
        assert_eq!(of("ntfy:https://ntfy.sh/my-night"), None);
        assert_eq!(of("cat > news"), None);
    }
}
