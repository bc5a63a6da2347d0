//! What the escapes of a text mean.

use crate::json::end_of_plain;

/// How many bytes of `rest` the escape takes whose backslash is before it; `None` if it is none.
#[inline]
pub(super) fn length_of_escape(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(1),
        _ => Some(escape(rest)?.1),
    }
}

/// What the escape stands for whose backslash is before `rest`, and how many bytes of `rest` it takes.
pub(super) fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let (kind, rest) = rest.split_first()?;
    let meaning = match kind {
        b'"' | b'\\' | b'/' => char::from(*kind),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return code_point(rest),
        _ => return None,
    };
    Some((meaning, 1))
}

/// As [`escape`], for what stands behind `\u`: four digits, or twice as many if they are halves of one character.
fn code_point(rest: &[u8]) -> Option<(char, usize)> {
    let first = four_digits(rest)?;
    if let Some(whole) = char::from_u32(first) {
        return Some((whole, 5));
    }
    let second = four_digits(rest[4..].strip_prefix(b"\\u")?)?;
    let halves = (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second);
    let point = || 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((halves.then(point).and_then(char::from_u32)?, 11))
}

fn four_digits(rest: &[u8]) -> Option<u32> {
    let digits = rest
        .first_chunk::<4>()?
        .map(|digit| HEX_DIGITS[usize::from(digit)]);
    let number = digits
        .iter()
        .fold(0, |number, digit| number << 4 | u32::from(*digit));
    digits.iter().all(|digit| *digit < 16).then_some(number)
}

/// What each byte means as a hexadecimal digit; 255 if it is none. A program may print whole texts as `\u` escapes.
const HEX_DIGITS: [u8; 256] = {
    let mut digits = [255; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// The text that `written` stands for, which was read before.
pub(super) fn unescape(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    loop {
        let (plain, behind) = rest.split_at(end_of_plain(rest.as_bytes(), 0));
        text.push_str(plain);
        let Some(escaped) = behind.as_bytes().get(1..) else {
            return text;
        };
        let (meaning, length) = escape(escaped).expect("escapes were checked when the text was read");
        text.push(meaning);
        rest = &behind[1 + length..];
    }
}
