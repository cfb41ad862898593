//! First contents of buffers, and copies between buffers and files: in pieces that stay in the
//! processor's caches, so that no second copy of a large buffer is ever made.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ptxjit::Buffer;

use crate::dtype::DType;
use crate::npy::{self, Array};
use crate::paths::shown;

/// Bytes that are copied at once.
const PIECE: usize = 64 << 10;

/// What a buffer holds before the first launch.
#[derive(Debug, PartialEq)]
pub enum Contents {
    Bytes(Vec<u8>),
    Zeros,
    /// A part of a file, from a place on.
    File {
        path: PathBuf,
        start: u64,
        len: usize,
    },
}

impl Contents {
    /// The data of a NumPy file as elements of type `dtype`, and their number.
    pub fn from_npy(path: &Path, dtype: DType) -> Result<(Contents, usize)> {
        let found = npy::locate(path)?;
        if let Some((of, start, len)) = found
            && npy::is_same(of, dtype)
        {
            let path = path.to_owned();
            return Ok((Contents::File { path, start, len }, len / dtype.size()));
        }
        let array = Array::read(path)?.into_dtype(dtype)?;
        let count = array.count();
        Ok((Contents::Bytes(array.bytes), count))
    }

    /// A file's bytes as elements of type `dtype`, and their number.
    pub fn from_raw(path: &Path, dtype: DType) -> Result<(Contents, usize)> {
        let context = || format!("cannot read {}", shown(path));
        let meta = std::fs::metadata(path).with_context(context)?;
        let contents = if meta.is_file() {
            let len = usize::try_from(meta.len()).with_context(context)?;
            // Whether it can be read shall be known by now.
            File::open(path).with_context(context)?;
            let (path, start) = (path.to_owned(), 0);
            Contents::File { path, start, len }
        } else {
            Contents::Bytes(std::fs::read(path).with_context(context)?)
        };
        let len = match &contents {
            Contents::Bytes(bytes) => bytes.len(),
            Contents::File { len, .. } => *len,
            Contents::Zeros => 0,
        };
        ensure!(
            len.is_multiple_of(dtype.size()),
            "{} has {len} bytes: no whole number of {dtype}",
            shown(path)
        );
        Ok((contents, len / dtype.size()))
    }

    /// Fills a buffer.
    pub fn write_to(&self, buffer: &Buffer<u8>) -> Result<()> {
        match self {
            Contents::Bytes(bytes) => buffer.write(bytes)?,
            Contents::Zeros => buffer.fill_bytes(0)?,
            Contents::File { path, start, len } => {
                let copied = copy_file(path, *start, *len, buffer);
                copied.with_context(|| format!("cannot read {}", shown(path)))?;
            }
        }
        Ok(())
    }
}

fn copy_file(path: &Path, start: u64, len: usize, buffer: &Buffer<u8>) -> Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut piece = vec![0; PIECE.min(len)];
    let mut done = 0;
    while done < len {
        let piece = &mut piece[..PIECE.min(len - done)];
        file.read_exact(piece)?;
        buffer.write_at(done, piece)?;
        done += piece.len();
    }
    Ok(())
}

/// Calls `take` with a buffer's bytes, piece by piece.
pub fn each_piece(buffer: &Buffer<u8>, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let len = PIECE.min(buffer.len() - done);
        take(&buffer.read_range(done, len)?)?;
        done += len;
    }
    Ok(())
}
