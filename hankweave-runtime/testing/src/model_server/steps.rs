//! Actions of the server on a connection, as a list: so that every fault is plain data before anything waits.

use std::time::Duration;

use super::dialect::Frame;
use super::scenario::{Cut, Hang, Turn};

/// One thing done to an open stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Says nothing more until the client goes away.
    Stall,
    /// Closes the connection without the end of the stream.
    Break,
}

/// Lays out a stream of `frames` with the faults of `turn`; `error` is sent in the middle if there is one.
pub(super) fn stream_steps(turn: &Turn, frames: &[Frame], error: Option<&Frame>) -> Vec<Step> {
    let middle = (frames.len() / 2).max(1);
    let cut_at = match turn.drop {
        Some(Cut::AfterHeaders) => Some(0),
        Some(Cut::MidStream) => Some(middle),
        Some(Cut::BeforeStop) => Some(frames.len().saturating_sub(2).max(1)),
        Some(Cut::BeforeHeaders) | None => None,
    };
    let mut steps = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        if cut_at == Some(index) {
            steps.push(Step::Break);
            break;
        }
        if let Some(error) = error.filter(|_| index == middle) {
            steps.push(Step::Send(error.to_bytes()));
            break;
        }
        steps.push(Step::Send(frame.to_bytes()));
        if turn.chunk_delay_ms > 0 {
            steps.push(Step::Wait(Duration::from_millis(turn.chunk_delay_ms)));
        }
        if index == middle {
            steps.extend(silence(turn.hang));
        }
    }
    steps
}

fn silence(hang: Option<Hang>) -> Option<Step> {
    match hang? {
        Hang::Milliseconds(length) => Some(Step::Wait(Duration::from_millis(length))),
        Hang::Forever(true) => Some(Step::Stall),
        Hang::Forever(false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(count: usize) -> Vec<Frame> {
        (0..count)
            .map(|index| Frame {
                event: None,
                data: index.to_string(),
            })
            .collect()
    }

    fn steps(turn: &str) -> String {
        let error = Frame {
            event: Some("error"),
            data: "e".to_owned(),
        };
        let turn: Turn = serde_json::from_str(turn).unwrap();
        let error = turn.stream_error.is_some().then_some(&error);
        let words = stream_steps(&turn, &frames(6), error)
            .into_iter()
            .map(|step| match step {
                Step::Send(bytes) => String::from_utf8(bytes)
                    .unwrap()
                    .replace("data: ", "")
                    .replace('\n', ""),
                Step::Wait(time) => format!("wait{}", time.as_millis()),
                Step::Stall => "stall".to_owned(),
                Step::Break => "break".to_owned(),
            });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_quiet_turn_sends_every_frame() {
        assert_eq!(steps("{}"), "0 1 2 3 4 5");
    }

    #[test]
    fn each_fault_strikes_at_its_place() {
        assert_eq!(steps(r#"{"drop": "after_headers"}"#), "break");
        assert_eq!(steps(r#"{"drop": "mid_stream"}"#), "0 1 2 break");
        assert_eq!(steps(r#"{"drop": "before_stop"}"#), "0 1 2 3 break");
        assert_eq!(steps(r#"{"stream_error": {}}"#), "0 1 2 event: errore");
        assert_eq!(steps(r#"{"hang": true}"#), "0 1 2 3 stall 4 5");
        assert_eq!(steps(r#"{"hang": 70}"#), "0 1 2 3 wait70 4 5");
        assert_eq!(
            steps(r#"{"chunk_delay_ms": 2, "drop": "mid_stream"}"#),
            "0 wait2 1 wait2 2 wait2 break"
        );
    }
}
