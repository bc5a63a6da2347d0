//! Lines of a file that need not fit into the memory.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line that is read, in bytes; no entry is so long.
const LONGEST: usize = 8 << 20;

/// Calls `each` with every line, without its end, or with `None` for one that is too long.
pub(super) fn each_line(file: impl Read, mut each: impl FnMut(Option<&[u8]>)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let chunk = reader.fill_buf()?;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        too_long |= line.len() + part.len() > LONGEST;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let (read, is_last) = (part.len() + usize::from(end.is_some()), chunk.is_empty());
        reader.consume(read);
        if end.is_some() || is_last {
            each((!too_long).then_some(&line));
            line.clear();
            too_long = false;
        }
        if is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_costs_no_memory_and_no_other_line() {
        let long = vec![b'x'; LONGEST + 70_000];
        let file = [&b"one\n\n"[..], &long, b"\ntwo\n", &long[..LONGEST], b"\ntorn"].concat();
        let mut lengths = Vec::new();
        each_line(&*file, |line| lengths.push(line.map(<[u8]>::len))).unwrap();
        assert_eq!(lengths, [Some(3), Some(0), None, Some(3), Some(LONGEST), Some(4)]);
    }
}
