//! Tells Restate where the workers are.

use std::borrow::Cow;
use std::time::Duration;

use hankweave_runtime::world::http::{Http, HttpError, HttpRequest};
use serde_json::json;

/// Restate asks the worker what it serves before it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why Restate does not have the workers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It was not reached.
    #[error("Restate at {admin} does not answer: {source}")]
    Away {
        /// Expected address.
        admin: String,
        /// Why.
        source: HttpError,
    },
    /// It says no.
    #[error("Restate refuses the workers at {address} with {status}: {message}")]
    Refused {
        /// Address of the workers.
        address: String,
        /// The status of HTTP.
        status: u16,
        /// Message.
        message: String,
    },
}

/// Registers the workers that are served at `address`, which Restate must reach, with its admin interface at `admin`. The same may be registered again and again. Restate
/// asks what they serve before this returns.
///
/// # Errors
///
/// Returns why Restate does not have them.
pub async fn register(http: &dyn Http, admin: &str, address: &str) -> Result<(), RegisterError> {
    let body = json!({"uri": address, "force": false});
    let request = HttpRequest {
        url: format!("{}/deployments", admin.trim_end_matches('/')),
        headers: vec![(Cow::Borrowed("content-type"), "application/json".to_owned())],
        body: body.to_string().into_bytes(),
        timeout: PATIENCE,
    };
    let answer = http.post(request).await.map_err(|source| RegisterError::Away {
        admin: admin.to_owned(),
        source,
    })?;
    match answer.status {
        200..=299 => Ok(()),
        status => Err(RegisterError::Refused {
            address: address.to_owned(),
            status,
            message: message(&answer.body),
        }),
    }
}

/// The first lines of what it says, for people.
fn message(body: &[u8]) -> String {
    let told: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match told["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).chars().take(500).collect(),
    }
}
