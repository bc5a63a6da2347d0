//! Settings of the export, from the environment variables of OpenTelemetry (`OTEL_*`).

use hankweave_runtime::world::environment::Environment;
use serde_json::Value;

use super::spans::text;

/// Addresses, headers and attributes of the export.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// Address for traces; `None` if none are sent.
    pub(super) traces: Option<String>,
    /// Address for metrics; `None` if none are sent.
    pub(super) metrics: Option<String>,
    /// Additional headers of each request.
    pub(super) headers: Vec<(String, String)>,
    /// Attributes of the resource, which is this program: its service name, version, and those that the user adds.
    pub(super) resource: Vec<Value>,
}

impl Settings {
    /// Reads the settings; `None` if no endpoint is set, or if `OTEL_SDK_DISABLED` is `true`.
    pub(super) fn of(environment: &Environment) -> Option<Self> {
        Self::read(&|name| {
            let value = environment.get(name)?.to_str()?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        })
    }

    fn read(get: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        if get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let base = get("OTEL_EXPORTER_OTLP_ENDPOINT");
        let base = base.as_deref().map(|base| base.trim_end_matches('/'));
        let address_of = |signal: &str, path: &str| {
            let own = get(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
            own.or_else(|| base.map(|base| format!("{base}{path}")))
        };
        let (traces, metrics) = (
            address_of("TRACES", "/v1/traces"),
            address_of("METRICS", "/v1/metrics"),
        );
        if traces.is_none() && metrics.is_none() {
            return None;
        }
        let mut named = pairs(get("OTEL_RESOURCE_ATTRIBUTES"));
        let service = get("OTEL_SERVICE_NAME");
        if let Some(service) = service {
            named.retain(|(name, _)| name != "service.name");
            named.push(("service.name".to_owned(), service));
        } else if !named.iter().any(|(name, _)| name == "service.name") {
            named.push(("service.name".to_owned(), "hankweave".to_owned()));
        }
        named.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        Some(Self {
            traces,
            metrics,
            headers: pairs(get("OTEL_EXPORTER_OTLP_HEADERS")),
            resource: named.iter().map(|(name, value)| text(name, value)).collect(),
        })
    }
}

/// Returns the pairs of a list such as `a=b,c=d%20e`; other entries are left out.
fn pairs(list: Option<String>) -> Vec<(String, String)> {
    let list = list.unwrap_or_default();
    let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), decoded(value.trim())));
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

/// Decodes percent-encoding, such as `%20` for a space.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<Settings> {
        let owned = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        Settings::read(&owned)
    }

    #[test]
    fn nothing_is_exported_until_an_endpoint_is_set() {
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "x")]), None);
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://here:4318/");
        assert_eq!(read(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]), None);
        let found = read(&[endpoint]).unwrap();
        assert_eq!(found.traces.as_deref(), Some("http://here:4318/v1/traces"));
        assert_eq!(found.metrics.as_deref(), Some("http://here:4318/v1/metrics"));
        let own = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://there/t")]).unwrap();
        assert_eq!(
            (own.traces.as_deref(), own.metrics),
            (Some("http://there/t"), None)
        );
    }

    #[test]
    fn headers_and_attributes_are_pairs() {
        let found = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://here"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20abc, x-team = ours ,odd,=no,half=%4",
            ),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b"),
            ("OTEL_SERVICE_NAME", "mine"),
        ])
        .unwrap();
        let headers: Vec<(&str, &str)> = found
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(
            headers,
            [
                ("authorization", "Bearer abc"),
                ("x-team", "ours"),
                ("half", "%4")
            ]
        );
        assert_eq!(
            found.resource[..2],
            [text("team", "b"), text("service.name", "mine")]
        );
    }
}
