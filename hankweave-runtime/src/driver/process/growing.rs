//! A file of lines that is read while an agent still writes it.

use std::fmt;
use std::io::{self, Read};

use super::lines::{LineFramer, OutputLine};

/// Read limit, in bytes.
const MOST_BYTES: u64 = 512 << 20;

/// Size of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// An open file. Each of its lines is read once.
pub(in crate::driver) struct GrowingFile {
    content: io::Take<Box<dyn Read + Send>>,
    framer: LineFramer,
}

impl GrowingFile {
    pub(in crate::driver) fn new(content: Box<dyn Read + Send>, line_bytes: usize) -> Self {
        Self {
            content: content.take(MOST_BYTES),
            framer: LineFramer::new(line_bytes),
        }
    }

    /// Calls `each` with the lines that were written since the last call.
    pub(in crate::driver) fn read(&mut self, mut each: impl FnMut(&str)) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let length = self.content.read(&mut chunk)?;
            let mut rest = &chunk[..length];
            while let Some(next) = self.framer.next(&mut rest) {
                if let OutputLine::Text(text) = next {
                    each(&text);
                }
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// Whether the read limit is reached, so that later lines are not read.
    pub(in crate::driver) fn is_cut_short(&self) -> bool {
        self.content.limit() == 0
    }
}

impl fmt::Debug for GrowingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrowingFile").finish_non_exhaustive()
    }
}
