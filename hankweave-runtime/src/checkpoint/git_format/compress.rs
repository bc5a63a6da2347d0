//! Zlib streams, as loose objects and packs hold them.

use std::io;

use flate2::{Compress, Compression, FlushCompress, Status};

/// Maximum number of compressed bytes that are written at once.
const PIECE: usize = 64 << 10;

/// Compresses one object after the other: a new `Compressor` is expensive, its reuse is not.
#[derive(Debug)]
pub(super) struct Compressor(Compress);

impl Compressor {
    pub(super) fn new() -> Self {
        Self(Compress::new(Compression::fast(), true))
    }

    /// Appends `header` and `contents`, as one stream, to `bytes`.
    pub(super) fn append(&mut self, header: &[u8], contents: &[u8], bytes: &mut Vec<u8>) -> io::Result<()> {
        self.0.reset();
        bytes.reserve(header.len() + 64);
        self.0.compress_vec(header, bytes, FlushCompress::None)?;
        loop {
            let done = usize::try_from(self.0.total_in()).unwrap_or(usize::MAX) - header.len();
            let rest = contents.get(done..).unwrap_or_default();
            bytes.reserve(rest.len() / 2 + 64);
            match self.0.compress_vec(rest, bytes, FlushCompress::Finish)? {
                Status::StreamEnd => return Ok(()),
                Status::Ok | Status::BufError => {}
            }
        }
    }

    /// Begins a stream that is written piece by piece.
    pub(super) fn start(&mut self, header: &[u8], sink: &mut dyn io::Write) -> io::Result<()> {
        self.0.reset();
        self.feed(header, sink)
    }

    pub(super) fn feed(&mut self, mut piece: &[u8], sink: &mut dyn io::Write) -> io::Result<()> {
        let mut output = Vec::with_capacity(PIECE);
        while !piece.is_empty() {
            let before = self.0.total_in();
            self.0.compress_vec(piece, &mut output, FlushCompress::None)?;
            piece = &piece[(self.0.total_in() - before) as usize..];
            sink.write_all(&output)?;
            output.clear();
        }
        Ok(())
    }

    pub(super) fn end(&mut self, sink: &mut dyn io::Write) -> io::Result<()> {
        let mut output = Vec::with_capacity(PIECE);
        loop {
            let status = self.0.compress_vec(&[], &mut output, FlushCompress::Finish)?;
            sink.write_all(&output)?;
            output.clear();
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }
}
