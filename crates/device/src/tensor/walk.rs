//! Which elements a copy takes, as rows of bytes. PTX ISA, "Tiled Mode", "im2col mode" and
//! "im2col::w and im2col::w::128 modes".
//!
//! A copy is a sequence of units (elements, or what elements of less than a byte make) in the order
//! of shared memory. Those inside the tensor are found as [`Rows`]: rows of bytes at even distances
//! on both sides. What no row covers is outside.

use ptxjit_ir::TensorMode;
use smallvec::SmallVec;

use super::map::{Access, Interleave, MAX_RANK, Pixels, SwizzleMode, TensorMap, Unit};
use crate::{Fault, Rows};

/// Most bytes of a copy: more than any shared memory has.
const MAX_BYTES: u64 = 1 << 18;

/// A tensor of so many bytes is more than caches hold. What it costs to be wrong is small on both
/// sides.
const LARGE: u64 = 16 << 20;

/// What a copy moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Walk {
    /// Bytes of all units as they lie in global memory, outside ones included, and of the gaps
    /// between rows.
    pub(crate) bytes: usize,
    /// Bytes of a row of the box.
    pub(crate) row: usize,
    /// Bytes from one row to the next, see [`TensorMap::pitch`].
    pub(crate) pitch: usize,
    /// Those inside, with the position of the first byte among all.
    pub(crate) rows: SmallVec<[(usize, Rows); 4]>,
    /// Bytes inside.
    pub(crate) inside: usize,
}

impl Walk {
    /// Whether there are gaps between the rows of the box.
    pub(crate) fn has_gaps(&self) -> bool {
        self.row < self.pitch
    }
}

/// Where a copy begins.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) mode: TensorMode,
    pub(crate) coordinates: &'a [i32],
    /// Those of im2col, or `wHalo` and `wOffset`.
    pub(crate) offsets: &'a [u32],
}

/// Positions along a dimension: how many before the first inside, and how many inside.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Span {
    before: u64,
    inside: u64,
}

/// Of `count` positions from `first` on, `step` apart, those in `0..size`.
fn span(first: i64, step: u64, count: u64, size: u64) -> Span {
    let (first, step, size) = (i128::from(first), i128::from(step), i128::from(size));
    let up = |x: i128| if x <= 0 { 0 } else { (x + step - 1) / step };
    let before = up(-first).min(i128::from(count));
    let until = up(size - first).min(i128::from(count));
    Span {
        before: before as u64,
        inside: (until - before).max(0) as u64,
    }
}

impl TensorMap {
    fn is_large(&self) -> bool {
        let bytes = self.dims[..self.n_dims()]
            .iter()
            .fold(self.dtype.unit().global, |bytes, &dim| {
                bytes.saturating_mul(dim)
            });
        bytes / self.dtype.unit().elements > LARGE
    }

    /// Bytes in shared memory from one row of a box to the next, which has `row` bytes. PTX ISA,
    /// "Swizzling Modes", does not tell where rows lie that are shorter than the bytes which a
    /// swizzle permutes: an H100 begins each of them at a multiple of these. The rows of 96 bytes
    /// in the figure of that mode have no gaps.
    fn pitch(&self, row: u64) -> u64 {
        let is_padded = self.dtype.is_padded() || self.interleave != Interleave::None;
        match self.swizzle.mode {
            SwizzleMode::B32 | SwizzleMode::B64 | SwizzleMode::B128 if !is_padded => {
                row.max(self.swizzle.span().unwrap_or(0))
            }
            SwizzleMode::None
            | SwizzleMode::B32
            | SwizzleMode::B64
            | SwizzleMode::B96
            | SwizzleMode::B128 => row,
        }
    }

    /// What a copy from (or to) `start` moves. The map has been checked.
    pub(crate) fn walk(&self, start: Start<'_>) -> Result<Walk, Fault> {
        let mut walker = Walker::new(self, start.coordinates[0])?;
        match (&self.access, start.mode) {
            (Access::Tiled { box_dims }, TensorMode::Tile) => {
                walker.tile(box_dims, start.coordinates)?;
            }
            (Access::Tiled { box_dims }, TensorMode::Rows4) => {
                walker.four_rows(box_dims, start.coordinates)?;
            }
            (Access::Im2col(pixels), TensorMode::Im2col) => {
                walker.im2col(pixels, start)?;
            }
            (Access::Im2colWide(pixels), TensorMode::Im2colW | TensorMode::Im2colW128) => {
                walker.im2col_wide(pixels, start)?;
            }
            (access, mode) => return Err(wrong_mode(access, mode)),
        }
        Ok(walker.walk)
    }
}

fn wrong_mode(access: &Access, mode: TensorMode) -> Fault {
    let access = match access {
        Access::Tiled { .. } => "boxes",
        Access::Im2col(_) => "im2col",
        Access::Im2colWide(_) => "im2col::w and im2col::w::128",
    };
    let mode = match mode {
        TensorMode::Tile => "a box",
        TensorMode::Rows4 => "four rows",
        TensorMode::Im2col => "an im2col column",
        TensorMode::Im2colW => "an im2col::w column",
        TensorMode::Im2colW128 => "an im2col::w::128 column",
    };
    Fault::refused(format!(
        "the tensor map is for {access}, and {mode} is asked for"
    ))
}

/// Collects the rows of a walk.
struct Walker<'m> {
    map: &'m TensorMap,
    unit: Unit,
    /// Which units of a row of the box are inside.
    x: Span,
    /// The first unit of dimension 0.
    first: i64,
    is_large: bool,
    walk: Walk,
}

/// Some rows one after the other in dimension `dim`: the first position there, its step, and how
/// many.
#[derive(Copy, Clone)]
struct Group {
    dim: usize,
    first: i64,
    step: u64,
    count: u64,
}

impl<'m> Walker<'m> {
    fn new(map: &'m TensorMap, first: i32) -> Result<Walker<'m>, Fault> {
        let unit = map.dtype.unit();
        let multiple = if map.dtype.is_padded() {
            128
        } else {
            unit.elements as i64
        };
        let first = i64::from(first);
        if first % multiple != 0 {
            return Err(Fault::refused(format!(
                "the first coordinate is {first}: with elements of type {} it is a multiple of {multiple}",
                map.dtype
            )));
        }
        let (step, elements) = (map.step(0), unit.elements);
        let first = first / elements as i64;
        let row = map.inner().div_ceil(elements).div_ceil(step);
        Ok(Walker {
            map,
            unit,
            x: span(first, step, row, map.dims[0] / elements),
            first,
            is_large: map.is_large(),
            walk: Walk {
                bytes: 0,
                row: (row * unit.global) as usize,
                pitch: map.pitch(row * unit.global) as usize,
                rows: SmallVec::new(),
                inside: 0,
            },
        })
    }

    /// Reserves places for `count` rows; returns where they begin.
    fn reserve(&mut self, count: u64) -> Result<u64, Fault> {
        let start = self.walk.bytes as u64;
        let bytes = count.saturating_mul(self.walk.pitch as u64);
        let end = start.saturating_add(bytes);
        if end > MAX_BYTES {
            return Err(Fault::refused(format!(
                "a copy of more than {MAX_BYTES} bytes does not fit into shared memory"
            )));
        }
        self.walk.bytes = end as usize;
        Ok(start)
    }

    /// Adds a group of rows at position `outer` of all dimensions but that of the group and 0; none
    /// if one of them is outside of the tensor.
    fn group(&mut self, group: Group, outer: Option<u128>) -> Result<(), Fault> {
        let start = self.reserve(group.count)?;
        let map = self.map;
        let (stride, size) = match group.dim {
            0 => (0, 1),
            dim => (map.strides[dim - 1], map.dims[dim]),
        };
        let y = span(group.first, group.step, group.count, size);
        let Some(outer) = outer.filter(|_| y.inside != 0 && self.x.inside != 0) else {
            return Ok(());
        };
        let pitch = self.walk.pitch as u64;
        let (x0, y0) = (
            self.first + (self.x.before * map.step(0)) as i64,
            group.first + (y.before * group.step) as i64,
        );
        let offset =
            outer + x0 as u128 * u128::from(self.unit.global) + y0 as u128 * u128::from(stride);
        let at = start + y.before * pitch + self.x.before * self.unit.global;
        let far = || Fault::refused("the box reaches beyond the end of the address space");
        let addr = u64::try_from(offset)
            .ok()
            .and_then(|offset| map.address.checked_add(offset));
        let mut rows = Rows {
            addr: addr.ok_or_else(far)?,
            stride: stride.checked_mul(group.step).ok_or_else(far)?,
            count: y.inside as usize,
            len: (self.x.inside * self.unit.global) as usize,
            pitch: pitch as usize,
            is_large: self.is_large,
        };
        self.walk.inside += rows.count * rows.len;
        if map.step(0) == 1 {
            self.walk.rows.push((at as usize, rows));
            return Ok(());
        }
        // Units of a row are apart from each other: each is a row of its own.
        rows.len = self.unit.global as usize;
        for n in 0..self.x.inside {
            let addr = rows.addr + n * map.step(0) * self.unit.global;
            let at = at + n * self.unit.global;
            self.walk.rows.push((at as usize, Rows { addr, ..rows }));
        }
        Ok(())
    }

    fn tile(&mut self, box_dims: &[u32; MAX_RANK], coordinates: &[i32]) -> Result<(), Fault> {
        let map = self.map;
        let n_dims = map.n_dims();
        let count = |dim: usize| u64::from(box_dims[dim]).div_ceil(map.step(dim));
        let Some(&y) = coordinates.get(1) else {
            let group = Group {
                dim: 0,
                first: 0,
                step: 1,
                count: 1,
            };
            return self.group(group, Some(0));
        };
        let group = Group {
            dim: 1,
            first: y.into(),
            step: map.step(1),
            count: count(1),
        };
        // All positions of the outer dimensions, the innermost of them first.
        let mut position = [0; MAX_RANK];
        loop {
            let outer = (2..n_dims).try_fold(0, |sum: u128, dim| {
                let x = i64::from(coordinates[dim]) + (position[dim] * map.step(dim)) as i64;
                Some(sum + self.inside(dim, x)?)
            });
            self.group(group, outer)?;
            let next = (2..n_dims).find(|&dim| position[dim] + 1 < count(dim));
            let Some(next) = next else { return Ok(()) };
            position[next] += 1;
            position[2..next].fill(0);
        }
    }

    /// What a position in a dimension adds to addresses; none if it is outside.
    fn inside(&self, dim: usize, x: i64) -> Option<u128> {
        let x = u64::try_from(x).ok().filter(|&x| x < self.map.dims[dim])?;
        Some(u128::from(x) * u128::from(self.map.strides[dim - 1]))
    }

    fn four_rows(&mut self, box_dims: &[u32; MAX_RANK], at: &[i32]) -> Result<(), Fault> {
        if box_dims[1] != 1 {
            return Err(Fault::refused(format!(
                "the box of the tensor map has {} rows: gather4 and scatter4 take boxes of one",
                box_dims[1]
            )));
        }
        if self.map.interleave != Interleave::None {
            return Err(Fault::refused(
                "the tensor map is interleaved: gather4 and scatter4 take none that are",
            ));
        }
        for &row in &at[1..] {
            let group = Group {
                dim: 1,
                first: row.into(),
                step: 1,
                count: 1,
            };
            self.group(group, Some(0))?;
        }
        Ok(())
    }

    fn im2col(&mut self, pixels: &Pixels, start: Start<'_>) -> Result<(), Fault> {
        let map = self.map;
        let n_spatial = map.n_dims() - 2;
        let reach = match n_spatial {
            1 => 1 << 16,
            2 => 1 << 8,
            _ => 1 << 5,
        };
        if let Some(far) = start.offsets.iter().find(|&&offset| offset >= reach) {
            return Err(Fault::refused(format!(
                "an offset is {far}: with {} dimensions they are below {reach}",
                map.rank
            )));
        }
        let offset = |i: usize| i64::from(start.offsets.get(i).copied().unwrap_or(0));
        let last = |i: usize| map.dims[1 + i] as i64 - 1 + i64::from(pixels.upper[i]);
        let mut at = [0i64; 3];
        for (at, &x) in at.iter_mut().zip(&start.coordinates[1..=n_spatial]) {
            *at = x.into();
        }
        let mut image = i64::from(start.coordinates[1 + n_spatial]);
        let mut left = u64::from(pixels.per_column);
        while left > 0 {
            let step = map.step(1);
            let count = (last(0) - at[0]).max(0) as u64 / step + 1;
            let count = count.min(left);
            let spatial = (1..n_spatial).try_fold(0, |sum: u128, i| {
                Some(sum + self.inside(1 + i, at[i] + offset(i))?)
            });
            let outer = spatial
                .zip(self.inside(1 + n_spatial, image))
                .map(|(a, b)| a + b);
            let first = at[0] + offset(0);
            self.group(
                Group {
                    dim: 1,
                    first,
                    step,
                    count,
                },
                outer,
            )?;
            left -= count;
            at[0] = pixels.lower[0].into();
            let next = (1..n_spatial).find(|&i| {
                at[i] += map.step(1 + i) as i64;
                let is_inside = at[i] <= last(i);
                if !is_inside {
                    at[i] = pixels.lower[i].into();
                }
                is_inside
            });
            image += i64::from(next.is_none());
        }
        Ok(())
    }

    /// Pixels along the width, at one height and depth. Behind the last position of a row the next
    /// image follows.
    fn im2col_wide(&mut self, pixels: &Pixels, start: Start<'_>) -> Result<(), Fault> {
        let map = self.map;
        let is_128 = start.mode == TensorMode::Im2colW128;
        let most = if is_128 { 32 } else { 512 };
        let &[halo, offset] = start.offsets else {
            return Err(Fault::refused("`wHalo` and `wOffset` are missing"));
        };
        if halo >= most || offset >= 32 {
            return Err(Fault::refused(format!(
                "`wHalo` is {halo} and `wOffset` {offset}: they are below {most} and 32"
            )));
        }
        if is_128 && map.swizzle.mode == SwizzleMode::B96 {
            return Err(Fault::refused("im2col::w::128 has no swizzle 96B"));
        }
        let (runs, per_run) = match is_128 {
            true => (4, 32),
            false => (1, u64::from(pixels.per_column)),
        };
        let (step, offset) = (map.step(1), i64::from(offset));
        let last = map.dims[1] as i64 - 1 + i64::from(pixels.upper[0]) + offset;
        let n_dims = map.n_dims();
        let fixed = (2..n_dims - 1).try_fold(0, |sum: u128, dim| {
            Some(sum + self.inside(dim, start.coordinates[dim].into())?)
        });
        let mut at = i64::from(start.coordinates[1]) + offset;
        let mut image = i64::from(start.coordinates[n_dims - 1]);
        for _ in 0..runs {
            let mut left = per_run;
            while left > 0 {
                if at > last {
                    at = i64::from(pixels.lower[0]) + offset;
                    image += 1;
                }
                let count = ((last - at) as u64 / step + 1).min(left);
                if halo != 0 && count != left {
                    // Where the halo of a row lies among pixels of several images, the ISA shows in
                    // figures alone.
                    return Err(Fault::refused(
                        "`wHalo` of a column that goes on in the next image is not supported yet",
                    ));
                }
                let outer = fixed
                    .zip(self.inside(n_dims - 1, image))
                    .map(|(a, b)| a + b);
                self.group(
                    Group {
                        dim: 1,
                        first: at,
                        step,
                        count,
                    },
                    outer,
                )?;
                at += (count * step) as i64;
                left -= count;
                if left == 0 && halo != 0 {
                    // Pixels that filters reach behind the last position: the row goes on.
                    let count = halo.into();
                    self.group(
                        Group {
                            dim: 1,
                            first: at,
                            step,
                            count,
                        },
                        outer,
                    )?;
                }
            }
        }
        Ok(())
    }
}
