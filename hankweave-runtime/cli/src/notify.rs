//! Notifies users who do not watch a run that it waits for a command or has ended (CLI-27).

mod ntfy;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Time that a command may take: the program waits for it before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows a message on the desktop.
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
    /// Returns the notification of the end of a run. `None` for a run that was stopped without a reason: the user who stopped it knows, and a reason
    /// is for others.
    pub(crate) fn of(outcome: &RunOutcome, reason: String, next: &str) -> Option<Self> {
        let (event, next) = match &outcome.result {
            RunResult::Completed | RunResult::NothingToDo => ("completed", ""),
            RunResult::Failed(_) | RunResult::OutputFailed(..) | RunResult::Unsaved(_) => ("failed", next),
            RunResult::Paused(_) => ("paused", next),
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

/// Method of notification.
#[derive(Debug)]
enum NotifyMethod {
    Bell,
    /// The program and the arguments in front of the title and the text; `None` when it is not here.
    Desktop(Option<PathBuf>),
    /// An address that gets the news as JSON.
    Webhook(String),
    /// A topic of an ntfy server, which passes messages on to phones.
    Ntfy(String),
    /// A line for the shell.
    Command(String),
}

/// Commands for a waiting run.
#[derive(Debug)]
pub(crate) struct NextCommands {
    /// Command for a run that waits for a command.
    pub(crate) next: String,
    /// Command for a run that waits for an approval.
    pub(crate) approve: String,
    /// Command for a record that takes nearly all of its room.
    pub(crate) cleanup: String,
}

impl NextCommands {
    /// Returns the reason for a wait and the command that ends it; a limit ends by itself.
    fn waiting(&self, event: &Event) -> Option<(String, &str)> {
        match event {
            Event::ServerIdle { reason, message } => match reason {
                IdleReason::CodonCompleted => Some((message.clone(), &self.next)),
                IdleReason::ApprovalRequired => Some((message.clone(), &self.approve)),
                _ => None,
            },
            Event::DiskUsage {
                used_bytes,
                limit_bytes,
            } => Some((disk_words(*used_bytes, *limit_bytes), &self.cleanup)),
            Event::Progress {
                codon_id: Some(codon),
                kind: ProgressKind::Wait,
                subject: Some(limit),
                ends_at: Some(end),
                ..
            } => Some((format!("{codon} waits for its {limit} until {end}"), "")),
            _ => None,
        }
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn asked_codon(event: &Event) -> Option<CodonId> {
    match event {
        Event::ApprovalRequested { codon_id, .. } => Some(codon_id.clone()),
        _ => None,
    }
}

fn is_question(event: &Event) -> bool {
    let reason = IdleReason::ApprovalRequired;
    matches!(event, Event::ServerIdle { reason: found, .. } if *found == reason)
}

#[derive(Debug)]
pub(crate) struct Notifier {
    way: NotifyMethod,
    /// Page of the run as others reach it, and the tokens of its answers.
    page: Option<(String, AnswerTokens)>,
    world: World,
    execution: PathBuf,
}

impl Notifier {
    /// Creates a notifier. `how` is `bell`, `desktop`, an address or a command.
    pub(crate) fn new(how: &str, world: &World, execution: &Path) -> Self {
        let desktop = || {
            let path = world.environment.get("PATH").unwrap_or_default();
            find_program(&*world.disk, DESKTOP, path)
        };
        Self {
            way: match how {
                "bell" => NotifyMethod::Bell,
                "desktop" => NotifyMethod::Desktop(desktop()),
                how => match how.strip_prefix("ntfy:") {
                    Some(topic) if is_address(topic) => NotifyMethod::Ntfy(topic.to_owned()),
                    _ if is_address(how) => NotifyMethod::Webhook(how.to_owned()),
                    _ => NotifyMethod::Command(how.to_owned()),
                },
            },
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

    /// Returns the reason why no notification will be sent.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let is_missing = matches!(self.way, NotifyMethod::Desktop(None));
        is_missing.then(|| format!("nobody is notified: there is no {DESKTOP} on PATH"))
    }

    /// Sends a notification each time that a run waits for a command that was not just given, for an approval, or for the end of a usage limit.
    pub(crate) async fn watch(&self, mut events: Subscription, commands: &NextCommands) -> Infallible {
        let mut asked = None;
        while let Ok(Some(delivery)) = events.next().await {
            let Delivery::Events(events) = delivery else {
                continue;
            };
            asked = events
                .values()
                .filter_map(|entry| asked_codon(&entry.event))
                .last()
                .or(asked);
            let waits = events
                .values()
                .filter_map(|entry| Some((&entry.event, commands.waiting(&entry.event)?)));
            if let Some((waiting, (reason, next))) = waits.last() {
                let news = Notification {
                    event: match waiting {
                        Event::DiskUsage { .. } => "disk",
                        _ => "waiting",
                    },
                    reason,
                    next: next.to_owned(),
                    report: None,
                    asks: asked.take().filter(|_| is_question(waiting)),
                };
                self.send(&news).await;
            }
        }
        std::future::pending().await
    }

    /// Sends a notification. A notification that cannot be sent is no reason to fail.
    pub(crate) async fn send(&self, news: &Notification) {
        let title = format!("hankweave: {}", news.event);
        match &self.way {
            NotifyMethod::Bell => ring(),
            NotifyMethod::Desktop(None) => {}
            NotifyMethod::Desktop(Some(program)) => {
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

    /// Returns the buttons of a notification: the page, and where a question waits both answers to it, with tokens for that alone.
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

    /// Posts a notification. The address may hold a secret, so no message names it.
    async fn post(&self, address: &str, headers: Vec<(Cow<'static, str>, String)>, body: Vec<u8>) {
        let request = HttpRequest {
            url: address.to_owned(),
            headers,
            body,
            timeout: PATIENCE,
        };
        match self.world.http.post(request).await {
            Ok(answer) if (200..300).contains(&answer.status) => {}
            Ok(answer) => tracing::warn!(status = answer.status, "the webhook has refused the news"),
            Err(error) => tracing::warn!(%error, "the webhook did not get the news"),
        }
    }

    /// Runs a command, which gets the news as JSON on its standard input, and in variables.
    async fn run(&self, program: &Path, args: Vec<OsString>, news: &Notification) {
        let mut env = child_environment(&self.world.environment, &BTreeMap::new());
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
        let (mut nowhere, mut nobody) = (tokio::io::sink(), tokio::io::sink());
        let ended = async {
            // The output is read and discarded: a full pipe would block the command.
            let _ = tokio::join!(
                tokio::io::copy(&mut process.stdout, &mut nowhere),
                tokio::io::copy(&mut process.stderr, &mut nobody)
            );
            process.control.wait().await
        };
        let ended = timeout(PATIENCE, ended).await;
        // Processes that the command has left running would outlive the run.
        let _ = process.control.signal_group(GroupSignal::Kill);
        process.control.sweep().await;
        match ended {
            Ok(Ok(exit)) if exit.is_success() => {}
            Ok(Ok(exit)) => tracing::warn!(%exit, "the command that notifies has failed"),
            Ok(Err(error)) => tracing::warn!(%error, "the command that notifies has failed"),
            Err(_) => tracing::warn!("the command that notifies was ended after 10 s"),
        }
    }
}
