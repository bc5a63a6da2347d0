//! The page that follows a run (WIRE-28). It is served without a token and holds no secret: it reads the
//! token from the fragment of its address, which browsers never send.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file that the server sends, with its type.
#[derive(Debug)]
pub(super) struct Asset {
    path: &'static str,
    pub(super) media_type: &'static str,
    pub(super) body: &'static str,
}

const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        media_type: "text/html; charset=utf-8",
        body: include_str!("page/index.html"),
    },
    Asset {
        path: "/page.css",
        media_type: "text/css; charset=utf-8",
        body: include_str!("page/page.css"),
    },
    Asset {
        path: "/page.js",
        media_type: "text/javascript; charset=utf-8",
        body: include_str!("page/page.js"),
    },
    Asset {
        path: "/healthz",
        media_type: "text/plain; charset=utf-8",
        body: "ok\n",
    },
];

/// Page of a list of records: the page of a run with an attribute that makes it draw a list.
static LIST: LazyLock<Asset> = LazyLock::new(|| {
    let page = include_str!("page/index.html").replacen("<div id=\"page\"", "<div id=\"page\" data-list", 1);
    Asset {
        path: "/",
        media_type: "text/html; charset=utf-8",
        body: page.leak(),
    }
});

/// The page of a list of records.
pub(super) fn list() -> &'static Asset {
    &LIST
}

/// The file at this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// The page as one file that opens without a server, with a recorded run as `record`, which is JSON (WIRE-43).
///
/// The file may load nothing and run nothing but the page itself, even if the record contains code.
#[must_use]
pub fn exported_page(record: &str) -> String {
    let text = |path| find(path).map_or("", |asset| asset.body);
    let (script, style) = (text("/page.js"), text("/page.css"));
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        source_hash(script),
        source_hash(style)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1, viewport-fit=cover\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>hankweave</title>\n\
         <link rel=\"icon\" id=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n\
         <noscript>This page needs JavaScript.</noscript>\n<div id=\"page\"></div>\n\
         <script type=\"application/json\" id=\"record\">{}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n",
        escaped(record)
    )
}

/// Returns JSON that ends no script element and starts no comment in one. These characters occur only in texts, where JSON
/// has escapes for them.
fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{:04x}", u32::from(character));
            }
            _ => safe.push(character),
        }
    }
    safe
}

/// Name of a text in a content security policy.
fn source_hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        [18, 12, 6, 0].map(|shift| char::from(ALPHABET[(bits >> shift & 63) as usize]))
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        text.extend(&digits(chunk)[..=chunk.len()]);
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xfe]), "/+/+");
    }

    #[test]
    fn the_page_of_a_list_differs_in_a_mark() {
        let (page, list) = (find("/").unwrap().body, list().body);
        assert_ne!(page, list);
        assert_eq!(list.replace(" data-list", ""), page);
    }

    // covers: WIRE-43
    #[test]
    fn nothing_in_a_record_ends_its_element() {
        let hostile = "{\"a\":\"</script><script>alert(1)</script><!--<script>\u{2028}&amp;\"}";
        let page = exported_page(hostile);
        let (before, rest) = page.split_once("id=\"record\">").unwrap();
        let (record, _) = rest.split_once("</script>").unwrap();
        assert!(!record.contains(['<', '>', '&', '\u{2028}']), "{record}");
        let parsed: serde_json::Value = serde_json::from_str(record).unwrap();
        assert_eq!(
            parsed,
            serde_json::from_str::<serde_json::Value>(hostile).unwrap()
        );
        assert!(before.contains("script-src 'sha256-"), "{before}");
        for asset in ["/page.js", "/page.css"] {
            let body = find(asset).unwrap().body.to_lowercase();
            for end in ["</script", "</style", "<!--"] {
                assert!(
                    !body.contains(end),
                    "{asset} cannot stand in a page: it has {end}"
                );
            }
        }
    }
}
