//! Registration of workers with Restate.

use std::borrow::Cow;
use std::time::Duration;

use hankweave_runtime::world::http::{Http, HttpError, HttpRequest};
use serde_json::json;

/// Time limit of a registration, in which Restate also asks the workers which services they have.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reason why Restate does not have the workers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Restate was not reached.
    #[error("Restate at {admin} does not answer: {source}")]
    Away {
        /// Address of Restate's admin interface.
        admin: String,
        /// Reason.
        source: HttpError,
    },
    /// Restate refused.
    #[error("Restate refuses the workers at {address} with {status}: {message}")]
    Refused {
        /// Address of the workers.
        address: String,
        /// HTTP status.
        status: u16,
        /// Message.
        message: String,
    },
}

/// Registers the workers at `address`, which Restate must be able to reach, with its admin interface at `admin`. Registering again is allowed.
/// Restate asks the workers which services they have before this returns, so they must be serving already.
///
/// # Errors
///
/// Returns the reason why Restate does not have the workers.
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

/// Returns the message in Restate's answer, or the start of an answer without one.
fn message(body: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match answer["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).chars().take(500).collect(),
    }
}
