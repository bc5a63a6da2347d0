//! The report as one HTML page without scripts, for `hankweave report --html`.

use pulldown_cmark::{Event, Options, Parser, html};

const STYLE: &str = "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;color-scheme:light dark}\
    table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #8884;padding:.3rem .6rem;text-align:left;vertical-align:top}\
    code{font-size:.9em}blockquote{border-left:3px solid #c33;margin-left:0;padding-left:1rem}";

/// Returns a page of a Markdown text.
pub(super) fn page(title: &str, markdown: &str) -> String {
    // The Markdown of a report contains no HTML. Should it ever, the HTML is shown as text.
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    let mut head = String::new();
    html::push_html(&mut head, std::iter::once(Event::Text(title.into())));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{head}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n"
    )
}
