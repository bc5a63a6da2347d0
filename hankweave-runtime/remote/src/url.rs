//! Addresses of remotes: checked before git gets them, and without passwords for messages.

use std::path::Path;

use hankweave_runtime::world::World;

use crate::error::RemoteError;

/// Returns an error for an invalid address, such as one that git could take for an option.
pub(crate) fn check_url(url: &str) -> Result<(), RemoteError> {
    let why = match url {
        "" => "it is empty",
        url if url.starts_with('-') => "it begins with `-`",
        url if url.contains(['\n', '\0']) => "it has a line break",
        _ => return Ok(()),
    };
    Err(RemoteError::BadUrl {
        url: url.escape_debug().to_string(),
        why,
    })
}

/// Returns the address without its password, or the token in place of a user, for display.
#[must_use]
pub fn shown(url: &str) -> String {
    without_password(url).unwrap_or_else(|| url.to_owned())
}

fn without_password(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@')?;
    let is_http = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let user = match user.split_once(':') {
        // Over HTTP a user without a password is a token. GitHub also takes a token with this fixed password.
        None | Some((_, "" | "x-oauth-basic")) if is_http => "***".to_owned(),
        Some((user, _)) => format!("{user}:***"),
        None => return None,
    };
    Some(format!("{scheme}://{user}@{host}/{path}"))
}

/// Makes the address of an existing local folder absolute, because git runs in another folder. Other addresses stay.
#[must_use]
pub fn absolute(world: &World, url: &str) -> String {
    let is_local = !url.contains("://") && !url.split('/').next().unwrap_or_default().contains(':');
    let real = is_local.then(|| world.disk.real_path(Path::new(url)));
    match real {
        Some(Ok(path)) => path.to_str().map_or_else(|| url.to_owned(), str::to_owned),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_and_an_option_is_no_address() {
        assert_eq!(
            shown("https://ann:secret@x.example/a.git"),
            "https://ann:***@x.example/a.git"
        );
        for user in ["token", "token:", "token:x-oauth-basic"] {
            assert_eq!(
                shown(&format!("HTTPS://{user}@x.example/a.git")),
                "HTTPS://***@x.example/a.git"
            );
        }
        for url in [
            "https://x.example/a.git",
            "git@x.example:a.git",
            "ssh://git@x.example/a",
            "/srv/a.git",
        ] {
            assert_eq!(shown(url), url);
            check_url(url).unwrap();
        }
        for url in ["", "-x", "--upload-pack=touch x", "a\nb"] {
            assert!(matches!(check_url(url), Err(RemoteError::BadUrl { .. })), "{url}");
        }
    }
}
