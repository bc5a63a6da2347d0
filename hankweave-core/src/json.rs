//! The texts of JSON, for whoever reads or writes millions of them and looks at many bytes at once.

use serde::Serialize;

/// As many bytes as are looked at together. Most texts are short, and 16 bytes at once gained nothing.
const STEP: usize = 8;

/// The place of the first byte of `bytes` from `at` on that ends a text, begins an escape or is a control character; the end if there is none.
#[inline]
#[must_use]
pub fn end_of_plain(bytes: &[u8], mut at: usize) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((step, behind)) = rest.split_first_chunk::<STEP>() {
        let marks = marks(*step);
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += STEP;
        rest = behind;
    }
    at + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

/// Sets the high bit of each byte that is special. The lowest of these bits is right; those above it may be wrong, as a
/// subtraction borrows from the next byte.
#[inline]
fn marks(step: [u8; STEP]) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let bytes = u64::from_le_bytes(step);
    let below = |bytes: u64, limit: u8| bytes.wrapping_sub(ONES * u64::from(limit)) & !bytes;
    let equal = |byte: u8| below(bytes ^ (ONES * u64::from(byte)), 1);
    (below(bytes, 0x20) | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

#[inline]
fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Adds `text` in quotes, as serde_json writes it.
pub fn push_text(json: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    json.push(b'"');
    let mut begin = 0;
    loop {
        let end = end_of_plain(bytes, begin);
        json.extend_from_slice(&bytes[begin..end]);
        let Some(special) = bytes.get(end) else {
            return json.push(b'"');
        };
        push_escape(json, *special);
        begin = end + 1;
    }
}

/// Adds `before` as it is, and `value` as its serialisation writes it.
///
/// # Errors
///
/// What the serialisation says; a part of it may have been added then.
pub fn push_member(
    json: &mut Vec<u8>,
    before: &str,
    value: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    json.extend_from_slice(before.as_bytes());
    value.serialize(&mut serde_json::Serializer::new(json))
}

/// Adds `before` as it is, and `text` in quotes.
pub fn push_text_member(json: &mut Vec<u8>, before: &str, text: &str) {
    json.extend_from_slice(before.as_bytes());
    push_text(json, text);
}

fn push_escape(json: &mut Vec<u8>, special: u8) {
    let letter = match special {
        b'"' | b'\\' => special,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        control => {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            return json.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                digit(control >> 4),
                digit(control & 0xf),
            ]);
        }
    };
    json.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) {
        let mut json = Vec::new();
        push_text(&mut json, text);
        assert_eq!(json, serde_json::to_vec(text).unwrap(), "{text:?}");
    }

    #[test]
    fn every_character_is_written_as_serde_json_writes_it() {
        (0..=0x2fff).filter_map(char::from_u32).for_each(|character| {
            check(&character.to_string());
            check(&format!("before {character} and behind"));
        });
        check("");
    }

    proptest! {
        #[test]
        fn texts_are_written_as_serde_json_writes_them(text in "(.|[\"\\\\\n\t\u{0}-\u{1f}]){0,64}") {
            check(&text);
        }
    }
}
