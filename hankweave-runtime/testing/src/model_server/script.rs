//! Choice of the turn that answers a request.

use super::request::ModelRequest;
use super::scenario::{After, AuxWhen, Lane, Repeat, RepeatWord, Scenario, Select, Turn, When};

/// A scenario being played: the document and how far each lane has come.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) scenario: Scenario,
    lanes: Vec<PlayedLane>,
}

#[derive(Debug)]
struct PlayedLane {
    lane: Lane,
    served: u64,
}

/// The turn that was chosen, and its position.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) lane: String,
    pub(super) index: u64,
    pub(super) turn: Turn,
}

impl Script {
    pub(super) fn new(mut scenario: Scenario) -> Self {
        let mut lanes = std::mem::take(&mut scenario.lanes);
        if lanes.is_empty() {
            let turns = std::mem::take(&mut scenario.turns);
            lanes.push(Lane {
                name: "main".to_owned(),
                when: When::default(),
                turns,
                select: None,
            });
        }
        let lanes = lanes
            .into_iter()
            .map(|lane| PlayedLane { lane, served: 0 })
            .collect();
        Self { scenario, lanes }
    }

    /// Takes the next turn for `request` out of the first lane that matches it.
    pub(super) fn pick(&mut self, request: &ModelRequest) -> Picked {
        if self.scenario.aux_when == AuxWhen::NoTools && request.tools.is_empty() {
            return Picked {
                lane: "aux".to_owned(),
                index: 0,
                turn: self.scenario.aux.clone(),
            };
        }
        let Some(played) = self
            .lanes
            .iter_mut()
            .find(|played| played.lane.when.matches(request))
        else {
            return Picked {
                lane: "unmatched".to_owned(),
                index: 0,
                turn: Turn::saying("(no lane matched)"),
            };
        };
        let index = match played.lane.select.unwrap_or(self.scenario.select) {
            Select::Sequence => played.served,
            Select::History => request.model_turns(),
        };
        played.served += 1;
        let turn = turn_at(&played.lane.turns, index).or(match &self.scenario.after {
            After::RepeatLast(_) => played.lane.turns.last(),
            After::Turn(turn) => Some(&**turn),
        });
        let turn = turn.cloned().unwrap_or_else(|| Turn::saying("(script finished)"));
        Picked {
            lane: played.lane.name.clone(),
            index,
            turn,
        }
    }

    /// Lists each lane with the number of requests it has answered.
    pub(super) fn served(&self) -> impl Iterator<Item = (&str, u64)> {
        self.lanes
            .iter()
            .map(|played| (played.lane.name.as_str(), played.served))
    }
}

fn turn_at(turns: &[Turn], index: u64) -> Option<&Turn> {
    let mut end = 0u64;
    turns.iter().find(|turn| {
        end = end.saturating_add(match turn.repeat {
            Repeat::Times(times) => times,
            Repeat::Word(RepeatWord::Forever) => u64::MAX,
        });
        index < end
    })
}

impl When {
    fn matches(&self, request: &ModelRequest) -> bool {
        let holds = |pattern: &Option<super::scenario::Pattern>, subject: &dyn Fn() -> String| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.0.is_match(&subject()))
        };
        let names = || {
            request
                .tools
                .iter()
                .map(|tool| tool.name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        holds(&self.dialect, &|| request.dialect.name().to_owned())
            && holds(&self.model, &|| request.model.clone())
            && holds(&self.system, &|| request.system_text())
            && holds(&self.user, &|| request.user_text())
            && holds(&self.first_user, &|| request.first_user_text())
            && holds(&self.tools, &names)
            && self
                .has_tools
                .is_none_or(|wanted| wanted != request.tools.is_empty())
            && !self
                .not_system
                .as_ref()
                .is_some_and(|pattern| pattern.0.is_match(&request.system_text()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model_server::request::Dialect;

    fn asking(messages: Value) -> ModelRequest {
        let body = json!({"system": "be kind", "messages": messages, "tools": [{"name": "Bash"}]});
        ModelRequest::new(Dialect::Anthropic, body, 0)
    }

    fn texts(script: &mut Script, requests: &[ModelRequest]) -> Vec<String> {
        requests
            .iter()
            .map(|request| script.pick(request).turn.text)
            .collect()
    }

    #[test]
    fn a_sequence_gives_turns_in_order_of_arrival_and_repeats_them() {
        let scenario = r#"{"turns": [{"text": "a", "repeat": 2}, {"text": "b"}]}"#;
        let mut script = Script::new(scenario.parse().unwrap());
        let requests: Vec<_> = (0..4).map(|_| asking(json!([]))).collect();
        assert_eq!(
            texts(&mut script, &requests),
            ["a", "a", "b", "(script finished)"]
        );
        assert_eq!(script.served().collect::<Vec<_>>(), [("main", 4)]);
    }

    #[test]
    fn history_gives_a_retry_the_same_turn() {
        let scenario =
            r#"{"select": "history", "after": "repeat-last", "turns": [{"text": "a"}, {"text": "b"}]}"#;
        let mut script = Script::new(scenario.parse().unwrap());
        let later = || asking(json!([{"role": "user"}, {"role": "assistant"}, {"role": "user"}]));
        let much_later = asking(
            json!([{"role": "assistant"}, {"role": "user"}, {"role": "assistant"},
            {"role": "user"}, {"role": "assistant"}]),
        );
        let requests = [asking(json!([])), asking(json!([])), later(), later(), much_later];
        assert_eq!(texts(&mut script, &requests), ["a", "a", "b", "b", "b"]);
    }

    #[test]
    fn the_first_matching_lane_answers() {
        let scenario = r#"{"lanes": [
            {"name": "unkind", "when": {"not_system": "kind"}, "turns": []},
            {"name": "first", "when": {"first_user": "alpha"}, "turns": []},
            {"name": "any", "when": {"user": "beta", "tools": "Bash", "has_tools": true}, "turns": []}]}"#;
        let mut script = Script::new(scenario.parse().unwrap());
        let mut lane = |messages| script.pick(&asking(messages)).lane;
        assert_eq!(
            lane(json!([{"role": "user", "content": [{"text": "alpha beta"}]}])),
            "first"
        );
        assert_eq!(
            lane(json!([{"role": "user", "content": "x"}, {"role": "user", "content": "beta"}])),
            "any"
        );
        assert_eq!(lane(json!([])), "unmatched");
    }

    #[test]
    fn a_request_without_tools_is_a_side_request_unless_told_otherwise() {
        let bare = || ModelRequest::new(Dialect::Anthropic, json!({}), 0);
        let mut usual = Script::new(r#"{"turns": [{"text": "a"}]}"#.parse().unwrap());
        assert_eq!(usual.pick(&bare()).lane, "aux");
        let mut never = Script::new(r#"{"aux_when": "never", "turns": [{"text": "a"}]}"#.parse().unwrap());
        assert_eq!(never.pick(&bare()).lane, "main");
    }
}
