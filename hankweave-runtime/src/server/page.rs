//! The page that follows a run (WIRE-28). It is served without a token and holds no secret: it reads the
//! token from the fragment of its address, which browsers never send.

/// A file with its type.
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

/// The file at this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
