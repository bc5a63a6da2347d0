//! Admission of a request: the gate decides from its head alone what it gets, such as a page, a refusal or the upgrade to a WebSocket. `accept` calls it.

use std::net::IpAddr;

use tokio_tungstenite::tungstenite::handshake::server::{Request, create_response, write_response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, Version, header};

use super::answers::{ANSWER_PATH, AnswerTokens, TokenAnswer};
use super::head::Head;
use super::origin::{Origin, is_our_host, is_welcome};
use super::page::{self, Asset};
use super::proof::{self, PROOF_PATH};
use super::token::{AccessTokens, Role};

/// The path of the socket.
pub(super) const SOCKET_PATH: &str = "/ws";

/// The path of the list, on a server of a list of records.
const LIST_PATH: &str = "/list";

/// The path below which each record has its page and its socket, on a server of a list.
const RECORDS_PATH: &str = "/r/";

/// Refusal of a request that needs a token.
const NO_TOKEN: (StatusCode, &str) = (
    StatusCode::UNAUTHORIZED,
    "a token is needed: Authorization: Bearer TOKEN, or the subprotocols hankweave, bearer.TOKEN",
);

/// Subprotocol that a client may name in addition to its token.
const SUBPROTOCOL: &str = "hankweave";

/// Prefix of a token in a header.
const BEARER_SCHEME: &[u8] = b"Bearer ";

/// Prefix of a token among the subprotocols.
const BEARER_SUBPROTOCOL: &str = "bearer.";

/// Decides which requests are admitted.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) tokens: AccessTokens,
    pub(super) answers: AnswerTokens,
    /// Host and port under which others reach the server; valid only for the answers of notifications.
    pub(super) reached_as: Option<String>,
    pub(super) port: u16,
    /// Origins of other pages that may connect.
    pub(super) origins: Vec<Origin>,
    /// The server has a list of records, each with a path of its own.
    pub(super) is_list: bool,
}

/// Admission of a request.
#[derive(Debug)]
pub(super) enum Admission {
    /// It gets a file. The text is the host that the request names.
    Asset(&'static Asset, String),
    /// It gets proofs that the server knows its tokens, as JSON.
    Proof(String),
    /// It answers the question that waits.
    Answer(TokenAnswer),
    /// It is refused.
    Refused(StatusCode, &'static str),
    /// It gets the list of records.
    List,
    /// It becomes a WebSocket.
    Upgrade(Upgrade),
}

/// Upgrade to a WebSocket.
#[derive(Debug)]
pub(super) struct Upgrade {
    pub(super) role: Role,
    /// Name of the record, on a server of a list.
    pub(super) record: Option<String>,
    /// HTTP response that accepts the upgrade.
    pub(super) response: Vec<u8>,
}

impl Gate {
    /// Checks the host, the origin, the method, the path and the token, in this order. `reached` is the
    /// address that the connection came to.
    pub(super) fn admit(&self, head: &Head, reached: IpAddr) -> Admission {
        match self.examine(head, reached) {
            Ok(admission) => admission,
            Err((status, why)) => Admission::Refused(status, why),
        }
    }

    fn examine(&self, head: &Head, reached: IpAddr) -> Result<Admission, (StatusCode, &'static str)> {
        let forbidden = |why| (StatusCode::FORBIDDEN, why);
        if let Some(token) = head.path().strip_prefix(ANSWER_PATH) {
            return self.take_answer(head, token, reached);
        }
        let host = head
            .one("host")
            .ok()
            .flatten()
            .filter(|host| is_our_host(host, reached, self.port))
            .ok_or(forbidden("the Host header does not name this server"))?;
        let origin = head
            .one("origin")
            .map_err(|_| forbidden("there are two Origin headers"))?;
        if origin.is_some_and(|origin| !is_welcome(origin, host, &self.origins)) {
            return Err(forbidden("pages from elsewhere may not connect"));
        }
        if head.method == "OPTIONS" {
            return Err(forbidden("nothing is shared with other origins"));
        }
        let (record, path) = self.split_record(head.path());
        let is_socket = path == SOCKET_PATH && record.is_some() == self.is_list;
        if head.method != "GET" {
            let status = match is_socket {
                true => StatusCode::UPGRADE_REQUIRED,
                false => StatusCode::NOT_FOUND,
            };
            return Err((status, "only GET is answered"));
        }
        if head.all("content-length").any(|length| length != b"0")
            || head.all("transfer-encoding").next().is_some()
        {
            return Err((StatusCode::BAD_REQUEST, "a request has no body here"));
        }
        let host = String::from_utf8_lossy(host).into_owned();
        if path == PROOF_PATH && record.is_none() {
            return self.prove(head, &host);
        }
        if path == LIST_PATH && record.is_none() && self.is_list {
            return self.role(head).map(|_| Admission::List).ok_or(NO_TOKEN);
        }
        if !is_socket {
            let asset = match (record, path) {
                (None, "/") if self.is_list => Some(page::list()),
                (None, path) => page::find(path),
                // Below a record there is only its page, which loads its files from the paths of the list.
                (Some(_), path) => page::find(path).filter(|_| path == "/"),
            };
            return asset.map(|asset| Admission::Asset(asset, host)).ok_or((
                StatusCode::NOT_FOUND,
                "there is /, /healthz, /proof and the socket at /ws",
            ));
        }
        self.upgrade(head, record)
    }

    /// Splits a path into the name of a record and the path below it. The name is `None` outside of records, and on a server without a list.
    fn split_record<'p>(&self, path: &'p str) -> (Option<&'p str>, &'p str) {
        let rest = path.strip_prefix(RECORDS_PATH).filter(|_| self.is_list);
        let parts = rest.and_then(|rest| Some(rest.split_at(rest.find('/')?)));
        parts.map_or((None, path), |(record, path)| (Some(record), path))
    }

    /// Accepts the answer of a notification's button, by its token (WIRE-50). Only a POST counts: a program that previews links sends a GET.
    fn take_answer(
        &self,
        head: &Head,
        token: &str,
        reached: IpAddr,
    ) -> Result<Admission, (StatusCode, &'static str)> {
        let host = head.one("host").ok().flatten();
        let is_ours = host.is_some_and(|host| {
            let named = self.reached_as.as_deref();
            let is_named = named.is_some_and(|named| host.eq_ignore_ascii_case(named.as_bytes()));
            is_named || is_our_host(host, reached, self.port)
        });
        if !is_ours {
            return Err((StatusCode::FORBIDDEN, "the Host header does not name this server"));
        }
        if head.method != "POST" {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "an answer is a POST"));
        }
        let answer = self.answers.take(token);
        answer.map(Admission::Answer).ok_or((
            StatusCode::NOT_FOUND,
            "nothing waits for this answer: it was given, or its run has ended",
        ))
    }

    /// Returns proofs that the server knows its tokens, made with the nonce of the request.
    fn prove(&self, head: &Head, host: &str) -> Result<Admission, (StatusCode, &'static str)> {
        let nonce = proof::nonce(head.query()).ok_or((
            StatusCode::BAD_REQUEST,
            "a proof is asked for with ?nonce= and 32 to 128 hex digits",
        ))?;
        let proofs = self.tokens.proofs(host, nonce);
        Ok(Admission::Proof(
            serde_json::json!({ "proofs": proofs }).to_string(),
        ))
    }

    /// Checks a request for the upgrade to a WebSocket, and its token.
    fn upgrade(&self, head: &Head, record: Option<&str>) -> Result<Admission, (StatusCode, &'static str)> {
        let wants = head
            .all("upgrade")
            .any(|value| value.eq_ignore_ascii_case(b"websocket"));
        if !wants {
            return Err((StatusCode::UPGRADE_REQUIRED, "this is the path of a WebSocket"));
        }
        let role = self.role(head).ok_or(NO_TOKEN)?;
        if head.one("sec-websocket-version") != Ok(Some(b"13")) {
            return Err((StatusCode::UPGRADE_REQUIRED, "the version of the protocol is 13"));
        }
        if head.one("sec-websocket-key").is_err() {
            return Err((StatusCode::BAD_REQUEST, "there are two keys"));
        }
        let response =
            upgrade_response(head).ok_or((StatusCode::BAD_REQUEST, "this is no WebSocket handshake"))?;
        Ok(Admission::Upgrade(Upgrade {
            role,
            record: record.map(str::to_owned),
            response,
        }))
    }

    /// Returns the role of the request's token (WIRE-25), from its `Authorization` header or its subprotocols; `None` without a valid token, or with several.
    fn role(&self, head: &Head) -> Option<Role> {
        let header = head.one("authorization").ok()?;
        // A header without a bearer token counts as an empty token, which no role has.
        let of_header = header.map(|value| bearer(value).unwrap_or_default());
        let offered = offered(head);
        // Without our own subprotocol the client would get no answer to its offer, so its token counts as empty, too.
        let is_ours = offered.contains(&SUBPROTOCOL);
        let of_protocol = offered
            .iter()
            .filter_map(|name| name.strip_prefix(BEARER_SUBPROTOCOL))
            .map(|token| if is_ours { token.as_bytes() } else { b"" });
        let mut tokens = of_header.into_iter().chain(of_protocol);
        let token = tokens.next()?;
        match tokens.next() {
            Some(_) => None,
            None => self.tokens.role(token),
        }
    }
}

/// Returns the token of an `Authorization` header. The name of the scheme may be in upper or lower case (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(BEARER_SCHEME.len())?;
    scheme.eq_ignore_ascii_case(BEARER_SCHEME).then_some(token)
}

/// Returns the subprotocols that the client offers.
fn offered(head: &Head) -> Vec<&str> {
    let values = head.all("sec-websocket-protocol");
    let texts = values.filter_map(|value| std::str::from_utf8(value).ok());
    texts.flat_map(|text| text.split(',').map(str::trim)).collect()
}

/// Returns the HTTP response that accepts the upgrade; `None` when the request is no WebSocket handshake. The response never contains the token.
fn upgrade_response(head: &Head) -> Option<Vec<u8>> {
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_11;
    request.headers_mut().clone_from(&head.headers);
    let mut response = create_response(&request).ok()?;
    if offered(head).contains(&SUBPROTOCOL) {
        response.headers_mut().insert(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(SUBPROTOCOL),
        );
    }
    let mut bytes = Vec::new();
    write_response(&mut bytes, &response).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::world::World;
    use crate::world::environment::Environment;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    const HOST: &str = "Host: 127.0.0.1:4000\r\n";
    const TOKEN: &str = "Authorization: Bearer everything\r\n";

    fn gate() -> Gate {
        let folder = tempfile::tempdir().unwrap();
        let variables = [
            ("HANKWEAVE_TOKEN", "everything"),
            ("HANKWEAVE_READONLY_TOKEN", "reading"),
        ];
        let world = World::with_environment(Environment::from_iter(variables));
        Gate {
            tokens: AccessTokens::load(&world, folder.path()).unwrap(),
            answers: AnswerTokens::default(),
            reached_as: Some("box.example".to_owned()),
            port: 4_000,
            origins: Vec::new(),
            is_list: false,
        }
    }

    async fn admit(line: &str, headers: &str) -> Admission {
        let text = format!("{line} HTTP/1.1\r\n{headers}\r\n");
        let head = Head::read(&mut text.as_bytes()).await.unwrap();
        gate().admit(&head, LOOPBACK)
    }

    async fn status(line: &str, headers: &str) -> StatusCode {
        match admit(line, headers).await {
            Admission::Refused(status, _) => status,
            Admission::Asset(..) | Admission::Proof(_) => StatusCode::OK,
            Admission::Answer(answer) => panic!("answered {answer:?}: {line} {headers}"),
            Admission::List => panic!("listed: {line} {headers}"),
            Admission::Upgrade(Upgrade { role, .. }) => panic!("admitted as {role:?}: {line} {headers}"),
        }
    }

    async fn role(headers: &str) -> (Role, String) {
        match admit("GET /ws", &format!("{HOST}{UPGRADE}{headers}")).await {
            Admission::Upgrade(upgrade) => (upgrade.role, String::from_utf8(upgrade.response).unwrap()),
            other => panic!("{other:?}: {headers}"),
        }
    }

    // covers: WIRE-51
    #[tokio::test]
    async fn a_list_and_its_records_have_paths_of_their_own_which_no_other_server_has() {
        let list = Gate {
            is_list: true,
            ..gate()
        };
        let head = async |path: &str, headers: &str| {
            let text = format!("GET {path} HTTP/1.1\r\n{HOST}{headers}\r\n");
            Head::read(&mut text.as_bytes()).await.unwrap()
        };
        let socket = format!("{UPGRADE}{TOKEN}");
        let refused = |admission| match admission {
            Admission::Refused(status, _) => status.as_u16(),
            other => panic!("{other:?}"),
        };
        let at = async |path: &str, headers: &str| list.admit(&head(path, headers).await, LOOPBACK);
        assert!(matches!(at("/list", TOKEN).await, Admission::List));
        assert_eq!(refused(at("/list", "").await), 401);
        assert_eq!(refused(at("/list", "Authorization: Bearer other\r\n").await), 401);
        let foreign = format!("{TOKEN}Origin: http://evil.example\r\n");
        assert_eq!(refused(at("/list", &foreign).await), 403);
        match at("/r/work-0a/ws", &socket).await {
            Admission::Upgrade(upgrade) => assert_eq!(upgrade.record.as_deref(), Some("work-0a")),
            other => panic!("{other:?}"),
        }
        assert_eq!(refused(at("/r/work-0a/ws", UPGRADE).await), 401);
        for page in ["/", "/r/work-0a/", "/page.js", "/page.css"] {
            assert!(matches!(at(page, "").await, Admission::Asset(..)), "{page}");
        }
        for nothing in [
            "/ws",
            "/r/ws",
            "/r/work-0a",
            "/r/work-0a/page.js",
            "/r/work-0a/list",
            "/r/work-0a/r/b/ws",
        ] {
            assert_eq!(refused(at(nothing, &socket).await), 404, "{nothing}");
        }
        for nothing in ["/list", "/r/work-0a/", "/r/work-0a/ws"] {
            assert_eq!(
                refused(admit(&format!("GET {nothing}"), &format!("{HOST}{socket}")).await),
                404,
                "{nothing}"
            );
        }
    }

    // covers: WIRE-25
    #[tokio::test]
    async fn a_token_comes_in_a_header_or_beside_the_subprotocol() {
        let (in_header, answer) = role(TOKEN).await;
        assert_eq!(in_header, Role::Full);
        // The example of RFC 6455, 1.3.
        assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(!answer.contains("protocol"), "none was offered: {answer}");
        assert_eq!(role("authorization: bearer reading\r\n").await.0, Role::ReadOnly);
        for protocols in [
            "Sec-WebSocket-Protocol: hankweave, bearer.reading\r\n",
            "Sec-WebSocket-Protocol: hankweave\r\nSec-WebSocket-Protocol: bearer.reading\r\n",
        ] {
            let (in_protocol, answer) = role(protocols).await;
            assert_eq!(in_protocol, Role::ReadOnly);
            assert!(
                answer.contains("sec-websocket-protocol: hankweave\r\n"),
                "{answer}"
            );
            assert!(!answer.contains("reading"), "{answer}");
        }
    }

    // covers: F12, WIRE-25
    #[tokio::test]
    async fn without_the_right_token_nobody_comes_in() {
        for headers in [
            "",
            "Authorization: Bearer \r\n",
            "Authorization: Bearer Everything\r\n",
            "Authorization: everything\r\n",
            "Authorization: Bearereverything\r\n",
            "Authorization: Basic everything\r\n",
            "Authorization: Bearer everything\r\nAuthorization: Bearer everything\r\n",
            "Authorization: Bearer everything\r\nSec-WebSocket-Protocol: hankweave, bearer.reading\r\n",
            "Authorization: Bearer wrong\r\nSec-WebSocket-Protocol: hankweave, bearer.everything\r\n",
            "Sec-WebSocket-Protocol: hankweave, everything\r\n",
            "Sec-WebSocket-Protocol: bearer.everything\r\n",
            "Sec-WebSocket-Protocol: chat, bearer.everything\r\n",
            "Sec-WebSocket-Protocol: hankweave, bearer.reading, bearer.everything\r\n",
            "Cookie: token=everything\r\n",
        ] {
            let refused = status("GET /ws", &format!("{HOST}{UPGRADE}{headers}")).await;
            assert_eq!(refused, StatusCode::UNAUTHORIZED, "{headers}");
        }
        let in_address = status("GET /ws?token=everything", &format!("{HOST}{UPGRADE}")).await;
        assert_eq!(
            in_address,
            StatusCode::UNAUTHORIZED,
            "a token has no place in an address"
        );
    }

    // covers: F12, WIRE-24
    #[tokio::test]
    async fn a_foreign_page_or_a_rebound_name_is_refused_whatever_its_token() {
        for headers in [
            "",
            "Host: evil.example:4000\r\n",
            "Host: 127.0.0.1:4000\r\nHost: 127.0.0.1:4000\r\n",
            "Host: 127.0.0.1:4000\r\nHost: evil.example\r\n",
            "Host: 127.0.0.1:4000\r\nOrigin: http://evil.example\r\n",
            "Host: 127.0.0.1:4000\r\nOrigin: null\r\n",
            "Host: 127.0.0.1:4000\r\nOrigin: http://127.0.0.1:4000\r\nOrigin: http://evil.example\r\n",
        ] {
            for line in ["GET /ws", "GET /", "GET /healthz", "OPTIONS /ws", "POST /"] {
                let refused = status(line, &format!("{headers}{UPGRADE}{TOKEN}")).await;
                assert_eq!(refused, StatusCode::FORBIDDEN, "{line} {headers}");
            }
        }
        let (own, _) = role(&format!("Origin: http://127.0.0.1:4000\r\n{TOKEN}")).await;
        assert_eq!(own, Role::Full);
    }

    // covers: WIRE-44
    #[tokio::test]
    async fn a_proof_needs_a_nonce_and_our_own_host() {
        let line = "GET /proof?nonce=0123456789abcdef0123456789abcdef";
        match admit(line, HOST).await {
            // The tokens of these tests are too short for a proof.
            Admission::Proof(text) => assert_eq!(text, r#"{"proofs":[]}"#),
            other => panic!("{other:?}"),
        }
        assert_eq!(status("GET /proof", HOST).await, StatusCode::BAD_REQUEST);
        assert_eq!(status("GET /proof?nonce=x", HOST).await, StatusCode::BAD_REQUEST);
        assert_eq!(
            status(line, "Host: 127.0.0.1:4001\r\n").await,
            StatusCode::FORBIDDEN
        );
        let foreign = format!("{HOST}Origin: http://evil.example\r\n");
        assert_eq!(status(line, &foreign).await, StatusCode::FORBIDDEN);
    }

    #[tokio::test]
    async fn plain_requests_get_the_page_or_a_plain_no() {
        for (line, expected) in [
            ("GET /", StatusCode::OK),
            ("GET /healthz", StatusCode::OK),
            ("GET /ws", StatusCode::UPGRADE_REQUIRED),
            ("GET /token", StatusCode::NOT_FOUND),
            ("GET /../token", StatusCode::NOT_FOUND),
            ("GET /?x", StatusCode::OK),
            ("GET /ws?x", StatusCode::UPGRADE_REQUIRED),
            ("GET /x?/", StatusCode::NOT_FOUND),
            ("GET http://127.0.0.1:4000/", StatusCode::NOT_FOUND),
            ("POST /", StatusCode::NOT_FOUND),
            ("HEAD /ws", StatusCode::UPGRADE_REQUIRED),
            ("POST /ws", StatusCode::UPGRADE_REQUIRED),
            ("OPTIONS /", StatusCode::FORBIDDEN),
            ("OPTIONS *", StatusCode::FORBIDDEN),
        ] {
            assert_eq!(status(line, HOST).await, expected, "{line}");
        }
        let body = format!("{HOST}Content-Length: 5\r\n");
        assert_eq!(status("GET /", &body).await, StatusCode::BAD_REQUEST);
        let chunks = format!("{HOST}Transfer-Encoding: chunked\r\n");
        assert_eq!(status("GET /ws", &chunks).await, StatusCode::BAD_REQUEST);
        assert_eq!(status("POST /", &chunks).await, StatusCode::NOT_FOUND);
    }

    // covers: F13
    #[tokio::test]
    async fn an_upgrade_that_lacks_something_is_refused() {
        for (from, to, expected) in [
            ("Connection: keep-alive, Upgrade\r\n", "", StatusCode::BAD_REQUEST),
            ("Version: 13", "Version: 8", StatusCode::UPGRADE_REQUIRED),
            (
                "Version: 13",
                "Version: 13\r\nSec-WebSocket-Version: 13",
                StatusCode::UPGRADE_REQUIRED,
            ),
            ("dGhlIHNhbXBsZSBub25jZQ==", "short", StatusCode::BAD_REQUEST),
            (
                "Sec-WebSocket-Key:",
                "Sec-WebSocket-Key: x\r\nSec-WebSocket-Key:",
                StatusCode::BAD_REQUEST,
            ),
            ("Upgrade: websocket", "Upgrade: h2c", StatusCode::UPGRADE_REQUIRED),
        ] {
            let headers = format!("{HOST}{UPGRADE}{TOKEN}").replace(from, to);
            assert_eq!(status("GET /ws", &headers).await, expected, "{to}");
        }
    }

    // covers: WIRE-50
    #[tokio::test]
    async fn a_button_answers_once_with_a_post_to_a_known_host() {
        let gate = gate();
        let codon = hankweave_core::id::CodonId::new("deploy").unwrap();
        let path = gate.answers.issue(&World::real(), &codon).approve;
        for (method, path, host, status) in [
            ("GET", &*path, "box.example", 405),
            ("POST", &path, "elsewhere.example", 403),
            ("POST", "/answer/0123", "127.0.0.1:4000", 404),
            // Nothing else is reached under that name.
            ("GET", "/", "box.example", 403),
            ("POST", &path, "BOX.example", 200),
            ("POST", &path, "box.example", 404),
        ] {
            let text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
            let head = Head::read(&mut text.as_bytes()).await.unwrap();
            let found = match gate.admit(&head, LOOPBACK) {
                Admission::Refused(status, _) => status.as_u16(),
                Admission::Answer(answer) if answer.granted => 200,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, status, "{method} {path} {host}");
        }
    }
}
