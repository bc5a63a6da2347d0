//! Lines of a file that need not fit into memory.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line that is read, in bytes; no valid entry is longer.
const LONGEST: usize = 8 << 20;

/// Calls `each` with every line, without its line end, or with `None` for a line that is too long.
pub(super) fn each_line(file: impl Read, mut each: impl FnMut(Option<&[u8]>)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, file);
    // A line that is too long comes in several chunks; only its first chunk calls `each`.
    let (mut chunk, mut continues_line) = (Vec::new(), false);
    let with_end = LONGEST as u64 + 1;
    while (&mut reader).take(with_end).read_until(b'\n', &mut chunk)? > 0 {
        let ends_line = chunk.pop_if(|byte| *byte == b'\n').is_some();
        if !continues_line {
            each((chunk.len() <= LONGEST).then_some(&chunk));
        }
        continues_line = !ends_line;
        chunk.clear();
    }
    Ok(())
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
