//! The origin of a request and the host that it names: foreign web pages are kept out (WIRE-23, WIRE-24).

use std::net::IpAddr;

/// A web origin: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// Reads `scheme://host` or `scheme://host:port`; `None` for anything else, `null` among it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        let (host, port) = match split_port(rest) {
            (host, Some(port)) => (host, port?),
            (host, None) => (host, default_port?),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
        let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_scheme && !host.is_empty() && host.chars().all(is_plain)).then(|| Self {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

/// Splits the host from the port: `None` without a port, `Some(None)` for a port that is not valid.
#[expect(
    clippy::option_option,
    reason = "no port and a wrong port are different things"
)]
fn split_port(authority: &str) -> (&str, Option<Option<u16>>) {
    let (host, port) = match authority.rsplit_once(':') {
        // The colon is part of an address in brackets, not the start of a port.
        Some((_, rest)) if rest.ends_with(']') => return (authority, None),
        Some(parts) => parts,
        None => return (authority, None),
    };
    // Valid as browsers write it: digits without a leading zero.
    let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    (host, Some(port.parse().ok().filter(|_| is_plain)))
}

/// Whether `host`, the value of a `Host` header, names this server exactly; case does not matter
/// (RFC 9110, 4.2.3).
///
/// `reached` is the address that the connection came to. A server on the loopback has three names; one that
/// listens elsewhere is also called by its address.
pub(super) fn is_our_host(host: &[u8], reached: IpAddr, port: u16) -> bool {
    let names = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
    ];
    let address = match reached {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => format!("{address}:{port}"),
            None => format!("[{address}]:{port}"),
        },
    };
    let mut names = names.iter().chain([&address]);
    names.any(|name| name.as_bytes().eq_ignore_ascii_case(host))
}

/// Whether a page from `origin` may connect: it is our own page, from the host that the request names, or its origin is in `allowed`.
pub(super) fn is_welcome(origin: &[u8], host: &[u8], allowed: &[Origin]) -> bool {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let Some(origin) = text(origin).and_then(Origin::parse) else {
        return false;
    };
    let own = text(host).and_then(|host| Origin::parse(&format!("http://{host}")));
    own.as_ref() == Some(&origin) || allowed.contains(&origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    // covers: F12, WIRE-23
    #[test]
    fn the_server_has_three_names_and_no_other() {
        let ours = |host: &str| is_our_host(host.as_bytes(), LOOPBACK, 4_000);
        for host in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000", "[::1]:4000"] {
            assert!(ours(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:4001",
            "localhost:04000",
            "localhost:4000 ",
            "localhost.:4000",
            "127.0.0.1.:4000",
            "127.1:4000",
            "2130706433:4000",
            "evil.example:4000",
            "localhost:4000.evil.example",
            "evil.example#localhost:4000",
            "user@localhost:4000",
            "0.0.0.0:4000",
        ] {
            assert!(!ours(host), "{host}");
        }
        assert!(!is_our_host(b"\xff\xfe:4000", LOOPBACK, 4_000));
    }

    // covers: WIRE-23
    #[test]
    fn a_server_that_listens_elsewhere_is_called_by_the_address_that_was_reached() {
        let reached = |address: &str| address.parse().unwrap();
        assert!(is_our_host(b"10.0.0.7:80", reached("10.0.0.7"), 80));
        assert!(is_our_host(b"10.0.0.7:80", reached("::ffff:10.0.0.7"), 80));
        assert!(is_our_host(b"[fd00::1]:80", reached("fd00::1"), 80));
        assert!(is_our_host(b"[FD00::1]:80", reached("fd00::1"), 80));
        assert!(!is_our_host(b"10.0.0.8:80", reached("10.0.0.7"), 80));
        assert!(!is_our_host(b"rebound.example:80", reached("10.0.0.7"), 80));
    }

    // covers: F12, WIRE-24
    #[test]
    fn an_origin_is_compared_by_scheme_host_and_port() {
        let host = b"127.0.0.1:4000";
        let welcome = |origin: &str, allowed: &[Origin]| is_welcome(origin.as_bytes(), host, allowed);
        assert!(welcome("http://127.0.0.1:4000", &[]));
        assert!(welcome("HTTP://127.0.0.1:4000", &[]));
        for foreign in [
            "null",
            "",
            "http://127.0.0.1",
            "http://127.0.0.1:4001",
            "http://127.0.0.1:04000",
            "http://127.0.0.1:+4000",
            "http://127.0.0.1:",
            "https://127.0.0.1:4000",
            "http://localhost:4000",
            "http://evil.example",
            "http://127.0.0.1:4000.evil.example",
            "http://127.0.0.1:4000/",
            "http://127.0.0.1:4000@evil.example",
            "http://evil.example/http://127.0.0.1:4000",
            "file://",
            "chrome-extension://abc",
            "http://127.0.0.1:4000 http://evil.example",
        ] {
            assert!(!welcome(foreign, &[]), "{foreign}");
        }
        assert!(!is_welcome(b"http://\xff:4000", host, &[]));
        let list = [Origin::parse("https://board.example").unwrap()];
        assert!(welcome("https://board.example:443", &list));
        assert!(!welcome("https://sub.board.example", &list));
        assert!(!welcome("http://board.example", &list));
    }
}
