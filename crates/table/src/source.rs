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
    /// Bytes that were read ahead, and how many of them were passed on.
    ahead: (Vec<u8>, usize),
}

impl<R> Limited<R> {
    pub(crate) const fn new(source: R) -> Self {
        Self { source, left: MAX_LINE, ahead: (Vec::new(), 0) }
    }

    pub(crate) const fn start_line(&mut self) {
        self.left = MAX_LINE;
    }
}

impl<R: Read> Limited<R> {
    /// Reads ahead to the end of the first line that is not empty, and returns it. No byte of it is lost.
    pub(crate) fn first_line(&mut self) -> io::Result<&[u8]> {
        let (bytes, _) = &mut self.ahead;
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        loop {
            let start = bytes.iter().position(|byte| !is_end(byte)).unwrap_or(bytes.len());
            if let Some(length) = bytes[start..].iter().position(is_end) {
                return Ok(&bytes[start..start + length]);
            }
            let known = bytes.len();
            if known >= MAX_LINE {
                return Err(too_long());
            }
            bytes.resize(known + CHUNK, 0);
            let read = self.source.read(&mut bytes[known..]);
            bytes.truncate(known + read.as_ref().unwrap_or(&0));
            if read? == 0 {
                let start = bytes.iter().position(|byte| !is_end(byte)).unwrap_or(bytes.len());
                return Ok(&bytes[start..]);
            }
        }
    }
}

/// Bytes that are read ahead at once.
const CHUNK: usize = 1 << 13;

fn too_long() -> io::Error {
    io::Error::other(format!("the line is longer than {MAX_LINE} bytes"))
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(too_long());
        }
        let most = buffer.len().min(self.left);
        let (bytes, passed) = &mut self.ahead;
        let read = if *passed < bytes.len() {
            let read = (&bytes[*passed..]).read(&mut buffer[..most])?;
            *passed += read;
            read
        } else {
            self.source.read(&mut buffer[..most])?
        };
        self.left -= read;
        Ok(read)
    }
}
