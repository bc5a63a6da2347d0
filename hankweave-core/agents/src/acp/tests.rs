use std::collections::BTreeMap;

use super::*;
use hankweave_core::agent::{EndedBy, FailureKind, Permission, Permissions, ProcessExit};

fn launch() -> Launch {
    Launch {
        model: OWN_MODEL.to_owned(),
        prompt: "Tidy up.".to_owned(),
        appended_system_prompt: None,
        resume: None,
        fork: false,
        env: BTreeMap::new(),
        iteration: None,
        max_dollars: None,
        carried: None,
        prices: Prices::listed(),
        work_dir: "/work".into(),
        log_path: "/nowhere/a.log".into(),
        log_goes_on: false,
        auto_compact: false,
        temp_dir: "/nowhere/tmp".into(),
        script: None,
        program: None,
        command: Vec::new(),
        permissions: Permissions::default(),
        options: hankweave_core::agent::AgentOptions::default(),
        result: None,
        auth: None,
        marker: "test".to_owned(),
        grace: Launch::DEFAULT_GRACE,
    }
}

/// Decoder with all events and actions that it returned.
struct Talk {
    decoder: AcpDecoder,
    events: Vec<AgentEvent>,
    orders: Vec<AcpAction>,
}

impl Talk {
    fn with(launch: &Launch) -> Self {
        let mut talk = Self {
            decoder: AcpDecoder::of(launch),
            events: Vec::new(),
            orders: Vec::new(),
        };
        talk.take();
        talk
    }

    fn begun() -> Self {
        Self::with(&launch()).greeted().opened()
    }

    fn take(&mut self) {
        self.orders.extend(self.decoder.take_orders());
    }

    fn hear(mut self, line: &str) -> Self {
        self.decoder.decode(AgentLine::Text(line), &mut self.events);
        self.take();
        self
    }

    fn say(self, line: &Value) -> Self {
        self.hear(&line.to_string())
    }

    fn greeted(self) -> Self {
        self.say(
            &json!({"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": true},
            "authMethods": [{"id": "key"}, {"id": "browser"}]}}),
        )
    }

    fn opened(self) -> Self {
        self.say(&json!({"id": 1, "result": {"sessionId": "s-1"}}))
    }

    fn update(self, update: Value) -> Self {
        self.say(&json!({"method": "session/update", "params": {"sessionId": "s-1", "update": update}}))
    }

    fn asks(self, method: &str, mut params: Value) -> Self {
        params["sessionId"] = json!("s-1");
        self.say(&json!({"id": "r-7", "method": method, "params": params}))
    }

    fn message(self, text: &str) -> Self {
        self.update(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        )
    }

    fn ends(self, stop: &str) -> Self {
        self.say(&json!({"id": 2, "result": {"stopReason": stop}}))
    }

    /// Methods of ours, and what else was ordered.
    fn ordered(&self) -> Vec<String> {
        let told = self.orders.iter().map(|order| match order {
            AcpAction::Say(line) => {
                let line: Value = serde_json::from_str(line).unwrap();
                match (&line["method"], &line["error"]["code"]) {
                    (Value::String(method), _) => method.clone(),
                    (_, Value::Number(code)) => format!("error {code}"),
                    _ => line.to_string(),
                }
            }
            AcpAction::StopWith(line) => {
                let line: Value = serde_json::from_str(line).unwrap();
                format!("stop with {}", line["method"].as_str().unwrap())
            }
            AcpAction::Permit { answer, .. } => {
                let line: Value = serde_json::from_str(answer).unwrap();
                line["result"]["outcome"].to_string()
            }
            AcpAction::Over => "over".to_owned(),
        });
        told.collect()
    }

    fn last(&self) -> String {
        self.ordered().pop().unwrap()
    }

    fn end(&mut self, exit: ProcessExit) -> ExitOutcome {
        self.decoder.finish(ProcessEnd::of(exit, EndedBy::Us))
    }

    fn failure(&mut self) -> (String, bool) {
        match self.end(ProcessExit::Exited(0)).verdict {
            Verdict::Failure { reason, .. } => (reason.message.unwrap(), reason.retriable),
            Verdict::Success => panic!("it succeeded"),
        }
    }
}

// covers: AGENT-23
#[test]
fn one_process_is_greeted_gets_a_session_one_prompt_and_is_over() {
    let mut talk = Talk::begun().message("On ").message("it.").ends("end_turn");
    assert_eq!(
        talk.ordered(),
        [
            "initialize",
            "session/new",
            "stop with session/cancel",
            "session/prompt",
            "over"
        ]
    );
    let AcpAction::Say(prompt) = &talk.orders[3] else {
        panic!("{:?}", talk.orders)
    };
    assert!(
        prompt.contains(r#""prompt":[{"type":"text","text":"Tidy up."}]"#),
        "{prompt}"
    );
    let told: Vec<&str> = talk
        .events
        .iter()
        .map(|event| match event {
            AgentEvent::SessionStarted { session_id, .. } => session_id.as_str(),
            AgentEvent::Message { text, .. } => text,
            AgentEvent::Result(result) => &result.text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["s-1", "On it.", "On it."]);
    assert!(talk.end(ProcessExit::Signaled(15)).verdict.is_success());
}

// covers: AGENT-24
#[test]
fn an_ended_turn_is_a_success_only_where_something_else_shows_it() {
    let doubt = |words: &str| {
        let mut talk = Talk::begun().message(words).ends("end_turn");
        match talk.end(ProcessExit::Exited(0)).unless_shown {
            Some(Verdict::Failure {
                reason,
                context_exceeded,
            }) => (reason, context_exceeded),
            other => panic!("{other:?}"),
        }
    };
    let (reason, _) = doubt("Error: 429 Too Many Requests");
    assert_eq!((reason.kind, reason.retriable), (FailureKind::RateLimit, true));
    let message = reason.message.unwrap();
    assert!(message.contains("without a word of success"), "{message}");
    assert!(
        message.ends_with("its last words: Error: 429 Too Many Requests"),
        "{message}"
    );
    assert!(doubt("prompt is too long: 9 tokens > 8 maximum").1);
}

// covers: AGENT-24
#[test]
fn every_other_end_of_a_turn_is_a_failure() {
    for (stop, words, retriable) in [
        ("max_tokens", "cut off at its output limit", true),
        ("max_turn_requests", "as often as it may", true),
        ("refusal", "refused to continue", false),
        ("cancelled", "was cancelled", true),
        ("later", "`later`, which version 1", false),
    ] {
        let mut talk = Talk::begun().ends(stop);
        let (message, may_help) = talk.failure();
        assert!(message.contains(words), "{message}");
        assert_eq!(may_help, retriable, "{stop}");
        assert_eq!(talk.last(), "over");
    }
    let mut talk = Talk::begun().say(
        &json!({"id": 2, "error": {"code": -32603, "message": "Internal error", "data": {"details": "401 Unauthorized"}}}),
    );
    let (message, retriable) = talk.failure();
    assert!(
        message.contains("gave up: Internal error") && message.contains("401"),
        "{message}"
    );
    assert!(!retriable);
    let mut talk = Talk::begun();
    assert_eq!(
        talk.failure().0,
        "the agent exited with code 0 without reporting a result"
    );
}

// covers: AGENT-25
#[test]
fn a_session_is_loaded_only_where_the_agent_offers_it_and_its_past_is_not_told_again() {
    let mut again = launch();
    again.resume = Some(SessionId::new("s-1").unwrap());
    again.carried = Some(Usd::from_micros(10_000));
    let money = |amount: f64| json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": amount, "currency": "USD"}});
    let mut talk = Talk::with(&again)
        .greeted()
        .message("from the past")
        .update(money(0.02))
        .say(&json!({"id": 1, "result": null}))
        .message("new")
        .update(money(0.05))
        .ends("end_turn");
    assert_eq!(talk.ordered()[1], "session/load");
    let messages = talk
        .events
        .iter()
        .filter(|event| matches!(event, AgentEvent::Message { .. }));
    assert_eq!(messages.count(), 1);
    let usage = talk.end(ProcessExit::Exited(0)).usage;
    assert_eq!(
        usage.cost,
        Usd::from_micros(30_000),
        "what the session had cost before is not counted"
    );
    assert!(usage.lower_bound);

    let mut talk = Talk::with(&again).say(&json!({"id": 0, "result": {"protocolVersion": 1}}));
    let (message, retriable) = talk.failure();
    assert!(message.contains("offers no session/load"), "{message}");
    assert!(!retriable);
}

// covers: AGENT-71
#[test]
fn a_session_is_forked_only_where_the_agent_offers_it_and_its_past_is_not_counted() {
    let mut fork = launch();
    fork.resume = Some(SessionId::new("s-0").unwrap());
    fork.fork = true;
    fork.carried = Some(Usd::from_micros(10_000));
    let greets = |sessions: Value| {
        let offers = json!({"loadSession": true, "sessionCapabilities": sessions});
        json!({"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": offers}})
    };
    let money = |amount: f64| json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": amount, "currency": "USD"}});
    for (told, own) in [(0.03, 20_000), (0.005, 5_000)] {
        let talk = Talk::with(&fork).say(&greets(json!({"fork": {}, "resume": {}})));
        let mut talk = talk.opened().message("new").update(money(told)).ends("end_turn");
        assert_eq!(talk.ordered()[1], "session/fork");
        let started = talk.events.iter().find_map(|event| match event {
            AgentEvent::SessionStarted { session_id, .. } => Some(session_id.as_str().to_owned()),
            _ => None,
        });
        assert_eq!(started.as_deref(), Some("s-1"), "the copy has a name of its own");
        let usage = talk.end(ProcessExit::Exited(0)).usage;
        assert_eq!(usage.cost, Usd::from_micros(own));
    }
    for sessions in [json!({}), json!({"fork": null}), json!({"fork": false}), json!(5)] {
        let mut talk = Talk::with(&fork).say(&greets(sessions));
        let (message, retriable) = talk.failure();
        assert!(message.contains("offers no session/fork"), "{message}");
        assert!(!retriable);
        assert_eq!(talk.ordered(), ["initialize", "over"]);
    }
}

#[test]
fn another_version_and_a_wrong_way_to_sign_in_end_before_a_session() {
    let mut talk = Talk::with(&launch()).say(&json!({"id": 0, "result": {"protocolVersion": 2}}));
    assert!(
        talk.failure().0.contains("speaks version 2"),
        "{}",
        talk.failure().0
    );
    assert_eq!(talk.ordered(), ["initialize", "over"]);

    let signs_in = |auth: &str| {
        let mut launch = launch();
        launch.auth = Some(auth.to_owned());
        Talk::with(&launch).greeted()
    };
    assert!(signs_in("phone").failure().0.contains("it knows key, browser"));
    let mut many = launch();
    many.auth = Some("way-13".to_owned());
    let ways: Vec<Value> = (1..=13)
        .map(|number| json!({"id": format!("way-{number}")}))
        .collect();
    let offer = json!({"id": 0, "result": {"protocolVersion": 1, "authMethods": ways}});
    assert_eq!(Talk::with(&many).say(&offer).last(), "authenticate");
    many.auth = Some("phone".to_owned());
    let (message, _) = Talk::with(&many).say(&offer).failure();
    assert!(message.ends_with("way-11, way-12, …"), "{message}");

    let talk = signs_in("key");
    assert_eq!(talk.last(), "authenticate");
    let talk = talk.say(&json!({"id": 1, "result": {}}));
    assert_eq!(talk.last(), "session/new");

    let mut talk = Talk::with(&launch())
        .greeted()
        .say(&json!({"id": 1, "error": {"code": -32000, "message": "Authentication required"}}));
    let (message, retriable) = talk.failure();
    assert!(
        message.contains("wants somebody to sign in first") && message.contains(r#""auth": "key""#),
        "{message}"
    );
    assert!(!retriable);
}

// covers: AGENT-23
#[test]
fn a_model_is_chosen_the_way_the_agent_offers_it_and_a_missing_one_is_told() {
    let opened = |result: Value| {
        let mut launch = launch();
        launch.model = "big".to_owned();
        Talk::with(&launch)
            .greeted()
            .say(&json!({"id": 1, "result": result}))
    };
    let setting = json!({"sessionId": "s-1", "configOptions": [{"id": "mode", "category": "mode"},
        {"id": "m", "category": "model", "currentValue": "small", "options": [{"value": "small"}, {"name": "more", "options": [{"value": "big"}]}]}]});
    let talk = opened(setting);
    assert_eq!(talk.last(), "session/set_config_option");
    assert_eq!(talk.say(&json!({"id": 2, "result": {}})).last(), "session/prompt");

    let models = json!({"sessionId": "s-1", "models": {"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "big"}]}});
    let mut talk = opened(models);
    assert_eq!(talk.last(), "session/set_model");
    talk = talk.say(&json!({"id": 2, "error": {"code": -1, "message": "no"}}));
    assert!(talk.failure().0.contains("did not take the model `big`: no"));

    let current = json!({"sessionId": "s-1", "models": {"currentModelId": "big"}});
    assert_eq!(opened(current).last(), "session/prompt");
    assert!(
        opened(json!({"sessionId": "s-1"}))
            .failure()
            .0
            .contains("no choice of models")
    );
    let others = json!({"sessionId": "s-1", "models": {"availableModels": [{"modelId": "small"}]}});
    assert!(opened(others).failure().0.contains("it offers small"));
    assert!(opened(json!({})).failure().0.contains("session without a name"));
}

#[test]
fn tools_are_told_when_they_begin_to_work_and_when_they_have_ended() {
    let talk = Talk::begun()
        .update(json!({"sessionUpdate": "agent_thought_chunk", "content": {"text": "hm"}}))
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Write", "kind": "edit", "status": "pending", "rawInput": {}}))
        .update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress", "rawInput": {"path": "a"}}))
        .update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "written"}}, {"type": "diff", "path": "/work/a"}]}))
        .update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "u", "status": "failed", "rawOutput": {"output": "no"}}))
        .update(json!({"sessionUpdate": "plan", "entries": []}));
    let [_, thought, call, result, _, failed] = talk.events.as_slice() else {
        panic!("{:?}", talk.events)
    };
    assert!(matches!(thought, AgentEvent::Thinking { text, .. } if text == "hm"));
    assert!(
        matches!(call, AgentEvent::ToolUse { name, input, .. } if name == "Write" && *input == json!({"path": "a"}))
    );
    assert!(
        matches!(result, AgentEvent::ToolResult(result) if result.text == "written\n/work/a" && !result.is_error)
    );
    assert!(matches!(failed, AgentEvent::ToolResult(result) if result.text == "no" && result.is_error));
}

// covers: AGENT-26
#[test]
fn permissions_are_answered_by_the_policy_with_an_option_that_the_agent_offers() {
    let options = |kinds: &[&str]| -> Value {
        kinds
            .iter()
            .map(|kind| json!({"optionId": format!("o-{kind}"), "kind": kind}))
            .collect()
    };
    let asked = |permission: Permission, kinds: &[&str]| {
        let mut launch = launch();
        launch.permissions = Permissions {
            execute: permission,
            ..Permissions::default()
        };
        Talk::with(&launch)
            .greeted()
            .opened()
            .update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "rm -rf x", "kind": "execute"}))
            .asks("session/request_permission", json!({"toolCall": {"toolCallId": "t"}, "options": options(kinds)}))
    };
    let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
    assert!(asked(Permission::Allow, &all).last().contains("o-allow_once"));
    assert!(
        asked(Permission::Allow, &["allow_always"])
            .last()
            .contains("o-allow_always")
    );
    assert!(
        asked(Permission::Deny, &["allow_once"])
            .last()
            .contains("cancelled")
    );
    let talk = asked(Permission::Deny, &all);
    assert!(talk.last().contains("o-reject_once"));
    let talk = talk.ends("end_turn");
    let Some(AgentEvent::Result(result)) = talk.events.last() else {
        panic!("{:?}", talk.events)
    };
    assert_eq!(result.permission_denials[0].tool_name, "rm -rf x");
}

// covers: AGENT-26
#[test]
fn a_denied_call_without_a_title_has_the_name_of_its_kind_as_one_that_works() {
    let mut launch = launch();
    launch.permissions = Permissions::all(Permission::Deny);
    let request = json!({"toolCall": {"toolCallId": "t"}, "options": []});
    let talk = Talk::with(&launch)
        .greeted()
        .opened()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute"}))
        .asks("session/request_permission", request)
        .ends("end_turn");
    let Some(AgentEvent::Result(result)) = talk.events.last() else {
        panic!("{:?}", talk.events)
    };
    assert_eq!(result.permission_denials[0].tool_name, "execute");
}

// covers: AGENT-23, AGENT-26
#[test]
fn neither_files_nor_terminals_are_offered_and_every_request_is_answered() {
    let talk = Talk::begun();
    let Some(AcpAction::Say(greeting)) = talk.orders.first() else {
        panic!("{:?}", talk.orders)
    };
    let greeting: Value = serde_json::from_str(greeting).unwrap();
    let offers = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    assert_eq!(greeting["params"]["clientCapabilities"], offers);
    for method in [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "elicitation/create",
    ] {
        let asked = Talk::begun().asks(method, json!({"path": "/work/a", "content": "", "command": "x"}));
        assert_eq!(asked.last(), "error -32601", "{method}");
    }
    let early = Talk::with(&launch()).asks("session/request_permission", json!({}));
    assert_eq!(early.last(), "error -32602", "there is no session yet");
    let permit = |id: &str, session: &str| json!({"id": id, "method": "session/request_permission", "params": {"sessionId": session}});
    let other = Talk::begun().say(&permit("r-7", "s-2"));
    assert_eq!(other.last(), "error -32602", "it is another session");
    let long = Talk::begun().say(&permit(&"x".repeat(300), "s-1"));
    assert_eq!(long.last(), "error -32602", "its id is too long");
}

// covers: AGENT-23
#[test]
fn lines_out_of_order_of_another_session_or_of_no_sense_change_nothing() {
    let before = Talk::begun();
    let (events, orders) = (before.events.len(), before.orders.len());
    let talk = before
        .say(&json!({"id": 0, "result": {"protocolVersion": 9}}))
        .say(&json!({"id": 77, "error": {"message": "?"}}))
        .say(&json!({"id": null, "result": {}}))
        .say(&json!({"method": "session/update", "params": {"sessionId": "s-2", "update": {"sessionUpdate": "agent_message_chunk", "content": {"text": "x"}}}}))
        .say(&json!({"method": "session/update", "params": 7}))
        .update(json!({"sessionUpdate": 7}))
        .update(json!({"sessionUpdate": "tool_call"}))
        .update(json!({"sessionUpdate": "agent_message_chunk", "content": [1]}))
        .update(json!({"sessionUpdate": "usage_update", "cost": {"amount": 1, "currency": "EUR"}}))
        .say(&json!({"method": "$/later", "params": {}}))
        .hear("");
    assert_eq!((talk.events.len(), talk.orders.len()), (events, orders));
    let talk = talk.hear("Listening on port 1").hear("[]");
    assert!(matches!(talk.events.last(), Some(AgentEvent::Unparsed { .. })));
    let mut talk = talk.ends("end_turn").ends("refusal").hear("{}");
    assert!(
        talk.end(ProcessExit::Exited(0)).verdict.is_success(),
        "the first end counts"
    );
}

/// The agent reports $7. It reports its tokens with the end of the turn, except in one case.
// covers: AGENT-46
#[test]
fn a_price_that_the_user_gives_comes_before_the_money_that_is_told() {
    let sonnet = Prices::listed().find("claude-sonnet-4-5").unwrap().1.rate;
    let own = Prices::default().with([("house-model".to_owned(), sonnet)], "mine.json");
    let cost = |prices: Prices, usage: Value| {
        let mut launch = launch();
        launch.model = "house-model".to_owned();
        launch.prices = prices.into();
        let spent = json!({"method": "session/update", "params": {"sessionId": "s-1",
            "update": {"sessionUpdate": "usage_update", "cost": {"amount": 7, "currency": "USD"}}}});
        let mut talk = Talk::with(&launch)
            .greeted()
            .say(&json!({"id": 1, "result": {"sessionId": "s-1", "models": {"currentModelId": "house-model"}}}))
            .say(&spent)
            .say(&json!({"id": 2, "result": {"stopReason": "end_turn", "usage": usage}}));
        talk.end(ProcessExit::Exited(0)).usage.cost
    };
    let usage = json!({"totalTokens": 2000, "inputTokens": 1000, "outputTokens": 1000});
    let told = Usd::from_micros(7_000_000);
    assert_eq!(cost(own.clone(), usage.clone()), Usd::from_micros(18_000));
    assert_eq!(cost(own, Value::Null), told, "it tells no tokens");
    assert_eq!(cost(Prices::default(), usage), told);
}

// covers: AGENT-25, AGENT-47
#[test]
fn tokens_are_priced_where_the_agent_tells_no_money() {
    let mut priced = launch();
    priced.model = "claude-sonnet-4-5".to_owned();
    let mut talk = Talk::with(&priced)
        .greeted()
        .say(&json!({"id": 1, "result": {"sessionId": "s-1", "models": {"currentModelId": "claude-sonnet-4-5"}}}))
        .say(&json!({"id": 2, "result": {"stopReason": "end_turn", "usage": {"totalTokens": 4737, "inputTokens": 1200, "outputTokens": 30,
            "thoughtTokens": 7, "cachedReadTokens": 3000, "cachedWriteTokens": 500}}}));
    let usage = talk.end(ProcessExit::Exited(0)).usage;
    assert_eq!(
        (usage.cost, usage.tokens.output_tokens),
        (Usd::from_micros(6_930), 37)
    );
    assert!(usage.lower_bound, "what the agent does not tell is not known");
}

/// Output of several processes in one log. Each has reported this money and these input tokens, if any.
fn cost_of_log(model: &str, prices: Prices, processes: &[(Option<f64>, Option<u64>)]) -> Usd {
    let decoder = AcpDecoder::of_log(prices.into(), None, Usd::ZERO).with_model(Some(model), None);
    let mut talk = Talk {
        decoder,
        events: Vec::new(),
        orders: Vec::new(),
    };
    for (money, tokens) in processes {
        talk = talk
            .greeted()
            .say(&json!({"id": 1, "result": {"sessionId": "s-1", "models": {"currentModelId": model}}}));
        if let Some(money) = money {
            talk = talk.update(
                json!({"sessionUpdate": "usage_update", "cost": {"amount": money, "currency": "USD"}}),
            );
        }
        let usage = tokens.map(|tokens| json!({"totalTokens": tokens, "inputTokens": tokens}));
        talk = talk.say(&json!({"id": 2, "result": {"stopReason": "end_turn", "usage": usage}}));
    }
    talk.end(ProcessExit::Exited(0)).usage.cost
}

// covers: AGENT-25, AGENT-46
#[test]
fn each_process_in_a_log_has_its_own_cost() {
    let sonnet = Prices::listed().find("claude-sonnet-4-5").unwrap().1.rate;
    let own = || Prices::default().with([("house-model".to_owned(), sonnet)], "mine.json");
    let dollar = Usd::from_micros(1_000_000);
    let only_money = (Some(1.0), None);
    let only_tokens = (None, Some(1_000));
    let cost_of_tokens = Usd::from_micros(3_000);
    assert_eq!(
        cost_of_log("house-model", own(), &[only_money, (None, None)]),
        dollar
    );
    assert_eq!(
        cost_of_log("house-model", own(), &[only_money, only_tokens]),
        dollar + cost_of_tokens
    );
    let listed = Prices::clone(&Prices::listed());
    assert_eq!(
        cost_of_log("claude-sonnet-4-5", listed, &[only_money, only_tokens]),
        dollar + cost_of_tokens,
        "the money of an earlier process is no reason not to price tokens"
    );
}
