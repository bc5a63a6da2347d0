//! Conversions of texts and bytes that all crates share.

/// Returns bytes as small hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts a space in place of each control character, so that text of people and agents stays in its line and moves no cursor of a terminal.
#[must_use]
pub fn blank_controls(text: &str) -> String {
    text.replace(char::is_control, " ")
}
