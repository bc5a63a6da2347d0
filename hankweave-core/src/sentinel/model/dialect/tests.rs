use super::*;
use crate::sentinel::model::Exchange;

const ALL: [Api; 3] = [Api::Anthropic, Api::OpenaiChat, Api::OpenaiResponses];

fn question() -> Question {
    Question {
        model: "m".to_owned(),
        system: Some("be brief".to_owned()),
        before: vec![Exchange {
            question: "q".to_owned(),
            answer: "a".to_owned(),
        }],
        prompt: "now".to_owned(),
        temperature: Some(0.5),
        max_output_tokens: 9,
        form: None,
    }
}

fn form() -> AnswerSchema {
    let config = json!({"output": "object", "schemaName": "verdict", "schemaDescription": "what to do"});
    AnswerSchema::of(
        &serde_json::from_value(config).unwrap(),
        Some(r#"{"type": "object"}"#),
    )
    .unwrap()
}

// covers: SENT-16
#[test]
fn a_question_is_asked_in_each_language() {
    let turns = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "now"}]);
    assert_eq!(
        request_body(Api::Anthropic, &question()),
        json!({"max_tokens": 9, "messages": turns, "system": "be brief", "model": "m", "temperature": 0.5})
    );
    let with_system: Vec<Value> = [json!({"role": "system", "content": "be brief"})]
        .into_iter()
        .chain(turns.as_array().unwrap().clone())
        .collect();
    assert_eq!(
        request_body(Api::OpenaiChat, &question()),
        json!({"max_completion_tokens": 9, "messages": with_system, "model": "m", "temperature": 0.5})
    );
    assert_eq!(
        request_body(Api::OpenaiResponses, &question()),
        json!({"max_output_tokens": 9, "input": turns, "store": false, "instructions": "be brief", "model": "m", "temperature": 0.5})
    );
}

// covers: SENT-16, SENT-17
#[test]
fn a_form_is_asked_for_in_each_language() {
    let formed = Question {
        form: Some(form()),
        ..question()
    };
    let schema = json!({"type": "object"});
    let body = |api| request_body(api, &formed);
    let anthropic = body(Api::Anthropic);
    assert_eq!(
        anthropic["tools"],
        json!([{"name": "verdict", "input_schema": schema, "description": "what to do"}])
    );
    assert_eq!(
        anthropic["tool_choice"],
        json!({"type": "tool", "name": "verdict"})
    );
    let asked = json!({"name": "verdict", "schema": schema, "description": "what to do"});
    let chat = body(Api::OpenaiChat);
    assert_eq!(
        chat["response_format"],
        json!({"type": "json_schema", "json_schema": asked})
    );
    assert!(
        chat["messages"][0]["content"]
            .as_str()
            .unwrap()
            .ends_with(r#"and nothing else: {"type":"object"}"#)
    );
    let mut format = asked;
    format["type"] = "json_schema".into();
    assert_eq!(body(Api::OpenaiResponses)["text"]["format"], format);
}

fn read(api: Api, body: &Value) -> ModelReply {
    read_reply(api, 200, None, body.to_string().as_bytes()).unwrap()
}

// covers: SENT-16
#[test]
fn an_answer_is_read_in_each_language_with_what_is_billed() {
    let tokens = |input, output, written, cached| TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_creation_tokens: written,
        cache_read_tokens: cached,
    };
    let usage = json!({"input_tokens": 5, "output_tokens": 7, "cache_creation_input_tokens": 11, "cache_read_input_tokens": 13});
    let content = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "He"}, {"type": "text", "text": "llo"}]);
    let reply = read(
        Api::Anthropic,
        &json!({"content": content, "stop_reason": "end_turn", "usage": usage}),
    );
    assert_eq!(
        (reply.said, reply.tokens),
        (ReplyBody::Text("Hello".to_owned()), tokens(5, 7, 11, 13))
    );
    let call =
        json!([{"type": "text", "text": "so:"}, {"type": "tool_use", "name": "verdict", "input": {"a": 1}}]);
    assert_eq!(
        read(Api::Anthropic, &json!({"content": call})).said,
        ReplyBody::Object(json!({"a": 1}))
    );
    let refusal = json!({"content": [{"type": "text", "text": "no"}], "stop_reason": "refusal"});
    assert_eq!(
        read(Api::Anthropic, &refusal).said,
        ReplyBody::Refused("no".to_owned())
    );

    let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 19, "prompt_tokens_details": {"cached_tokens": 4}});
    let choices = json!([{"message": {"role": "assistant", "content": "Hello", "refusal": null}}]);
    let reply = read(Api::OpenaiChat, &json!({"choices": choices, "usage": usage}));
    assert_eq!(
        (reply.said, reply.tokens),
        (ReplyBody::Text("Hello".to_owned()), tokens(6, 9, 0, 4))
    );
    let refusal = json!({"choices": [{"message": {"content": null, "refusal": "no"}}]});
    assert_eq!(
        read(Api::OpenaiChat, &refusal).said,
        ReplyBody::Refused("no".to_owned())
    );

    let usage = json!({"input_tokens": 10, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}});
    let output = json!([{"type": "reasoning", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo"}]}]);
    let reply = read(
        Api::OpenaiResponses,
        &json!({"output": output, "error": null, "usage": usage}),
    );
    assert_eq!(
        (reply.said, reply.tokens),
        (ReplyBody::Text("Hello".to_owned()), tokens(6, 3, 0, 4))
    );
    let refusal = json!({"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]});
    assert_eq!(
        read(Api::OpenaiResponses, &refusal).said,
        ReplyBody::Refused("no".to_owned())
    );
}

// covers: SENT-21
#[test]
fn the_bill_of_openrouter_is_read_and_that_of_a_provider_with_a_key_of_ones_own_added() {
    let bill = |usage: Value| {
        let choices = json!([{"message": {"content": "Hello"}}]);
        read(Api::OpenaiChat, &json!({"choices": choices, "usage": usage})).cost
    };
    let details = json!({"upstream_inference_cost": 0.02});
    assert_eq!(
        bill(json!({"cost": 0.0031, "cost_details": details})),
        Some(Usd::from_micros(3_100))
    );
    assert_eq!(
        bill(json!({"cost": 0.001, "is_byok": true, "cost_details": details})),
        Some(Usd::from_micros(21_000))
    );
    assert_eq!(
        bill(json!({"cost": 0.001, "is_byok": true})),
        None,
        "half a bill is none"
    );
    for odd in [json!(-1), json!("0.1"), json!(null), json!({})] {
        assert_eq!(bill(json!({"cost": odd})), None, "{odd}");
    }
}

// covers: SENT-16
#[test]
fn an_error_says_whether_to_ask_once_more_and_when() {
    let refused = |status, retry_after, body: &str| {
        read_reply(Api::Anthropic, status, retry_after, body.as_bytes()).unwrap_err()
    };
    let told = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
    };
    let limited = refused(429, Some("30"), &told("rate_limit_error", "slow down"));
    assert_eq!(
        limited,
        CallRefusal {
            message: "HTTP 429: slow down".to_owned(),
            retriable: true,
            retry_after: Some(Duration::from_secs(30)),
            fatal: false,
            billable: false,
        }
    );
    let unknown_key = refused(401, None, &told("authentication_error", "invalid x-api-key"));
    assert_eq!((unknown_key.retriable, unknown_key.fatal), (false, true));
    let spent = refused(
        429,
        None,
        &told("insufficient_quota", "You exceeded your current quota"),
    );
    assert_eq!((spent.retriable, spent.fatal), (false, false));
    let overloaded = refused(529, None, "");
    assert_eq!(
        (overloaded.message.as_str(), overloaded.retriable),
        ("HTTP 529", true)
    );
    let too_long = refused(400, None, &told("invalid_request_error", "prompt is too long"));
    assert_eq!(
        (too_long.retriable, too_long.fatal),
        (false, false),
        "the next prompt may be shorter"
    );
    assert!(
        !refused(422, None, "{}").retriable,
        "what nobody knows of a client's fault will come again"
    );
}

// covers: SENT-16
#[test]
fn garbage_is_no_answer_and_never_a_panic() {
    for api in ALL {
        for body in [
            "",
            "<html>",
            "7",
            "[]",
            "{}",
            r#"{"content": 1, "choices": [7], "output": {"a": 1}}"#,
            "\u{feff}{}",
        ] {
            let refusal = read_reply(api, 200, None, body.as_bytes()).unwrap_err();
            assert!(
                refusal.retriable
                    && refusal.billable
                    && refusal.message.starts_with("what came is no answer"),
                "{api:?} {body}"
            );
        }
        let odd = json!({"content": [7, {"text": 1}], "choices": [{"message": {}}], "output": [{"content": [1]}, 2],
            "usage": {"input_tokens": -1, "prompt_tokens": "x"}});
        assert_eq!(
            read(api, &odd),
            ModelReply {
                said: ReplyBody::Text(String::new()),
                tokens: TokenUsage::ZERO,
                cost: None,
            },
            "{api:?}"
        );
    }
    let long = "é".repeat(10_000);
    let refusal = read_reply(Api::Anthropic, 500, None, long.as_bytes()).unwrap_err();
    assert_eq!(
        refusal.message.chars().count(),
        MOST_OF_AN_ERROR + "HTTP 500: …".chars().count()
    );
}
