//! What becomes of a request: a page, a refusal, or the way to the socket. Decided from its head alone, before any upgrade.

use std::net::IpAddr;

use tokio_tungstenite::tungstenite::handshake::server::{Request, create_response, write_response};
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, Version, header};

use super::head::Head;
use super::origin::{Origin, is_our_host, is_welcome};
use super::page::{self, Asset};
use super::token::{Role, Tokens};

/// The path of the socket.
pub(super) const SOCKET_PATH: &str = "/ws";

/// The subprotocol that a client may name beside its token.
const SUBPROTOCOL: &str = "hankweave";

/// How a token stands in a header.
const BEARER_SCHEME: &[u8] = b"Bearer ";

/// How a token stands among the subprotocols.
const BEARER_SUBPROTOCOL: &str = "bearer.";

/// Decides who comes in.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) tokens: Tokens,
    pub(super) port: u16,
    pub(super) origins: Vec<Origin>,
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Admission {
    /// It gets a file, under the name by which it called the server.
    Asset(&'static Asset, String),
    /// It is turned away.
    Refused(Status, &'static str),
    /// It becomes a WebSocket, after this answer.
    Upgrade(Role, Vec<u8>),
}

/// A status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Timeout,
    UpgradeRequired,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    pub(super) const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::Timeout => "408 Request Timeout",
            Self::UpgradeRequired => "426 Upgrade Required",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

impl Gate {
    /// Looks at the host, the origin, the method, the path and the token, in this order. `reached` is the address that the connection came to.
    pub(super) fn admit(&self, head: &Head, reached: IpAddr) -> Admission {
        match self.examine(head, reached) {
            Ok(admission) => admission,
            Err((status, why)) => Admission::Refused(status, why),
        }
    }

    fn examine(&self, head: &Head, reached: IpAddr) -> Result<Admission, (Status, &'static str)> {
        let forbidden = |why| (Status::Forbidden, why);
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
        let is_socket = head.path() == SOCKET_PATH;
        if head.method != "GET" {
            let status = match is_socket {
                true => Status::UpgradeRequired,
                false => Status::NotFound,
            };
            return Err((status, "only GET is answered"));
        }
        if head.all("content-length").any(|length| length != b"0")
            || head.all("transfer-encoding").next().is_some()
        {
            return Err((Status::BadRequest, "a request has no body here"));
        }
        if !is_socket {
            let asset = page::find(head.path());
            let host = String::from_utf8_lossy(host).into_owned();
            return asset
                .map(|asset| Admission::Asset(asset, host))
                .ok_or((Status::NotFound, "there is /, /healthz and the socket at /ws"));
        }
        self.upgrade(head)
    }

    fn upgrade(&self, head: &Head) -> Result<Admission, (Status, &'static str)> {
        let wants = head
            .all("upgrade")
            .any(|value| value.eq_ignore_ascii_case(b"websocket"));
        if !wants {
            return Err((Status::UpgradeRequired, "this is the path of a WebSocket"));
        }
        let role = self.role(head).ok_or((
            Status::Unauthorized,
            "a token is needed: Authorization: Bearer TOKEN, or the subprotocols hankweave, bearer.TOKEN",
        ))?;
        if head.one("sec-websocket-version") != Ok(Some(b"13")) {
            return Err((Status::UpgradeRequired, "the version of the protocol is 13"));
        }
        if head.one("sec-websocket-key").is_err() {
            return Err((Status::BadRequest, "there are two keys"));
        }
        let answer = answer(head).ok_or((Status::BadRequest, "this is no WebSocket handshake"))?;
        Ok(Admission::Upgrade(role, answer))
    }

    /// What the one token of the request allows (WIRE-25).
    fn role(&self, head: &Head) -> Option<Role> {
        let header = head.one("authorization").ok()?;
        let of_header = header.map(|value| bearer(value).unwrap_or_default());
        let offered = offered(head);
        // Beside our own subprotocol only, or a client would get no answer to what it offers.
        let is_ours = offered.contains(&SUBPROTOCOL);
        let of_protocol = offered
            .iter()
            .filter_map(|name| name.strip_prefix(BEARER_SUBPROTOCOL))
            .map(|token| if is_ours { token.as_bytes() } else { b"" });
        let mut tokens = of_header.into_iter().chain(of_protocol);
        let token = tokens.next()?;
        // Two tokens would leave open which of them counts.
        tokens.next().is_none().then(|| self.tokens.role(token))?
    }
}

/// The token of an `Authorization` header; the name of the scheme may be in any case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(BEARER_SCHEME.len())?;
    scheme.eq_ignore_ascii_case(BEARER_SCHEME).then_some(token)
}

/// The subprotocols that the client offers.
fn offered(head: &Head) -> Vec<&str> {
    let values = head.all("sec-websocket-protocol");
    let texts = values.filter_map(|value| std::str::from_utf8(value).ok());
    texts.flat_map(|text| text.split(',').map(str::trim)).collect()
}

/// The answer that accepts the upgrade; `None` when the request lacks what it must have. The token is never sent back.
fn answer(head: &Head) -> Option<Vec<u8>> {
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_11;
    for (name, value) in head.headers() {
        let (name, value) = (
            HeaderName::from_bytes(name.as_bytes()).ok()?,
            HeaderValue::from_bytes(value).ok()?,
        );
        request.headers_mut().append(name, value);
    }
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
            tokens: Tokens::load(&world, folder.path()).unwrap(),
            port: 4_000,
            origins: Vec::new(),
        }
    }

    async fn admit(line: &str, headers: &str) -> Admission {
        let text = format!("{line} HTTP/1.1\r\n{headers}\r\n");
        let head = Head::read(&mut text.as_bytes()).await.unwrap();
        gate().admit(&head, LOOPBACK)
    }

    async fn status(line: &str, headers: &str) -> Status {
        match admit(line, headers).await {
            Admission::Refused(status, _) => status,
            Admission::Asset(..) => Status::Ok,
            Admission::Upgrade(role, _) => panic!("admitted as {role:?}: {line} {headers}"),
        }
    }

    async fn role(headers: &str) -> (Role, String) {
        match admit("GET /ws", &format!("{HOST}{UPGRADE}{headers}")).await {
            Admission::Upgrade(role, answer) => (role, String::from_utf8(answer).unwrap()),
            other => panic!("{other:?}: {headers}"),
        }
    }

    // covers: WIRE-25
    #[tokio::test]
    async fn a_token_comes_in_a_header_or_beside_the_subprotocol() {
        let (in_header, answer) = role(TOKEN).await;
        assert_eq!(in_header, Role::Full);
        // The example of RFC 6455, section 1.3.
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
            assert_eq!(refused, Status::Unauthorized, "{headers}");
        }
        let in_address = status("GET /ws?token=everything", &format!("{HOST}{UPGRADE}")).await;
        assert_eq!(
            in_address,
            Status::Unauthorized,
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
                assert_eq!(refused, Status::Forbidden, "{line} {headers}");
            }
        }
        let (own, _) = role(&format!("Origin: http://127.0.0.1:4000\r\n{TOKEN}")).await;
        assert_eq!(own, Role::Full);
    }

    #[tokio::test]
    async fn plain_requests_get_the_page_or_a_plain_no() {
        for (line, expected) in [
            ("GET /", Status::Ok),
            ("GET /healthz", Status::Ok),
            ("GET /ws", Status::UpgradeRequired),
            ("GET /token", Status::NotFound),
            ("GET /../token", Status::NotFound),
            ("GET /?x", Status::Ok),
            ("GET /ws?x", Status::UpgradeRequired),
            ("GET /x?/", Status::NotFound),
            ("GET http://127.0.0.1:4000/", Status::NotFound),
            ("POST /", Status::NotFound),
            ("HEAD /ws", Status::UpgradeRequired),
            ("POST /ws", Status::UpgradeRequired),
            ("OPTIONS /", Status::Forbidden),
            ("OPTIONS *", Status::Forbidden),
        ] {
            assert_eq!(status(line, HOST).await, expected, "{line}");
        }
        let body = format!("{HOST}Content-Length: 5\r\n");
        assert_eq!(status("GET /", &body).await, Status::BadRequest);
        let chunks = format!("{HOST}Transfer-Encoding: chunked\r\n");
        assert_eq!(status("GET /ws", &chunks).await, Status::BadRequest);
        assert_eq!(status("POST /", &chunks).await, Status::NotFound);
    }

    // covers: F13
    #[tokio::test]
    async fn an_upgrade_that_lacks_something_is_refused() {
        for (from, to, expected) in [
            ("Connection: keep-alive, Upgrade\r\n", "", Status::BadRequest),
            ("Version: 13", "Version: 8", Status::UpgradeRequired),
            (
                "Version: 13",
                "Version: 13\r\nSec-WebSocket-Version: 13",
                Status::UpgradeRequired,
            ),
            ("dGhlIHNhbXBsZSBub25jZQ==", "short", Status::BadRequest),
            (
                "Sec-WebSocket-Key:",
                "Sec-WebSocket-Key: x\r\nSec-WebSocket-Key:",
                Status::BadRequest,
            ),
            ("Upgrade: websocket", "Upgrade: h2c", Status::UpgradeRequired),
        ] {
            let headers = format!("{HOST}{UPGRADE}{TOKEN}").replace(from, to);
            assert_eq!(status("GET /ws", &headers).await, expected, "{to}");
        }
    }
}
