//! Tokens for the buttons of a notification (WIRE-50): each approves or denies one codon, once. A notification must not hold a token of the directory, which
//! allows everything.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_core::id::CodonId;

use super::token::{digest, is_same};
use crate::world::World;
use crate::world::ids::hex;

/// Prefix of the paths that answer a question.
pub(super) const ANSWER_PATH: &str = "/answer/";

/// Tokens for the pending question; clones share them.
#[derive(Clone, Default)]
pub struct AnswerTokens(Arc<Mutex<Option<IssuedAnswers>>>);

/// Checksums of the tokens for one question.
struct IssuedAnswers {
    codon_id: CodonId,
    approve: [u8; 32],
    deny: [u8; 32],
}

/// Paths that approve or deny one codon, each with a token of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct AnswerPaths {
    /// Approves the codon.
    pub approve: String,
    /// Denies the codon.
    pub deny: String,
}

/// Answer that a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenAnswer {
    pub(super) codon_id: CodonId,
    /// `true` approves the codon, `false` denies it.
    pub(super) granted: bool,
}

impl AnswerTokens {
    /// Makes a pair of tokens for the question about this codon. Tokens of an earlier question answer nothing any more.
    #[must_use]
    pub fn issue(&self, world: &World, codon_id: &CodonId) -> AnswerPaths {
        let token = || hex(&world.ids.secret());
        let (approve, deny) = (token(), token());
        *self.issued() = Some(IssuedAnswers {
            codon_id: codon_id.clone(),
            approve: digest(approve.as_bytes()),
            deny: digest(deny.as_bytes()),
        });
        let path = |token: &str| format!("{ANSWER_PATH}{token}");
        AnswerPaths {
            approve: path(&approve),
            deny: path(&deny),
        }
    }

    /// Returns the answer of a token. Afterwards neither this token nor the other token of its question is valid.
    pub(super) fn take(&self, token: &str) -> Option<TokenAnswer> {
        let (mut issued, digest) = (self.issued(), digest(token.as_bytes()));
        let expected = issued.as_ref()?;
        // Always compared with both, so that the time taken shows nothing.
        let granted = match (
            is_same(&expected.approve, &digest),
            is_same(&expected.deny, &digest),
        ) {
            (true, _) => true,
            (_, true) => false,
            _ => return None,
        };
        let codon_id = issued.take()?.codon_id;
        Some(TokenAnswer { codon_id, granted })
    }

    fn issued(&self) -> MutexGuard<'_, Option<IssuedAnswers>> {
        // The value is replaced in one step, so it is complete even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AnswerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerTokens")
    }
}

/// Without the tokens.
impl fmt::Debug for AnswerPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerPaths")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(path: &str) -> &str {
        path.strip_prefix(ANSWER_PATH).unwrap()
    }

    // covers: WIRE-50
    #[test]
    fn one_answer_counts_once_and_takes_the_other_with_it() {
        let (world, codon) = (World::real(), CodonId::new("deploy").unwrap());
        let tokens = AnswerTokens::default();
        assert_eq!(tokens.take("anything"), None);
        for granted in [true, false] {
            let paths = tokens.issue(&world, &codon);
            assert_ne!(paths.approve, paths.deny);
            assert_eq!(tokens.take(&format!("{}0", token(&paths.approve))), None);
            let (used, other) = match granted {
                true => (&paths.approve, &paths.deny),
                false => (&paths.deny, &paths.approve),
            };
            let answer = TokenAnswer {
                codon_id: codon.clone(),
                granted,
            };
            assert_eq!(tokens.take(token(used)), Some(answer));
            assert_eq!(tokens.take(token(used)), None);
            assert_eq!(tokens.take(token(other)), None);
        }
        let earlier = tokens.issue(&world, &codon);
        let later = tokens.issue(&world, &codon);
        assert_eq!(tokens.take(token(&earlier.approve)), None);
        assert!(tokens.take(token(&later.approve)).is_some());
        assert!(!format!("{later:?} {tokens:?}").contains(token(&later.approve)));
    }
}
