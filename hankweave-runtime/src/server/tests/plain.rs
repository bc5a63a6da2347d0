//! Requests that are answered without an upgrade (WIRE-28).

use super::guest::exchange;
use super::*;

fn status(answer: &str) -> &str {
    answer.split("\r\n").next().unwrap_or_default()
}

// covers: WIRE-28
#[tokio::test]
async fn the_page_is_served_with_a_policy_and_without_secrets() {
    let live = live(waiting(&["one"])).await;
    let own = format!("Host: 127.0.0.1:{}\r\n\r\n", live.port);
    for path in ["/", "/page.js", "/page.css", "/healthz"] {
        let answer = exchange(&live, format!("GET {path} HTTP/1.1\r\n{own}").as_bytes()).await;
        assert_eq!(status(&answer), "HTTP/1.1 200 OK", "{path}");
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws://127.0.0.1:{};",
            live.port
        );
        assert!(answer.contains(&policy), "{answer}");
        assert!(
            answer.contains("X-Content-Type-Options: nosniff\r\n")
                && answer.contains("Cache-Control: no-store\r\n")
        );
        assert!(!answer.contains("Access-Control") && !answer.contains(&live.token));
    }
    live.stop().await;
}

// covers: F12, F13, WIRE-28
#[tokio::test]
async fn whatever_else_is_sent_gets_a_plain_no_and_the_run_goes_on() {
    let live = live(waiting(&["one"])).await;
    let port = live.port;
    let own = format!("Host: localhost:{port}\r\n\r\n");
    for (request, expected) in [
        (format!("GET /nothing HTTP/1.1\r\n{own}"), "404"),
        (format!("GET /ws HTTP/1.1\r\n{own}"), "426"),
        (format!("OPTIONS / HTTP/1.1\r\n{own}"), "403"),
        (
            format!("GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"),
            "403",
        ),
        (
            format!("GET / HTTP/1.1\r\nOrigin: http://evil.example\r\n{own}"),
            "403",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "403"),
        ("no http\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.0\r\n{own}"), "400"),
        (
            format!("GET / HTTP/1.1\r\nX: {}\r\n{own}", "x".repeat(9_000)),
            "431",
        ),
        (format!("GET / HTTP/1.1\r\n{}{own}", "X: x\r\n".repeat(70)), "431"),
    ] {
        let answer = exchange(&live, request.as_bytes()).await;
        let line = status(&answer);
        assert!(
            line.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{line}: {request}"
        );
        assert!(!answer.contains("Access-Control"), "{answer}");
    }
    live.stop().await;
}
