//! Proof that a server knows the tokens of its directory. The page asks for it before it sends its own token:
//! after the end of a run any program may listen at the port (WIRE-44).

use sha2::{Digest, Sha256};

/// Path of the proof.
pub(super) const PROOF_PATH: &str = "/proof";

/// Start of the text that is signed, so that the signature is of use for nothing else.
const PURPOSE: &str = "hankweave proof";

/// Shortest token for which a proof is given: a shorter one could be guessed from its proof.
const SHORTEST: usize = 32;

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Returns the nonce in the query of a request, `nonce=` and 32 to 128 hex digits.
pub(super) fn nonce(query: &str) -> Option<&str> {
    let nonce = query.strip_prefix("nonce=")?;
    let fits = (32..=128).contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(nonce)
}

/// Returns the proof that the server at `host` knows `token`; `None` where the token is too short.
///
/// The signed text has the host with its port, so a program at another port cannot pass on the proof of this server.
pub(super) fn of(token: &str, host: &str, nonce: &str) -> Option<[u8; 32]> {
    let text = format!("{PURPOSE}\n{}\n{nonce}", host.to_ascii_lowercase());
    (token.len() >= SHORTEST).then(|| hmac(token.as_bytes(), text.as_bytes()))
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    match block.get_mut(..key.len()) {
        Some(start) => start.copy_from_slice(key),
        // A key longer than a block is replaced by its checksum.
        None => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let keyed = |pad: u8| Sha256::new().chain_update(block.map(|byte| byte ^ pad));
    let inner = keyed(0x36).chain_update(message).finalize();
    keyed(0x5c).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::ids::hex;

    // The test cases 2 and 6 of RFC 4231.
    #[test]
    fn the_hmac_is_that_of_the_standard() {
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(
            hex(&short),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = hmac(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
        );
        assert_eq!(
            hex(&long),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    // covers: WIRE-44
    #[test]
    fn a_proof_is_of_one_token_at_one_port_for_one_nonce() {
        let token = "0123456789abcdef0123456789abcdef";
        let proof = |token, host, nonce| of(token, host, nonce);
        let own = proof(token, "127.0.0.1:4000", "aa").unwrap();
        assert_eq!(proof(token, "127.0.0.1:4000", "aa"), Some(own));
        assert_eq!(
            proof(token, "LocalHost:4000", "aa"),
            proof(token, "localhost:4000", "aa")
        );
        for other in [
            proof("0123456789abcdef0123456789abcdee", "127.0.0.1:4000", "aa"),
            proof(token, "127.0.0.1:4001", "aa"),
            proof(token, "localhost:4000", "aa"),
            proof(token, "127.0.0.1:4000", "ab"),
        ] {
            assert!(other.is_some_and(|other| other != own));
        }
        assert_eq!(
            proof("a-short-one", "127.0.0.1:4000", "aa"),
            None,
            "it could be guessed from its proof"
        );
    }

    // covers: WIRE-44
    #[test]
    fn a_nonce_is_hex_and_long_enough() {
        let good = "0123456789abcdefABCDEF0123456789";
        assert_eq!(nonce(&format!("nonce={good}")), Some(good));
        for bad in [
            "",
            "nonce=",
            "nonce=0123",
            &format!("nonce={good}g"),
            &format!("nonce={}", "a".repeat(129)),
            &format!("other={good}"),
            &format!("nonce={good}&nonce={good}"),
        ] {
            assert_eq!(nonce(bad), None, "{bad}");
        }
    }
}
