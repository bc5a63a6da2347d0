//! Messages for an ntfy server (<https://docs.ntfy.sh/publish/>): the text in the body, everything else in headers.

use std::borrow::Cow;

use serde::Serialize;

use super::Notification;

/// Button of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Action {
    action: &'static str,
    label: &'static str,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    /// Whether the message disappears when the button is pressed.
    clear: bool,
}

impl Action {
    /// Opens an address.
    pub(super) fn view(label: &'static str, url: &str) -> Self {
        Self {
            action: "view",
            label,
            url: url.to_owned(),
            method: None,
            clear: false,
        }
    }

    /// Posts to an address.
    pub(super) fn post(label: &'static str, url: &str) -> Self {
        Self {
            action: "http",
            method: Some("POST"),
            clear: true,
            ..Self::view(label, url)
        }
    }
}

/// Returns the headers and the body of a message.
pub(super) fn message(
    news: &Notification,
    title: &str,
    actions: &[Action],
) -> (Vec<(Cow<'static, str>, String)>, String) {
    let (priority, tag) = urgency(news);
    let mut headers = vec![
        ("title".into(), title.to_owned()),
        ("priority".into(), priority.to_string()),
        ("tags".into(), tag.to_owned()),
    ];
    if !actions.is_empty()
        && let Ok(text) = serde_json::to_string(actions)
    {
        headers.push(("actions".into(), text));
    }
    let reason = crate::terminal::screen::with_zoned_times(&news.reason);
    (headers, format!("{reason}\n{}", news.next).trim_end().to_owned())
}

/// Returns the priority from 1 to 5, 3 being the usual one, and a tag that ntfy shows as an emoji.
fn urgency(news: &Notification) -> (u8, &'static str) {
    match news.event {
        "waiting" if news.asks.is_some() => (4, "question"),
        "waiting" => (3, "hourglass"),
        "disk" => (4, "floppy_disk"),
        "paused" => (4, "pause_button"),
        "failed" => (4, "x"),
        "completed" => (3, "white_check_mark"),
        // `stopped`
        _ => (3, "stop_button"),
    }
}
