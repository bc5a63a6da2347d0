//! The two tokens of a server: one for all rights and one for reading (WIRE-26).

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;

use hankweave_core::discovery::{
    MAX_TOKEN_FILE_BYTES, READ_ONLY_TOKEN_FILE, READ_ONLY_TOKEN_VARIABLE, TOKEN_FILE, TOKEN_VARIABLE,
};
use sha2::{Digest, Sha256};

use super::{ServeError, proof};
use crate::world::World;
use crate::world::disk::{self, Disk, FileKind, IoError};
use crate::world::ids::hex;

/// Longest valid token, in bytes.
const LONGEST: usize = 256;

/// Role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Everything.
    Full,
    /// Watching.
    ReadOnly,
}

/// Both tokens of an execution directory.
#[derive(Clone)]
pub(super) struct AccessTokens {
    full: Secret,
    read_only: Secret,
}

/// A token with its checksum. Tokens are compared by their checksums, in a time that does not depend on the difference.
#[derive(Clone)]
struct Secret {
    text: String,
    digest: [u8; 32],
}

impl AccessTokens {
    /// Returns the tokens of the environment, else those of the directory, which are made once and stored. Blocks.
    pub(super) fn load(world: &World, state_dir: &Path) -> Result<Self, ServeError> {
        let load = |variable, file| match world.environment.get(variable) {
            Some(value) => of_environment(variable, value),
            None => of_directory(world, &state_dir.join(file)),
        };
        let (full, read_only) = (
            load(TOKEN_VARIABLE, TOKEN_FILE)?,
            load(READ_ONLY_TOKEN_VARIABLE, READ_ONLY_TOKEN_FILE)?,
        );
        Self { full, read_only }.checked()
    }

    /// Returns the tokens of the environment, else temporary ones.
    pub(super) fn of_process(world: &World) -> Result<Self, ServeError> {
        let load = |variable, temporary| match world.environment.get(variable) {
            Some(value) => of_environment(variable, value),
            None => Ok(temporary),
        };
        let temporary = Self::temporary(world);
        let (full, read_only) = (
            load(TOKEN_VARIABLE, temporary.full)?,
            load(READ_ONLY_TOKEN_VARIABLE, temporary.read_only)?,
        );
        Self { full, read_only }.checked()
    }

    /// Checks that the two tokens differ.
    fn checked(self) -> Result<Self, ServeError> {
        match self.full.digest == self.read_only.digest {
            true => Err(ServeError::SameTokens),
            false => Ok(self),
        }
    }

    /// Returns the rights of a client with this token; `None` when the token is unknown.
    pub(super) fn role(&self, token: &[u8]) -> Option<Role> {
        let digest = digest(token);
        // Always compared with both, so that the time taken shows nothing.
        let (full, read_only) = (self.full.is(&digest), self.read_only.is(&digest));
        match (full, read_only) {
            (true, _) => Some(Role::Full),
            (false, true) => Some(Role::ReadOnly),
            (false, false) => None,
        }
    }

    /// Returns the proofs that the server at `host` knows its tokens (WIRE-44).
    pub(super) fn proofs(&self, host: &str, nonce: &str) -> Vec<String> {
        let tokens = [&self.full, &self.read_only];
        let proofs = tokens
            .into_iter()
            .filter_map(|token| proof::of(&token.text, host, nonce));
        proofs.map(|proof| hex(&proof)).collect()
    }

    /// Makes tokens that are not stored and end with this process.
    pub(super) fn temporary(world: &World) -> Self {
        let secret = || Secret::new(hex(&world.ids.secret()));
        Self {
            full: secret(),
            read_only: secret(),
        }
    }

    /// Returns the token for all rights, for the address of a user who commands the run.
    pub(super) fn full(&self) -> &str {
        &self.full.text
    }

    /// Returns the token for reading, for the address of a user who only watches.
    pub(super) fn read_only(&self) -> &str {
        &self.read_only.text
    }
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl Secret {
    fn new(text: String) -> Self {
        let digest = digest(text.as_bytes());
        Self { text, digest }
    }

    fn is(&self, digest: &[u8; 32]) -> bool {
        is_same(&self.digest, digest)
    }
}

/// Compares two checksums in a time that does not depend on the difference.
pub(super) fn is_same(ours: &[u8; 32], theirs: &[u8; 32]) -> bool {
    let pairs = ours.iter().zip(theirs);
    pairs.fold(0, |difference, (ours, theirs)| difference | (ours ^ theirs)) == 0
}

pub(super) fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn of_environment(variable: &'static str, value: &OsStr) -> Result<Secret, ServeError> {
    let text = value.to_str().filter(|text| is_token(text));
    let text = text.ok_or(ServeError::BadToken { variable })?;
    if text.len() < 32 {
        tracing::warn!(variable, "a token of fewer than 32 characters may be guessed");
    }
    Ok(Secret::new(text.to_owned()))
}

/// Whether the text is valid in a header, and after `bearer.` as the name of a subprotocol.
fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits)
}

/// Returns the token in a file of the directory. A file that other users could read, or that is damaged, is replaced with a new token.
fn of_directory(world: &World, path: &Path) -> Result<Secret, ServeError> {
    if let Some(text) = read(&*world.disk, path).map_err(IoError::at("read", path))? {
        return Ok(Secret::new(text));
    }
    let text = hex(&world.ids.secret());
    disk::replace(&*world.disk, path, format!("{text}\n").as_bytes()).map_err(IoError::at("write", path))?;
    Ok(Secret::new(text))
}

/// Reads a stored token; `None` if there is no file, or one that must be replaced.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    let metadata = match disk.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    if metadata.kind != FileKind::File || metadata.mode & 0o077 != 0 || metadata.length > MAX_TOKEN_FILE_BYTES
    {
        return Ok(None);
    }
    let text = String::from_utf8(disk.read(path, MAX_TOKEN_FILE_BYTES)?).unwrap_or_default();
    let text = text.trim_end();
    Ok((text.len() >= 32 && is_token(text)).then(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::world::environment::Environment;

    fn world(variables: &[(&str, &str)]) -> World {
        World::with_environment(variables.iter().copied().collect::<Environment>())
    }

    // covers: WIRE-26
    #[test]
    fn both_tokens_are_made_once_and_only_their_owner_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = AccessTokens::load(&world(&[]), folder.path()).unwrap();
        for (file, role) in [(TOKEN_FILE, Role::Full), (READ_ONLY_TOKEN_FILE, Role::ReadOnly)] {
            let path = folder.path().join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.trim_end().len(), 64, "256 bits");
            assert_eq!(tokens.role(text.trim_end().as_bytes()), Some(role));
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let again = AccessTokens::load(&world(&[]), folder.path()).unwrap();
        assert_eq!(again.full(), tokens.full());
        assert_eq!(format!("{tokens:?}"), "Tokens");
    }

    // covers: WIRE-26
    #[test]
    fn what_is_nearly_a_token_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = AccessTokens::load(&world(&[]), folder.path()).unwrap();
        let token = tokens.full().to_owned();
        for wrong in [
            &token[1..],
            &token[..32],
            &format!("{token}0"),
            &token.to_uppercase(),
            "",
            "\n",
        ] {
            // Upper case does not change a token of digits alone.
            if wrong != token {
                assert_eq!(tokens.role(wrong.as_bytes()), None, "{wrong:?}");
            }
        }
    }

    // covers: WIRE-26
    #[test]
    fn a_token_that_others_could_read_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = AccessTokens::load(&world(&[]), folder.path()).unwrap();
        let path = folder.path().join(TOKEN_FILE);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let second = AccessTokens::load(&world(&[]), folder.path()).unwrap();
        assert_ne!(first.full(), second.full());
        std::fs::write(&path, "").unwrap();
        let third = AccessTokens::load(&world(&[]), folder.path()).unwrap();
        assert_ne!(third.full(), second.full());
    }

    // covers: WIRE-26
    #[test]
    fn the_environment_comes_first_and_writes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let both = [
            (TOKEN_VARIABLE, "for-everything"),
            (READ_ONLY_TOKEN_VARIABLE, "for-reading"),
        ];
        let tokens = AccessTokens::load(&world(&both), folder.path()).unwrap();
        assert_eq!(tokens.role(b"for-everything"), Some(Role::Full));
        assert_eq!(tokens.role(b"for-reading"), Some(Role::ReadOnly));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for bad in ["", "two words", "a,b", "a\r\nb", &"x".repeat(257)] {
            let refused = AccessTokens::load(&world(&[(TOKEN_VARIABLE, bad)]), folder.path()).unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains(TOKEN_VARIABLE) && (bad.is_empty() || !text.contains(bad)),
                "{text}"
            );
        }
        let same = [(TOKEN_VARIABLE, "x"), (READ_ONLY_TOKEN_VARIABLE, "x")];
        assert!(matches!(
            AccessTokens::load(&world(&same), folder.path()),
            Err(ServeError::SameTokens)
        ));
    }
}
