//! How deep a JSON text is nested, found without parsing it.

/// Returns whether more than `limit` brackets are open at once. The text need not be valid JSON.
pub(crate) fn is_deeper_than(bytes: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = rest.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(rest.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_and_those_in_texts_do_not() {
        assert!(is_deeper_than(b"[[1],[[2]]]", 2));
        assert!(!is_deeper_than(b"[[1],[[2]]]", 3));
        assert!(!is_deeper_than(br#"{"[[[":"{{{\"[["}"#, 1));
        assert!(!is_deeper_than(b"\"[[", 1));
    }
}
