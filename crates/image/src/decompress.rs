//! Unpacking of entries, with a bound on what comes out.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use crate::error::{Error, damaged};

/// How an entry is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    None,
    /// A block of LZ4, without a frame.
    Lz4,
    /// A frame of Zstandard.
    Zstd,
}

/// Bytes that one byte of an LZ4 block can stand for at most; with this, a few bytes cannot ask for
/// a large buffer.
const LZ4_RATIO: u64 = 255;

/// Bytes that are unpacked at a time.
const PIECE: usize = 64 << 10;

/// The largest window of a Zstandard frame, which the decoder keeps in memory beside the result;
/// one that covers all of the result may be larger.
const WINDOW: u64 = 8 << 20;

/// Unpacks `payload`, which should give `size` bytes, at most `limit` of them.
pub(crate) fn run(
    packing: Packing,
    payload: &[u8],
    size: u64,
    limit: u64,
) -> Result<Vec<u8>, Error> {
    let size = match packing {
        Packing::None => payload.len() as u64,
        Packing::Lz4 | Packing::Zstd => size,
    };
    if size > limit {
        return Err(Error::TooLarge(size));
    }
    let unpacked = match packing {
        Packing::None => payload.to_vec(),
        Packing::Lz4 => lz4(payload, size)?,
        Packing::Zstd => zstd(payload, size)?,
    };
    match unpacked.len() as u64 == size {
        true => Ok(unpacked),
        false => Err(damaged(format!(
            "an entry of the fat binary unpacks to {} bytes instead of {size}",
            unpacked.len()
        ))),
    }
}

fn lz4(payload: &[u8], size: u64) -> Result<Vec<u8>, Error> {
    if size > (payload.len() as u64).saturating_mul(LZ4_RATIO) {
        return Err(damaged(format!(
            "{} bytes of LZ4 cannot unpack to {size}",
            payload.len()
        )));
    }
    let mut unpacked = vec![0; usize::try_from(size).unwrap_or(0)];
    let len = lz4_flex::block::decompress_into(payload, &mut unpacked)
        .map_err(|err| damaged(format!("LZ4: {err}")))?;
    unpacked.truncate(len);
    Ok(unpacked)
}

fn zstd(payload: &[u8], size: u64) -> Result<Vec<u8>, Error> {
    let wrong = |err: &dyn std::fmt::Display| damaged(format!("Zstandard: {err}"));
    let decoder = StreamingDecoder::new_with_max_window_size(payload, WINDOW.max(size));
    let decoder = decoder.map_err(|err| wrong(&err))?;
    let mut unpacked = Vec::new();
    // One byte more than announced is enough to tell that it is too much.
    let mut decoder = decoder.take(size.saturating_add(1));
    let mut piece = vec![0; PIECE];
    loop {
        match decoder.read(&mut piece) {
            Ok(0) => return Ok(unpacked),
            Ok(len) => {
                // A vector left to itself would grow to twice what it needs.
                if unpacked.capacity() - unpacked.len() < len {
                    let more = unpacked.len().max(PIECE);
                    let left = usize::try_from(size).unwrap_or(usize::MAX);
                    let left = left.saturating_sub(unpacked.len());
                    unpacked.reserve_exact(more.min(left).max(len));
                }
                unpacked.extend_from_slice(&piece[..len]);
            }
            Err(err) => return Err(wrong(&err)),
        }
    }
}
