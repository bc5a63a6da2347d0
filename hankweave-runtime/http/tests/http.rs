//! Models over real HTTP: the scripted model server in each of its languages, and servers that misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use hankweave_core::cost::TokenUsage;
use hankweave_core::sentinel::model::{Api, ModelReply, Question, ReplyBody, read_reply, request_body};
use hankweave_http::HttpClient;
use hankweave_runtime::world::http::{Http as _, HttpAnswer, HttpError, HttpRequest};
use hankweave_testing::{ModelServer, Scenario};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

/// Returns a server that treats no request as a side request. Agents' side requests are those without tools, and
/// sentinels never have tools.
/// and sentinels have no tools.
fn server(turns: &str) -> ModelServer {
    let scenario = format!(r#"{{"aux_when": "never", {turns}}}"#);
    let scenario: Scenario = scenario.parse().expect("the script of a test");
    ModelServer::start(scenario).expect("a free port")
}

fn request(url: String, api: Api, key: &str) -> HttpRequest {
    let question = Question {
        model: "claude-haiku-4-5".to_owned(),
        system: Some("be brief".to_owned()),
        before: Vec::new(),
        prompt: "what is it?".to_owned(),
        temperature: None,
        max_output_tokens: 100,
        form: None,
    };
    let fixed = api
        .headers()
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    HttpRequest {
        url,
        headers: fixed
            .chain([api.key_header(key)])
            .map(|(name, value)| (name.into(), value))
            .collect(),
        body: request_body(api, &question).to_string().into_bytes(),
        timeout: Duration::from_secs(20),
    }
}

/// The scripted server has a runtime of its own, so it is started outside of this one.
fn ask(request: HttpRequest) -> Result<HttpAnswer, HttpError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(HttpClient::new().post(request))
}

fn post(address: SocketAddr) -> HttpRequest {
    request(format!("http://{address}/v1/messages"), Api::Anthropic, "k")
}

// covers: SENT-16
#[test]
fn each_language_is_understood_by_a_server_of_its_own() {
    let server = server(
        r#""require_key": "sk-right", "turns": [{"repeat": "forever", "text": "It is 42.",
        "usage": {"input": 7, "output": 3, "cache_read": 2}}]"#,
    );
    for (api, path) in [
        (Api::Anthropic, "/v1/messages"),
        (Api::OpenaiChat, "/v1/chat/completions"),
        (Api::OpenaiResponses, "/v1/responses"),
    ] {
        let url = format!("{}{path}", server.url());
        let answer = ask(request(url.clone(), api, "sk-right")).unwrap();
        let reply = read_reply(api, answer.status, answer.retry_after.as_deref(), &answer.body);
        let tokens = TokenUsage {
            input_tokens: 7,
            output_tokens: 3,
            cache_read_tokens: 2,
            ..TokenUsage::ZERO
        };
        assert_eq!(
            reply,
            Ok(ModelReply {
                said: ReplyBody::Text("It is 42.".to_owned()),
                tokens,
                cost: None,
            }),
            "{api:?}"
        );
        let answer = ask(request(url, api, "sk-wrong")).unwrap();
        let refusal = read_reply(api, answer.status, None, &answer.body).unwrap_err();
        assert_eq!((refusal.fatal, refusal.retriable), (true, false), "{api:?}");
    }
    assert_eq!(server.served().iter().filter(|served| served.whole).count(), 3);
}

// covers: SENT-16
#[test]
fn an_error_comes_with_its_status_and_the_wait_that_it_asks_for() {
    let server = server(
        r#""turns": [{"error": {"status": 429, "type": "rate_limit_error", "message": "slow down", "headers": {"retry-after": "7"}}}]"#,
    );
    let url = format!("{}/v1/messages", server.url());
    let answer = ask(request(url, Api::Anthropic, "k")).unwrap();
    assert_eq!((answer.status, answer.retry_after.as_deref()), (429, Some("7")));
    assert_eq!(server.requests().len(), 1, "nothing is tried twice");
}

#[test]
fn a_server_that_hangs_is_given_up_and_one_that_hangs_up_is_an_error_of_the_network() {
    let hanging = server(r#""turns": [{"text": "late", "delay_ms": 600000}]"#);
    let timeout = Duration::from_millis(200);
    let asked = HttpRequest {
        timeout,
        ..request(format!("{}/v1/messages", hanging.url()), Api::Anthropic, "k")
    };
    assert_eq!(ask(asked), Err(HttpError::Timeout(timeout)));
    let cut = server(r#""turns": [{"text": "x", "drop": "before_headers"}]"#);
    let asked = request(format!("{}/v1/messages", cut.url()), Api::Anthropic, "sk-secret");
    let Err(HttpError::Network(why)) = ask(asked) else {
        panic!("an answer that was cut off is none");
    };
    assert!(!why.contains("sk-secret"), "{why}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(matches!(ask(post(nobody)), Err(HttpError::Unreached(_))));
}

/// Reads the head of a request and answers with these bytes.
async fn answer(mut stream: TcpStream, bytes: &[u8]) {
    let mut head = [0; 4096];
    let read = stream.read(&mut head).await.expect("a request");
    assert_ne!(read, 0);
    // A client that has read enough hangs up.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
}

// covers: SENT-16
#[tokio::test]
async fn no_redirect_is_followed_because_a_key_would_go_along() {
    let (here, elsewhere) = (
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let moved = format!(
        "HTTP/1.1 307 Moved\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
        elsewhere.local_addr().unwrap()
    );
    let client = HttpClient::new();
    let asked = client.post(post(here.local_addr().unwrap()));
    let served = async { answer(here.accept().await.unwrap().0, moved.as_bytes()).await };
    let (asked, ()) = tokio::join!(asked, served);
    assert_eq!(asked.unwrap().status, 307);
    assert!(futures_util::FutureExt::now_or_never(elsewhere.accept()).is_none());
}

// covers: SENT-16
#[tokio::test]
async fn an_answer_without_an_end_is_read_up_to_its_limit() {
    let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endless = [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
        b"100000\r\n".to_vec(),
        vec![b' '; 1 << 20],
        b"\r\n".to_vec(),
    ];
    let endless: Vec<u8> = [endless[0].clone(), endless[1..].concat().repeat(8)].concat();
    let client = HttpClient::new();
    let asked = client.post(post(here.local_addr().unwrap()));
    let served = async { answer(here.accept().await.unwrap().0, &endless).await };
    let (asked, ()) = tokio::join!(asked, served);
    assert_eq!(asked, Err(HttpError::TooLong));
}

/// The fifth request comes only once another has been answered: all are held until four are there.
#[tokio::test]
async fn four_requests_are_open_at_a_time() {
    let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = here.local_addr().unwrap();
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let together = Arc::new(Barrier::new(4));
    let (counted, highest) = (Arc::clone(&open), Arc::clone(&most));
    let serving = tokio::spawn(async move {
        let mut served = Vec::new();
        for _ in 0..8 {
            let (stream, _) = here.accept().await.unwrap();
            let (open, most, together) = (Arc::clone(&counted), Arc::clone(&highest), Arc::clone(&together));
            served.push(tokio::spawn(async move {
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                together.wait().await;
                open.fetch_sub(1, Ordering::SeqCst);
                answer(
                    stream,
                    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
                )
                .await;
            }));
        }
        join_all(served).await;
    });
    let client = HttpClient::new();
    let empty = HttpAnswer {
        status: 200,
        retry_after: None,
        body: Vec::new(),
    };
    for answer in join_all((0..8).map(|_| client.post(post(address)))).await {
        assert_eq!(answer, Ok(empty.clone()));
    }
    serving.await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 4);
}
