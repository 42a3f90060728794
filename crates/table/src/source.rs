//! Sources of text: files, gzip, and a limit on the length of a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::TableError;

/// Opens a file, and decompresses it if it starts with the magic number of gzip.
pub fn open(path: &Path) -> Result<Box<dyn Read>, TableError> {
    let file = || path.display().to_string();
    let opened = File::open(path).map_err(|source| TableError::Open { file: file(), source })?;
    let mut reader = BufReader::new(opened);
    let beginning = reader.fill_buf().map_err(|source| TableError::Open { file: file(), source })?;
    if beginning.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(reader)));
    }
    Ok(Box::new(reader))
}

/// Longest line that is read, in bytes. It bounds the memory that a source can make a reader use.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// Source that fails after [`MAX_LINE`] bytes, unless `left` is reset at the start of each line.
pub(crate) struct Limited<R> {
    source: R,
    left: usize,
}

impl<R> Limited<R> {
    pub(crate) const fn new(source: R) -> Self {
        Self { source, left: MAX_LINE }
    }

    pub(crate) const fn start_line(&mut self) {
        self.left = MAX_LINE;
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other(format!("the line is longer than {MAX_LINE} bytes")));
        }
        let most = buffer.len().min(self.left);
        let read = self.source.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}
