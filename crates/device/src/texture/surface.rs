//! Accesses of surfaces. PTX ISA, "suld", "sust" and "sured".

use ptxjit_ir::{AtomicFmt, AtomicOp, Outside, SurfaceAccess, eval};

use super::object::{ChannelType, Surface};
use super::texel::float_to_half;
use super::{Found, fits};
use crate::{Fault, Thread};

pub(super) fn load(
    access: &SurfaceAccess,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    let found = Found::of(thread, args[0])?;
    let size = access.bytes * access.n;
    let mut bytes = [0; 16];
    if let Some(addr) = place(access, found.surface()?, &args[1..], size.into())? {
        thread.read(addr, &mut bytes[..size.into()])?;
    }
    for (result, value) in results.iter_mut().zip(bytes.chunks(access.bytes.into())) {
        *result = little_endian(value);
    }
    Ok(())
}

pub(super) fn store(
    access: &SurfaceAccess,
    thread: &mut dyn Thread,
    args: &[u64],
) -> Result<(), Fault> {
    let found = Found::of(thread, args[0])?;
    let surface = found.surface()?;
    let (coords, values) = args[1..].split_at(access.geometry.n_coordinates());
    let mut bytes = [0; 16];
    let (value_bytes, size) = match access.formatted {
        true => (
            surface.image.dtype.bytes() as usize,
            surface.image.element_bytes() as usize,
        ),
        false => (access.bytes.into(), usize::from(access.bytes * access.n)),
    };
    for (place, &value) in bytes[..size].chunks_mut(value_bytes).zip(values) {
        let value = match access.formatted {
            true => convert(surface, value as u32).into(),
            false => value,
        };
        place.copy_from_slice(&value.to_le_bytes()[..value_bytes]);
    }
    match place(access, surface, coords, size as u64)? {
        Some(addr) => thread.write(addr, &bytes[..size]),
        None => Ok(()),
    }
}

pub(super) fn reduce(
    (op, fmt): (AtomicOp, AtomicFmt),
    access: &SurfaceAccess,
    thread: &mut dyn Thread,
    args: &[u64],
) -> Result<(), Fault> {
    let found = Found::of(thread, args[0])?;
    let surface = found.surface()?;
    let (coords, values) = args[1..].split_at(access.geometry.n_coordinates());
    let Some(addr) = place(access, surface, coords, access.bytes.into())? else {
        return Ok(());
    };
    // Where the instruction does not say how integers are compared, the format does.
    let fmt = match fmt {
        AtomicFmt::B32 if surface.image.dtype.is_signed() => AtomicFmt::S32,
        AtomicFmt::B64 if surface.image.dtype.is_signed() => AtomicFmt::S64,
        fmt => fmt,
    };
    let update = &mut |old| eval::atomic(op, fmt, old, values, false);
    thread.update(addr, access.bytes.into(), update).map(drop)
}

/// A value of a formatted store as the surface's format has it.
fn convert(surface: &Surface, value: u32) -> u32 {
    let dtype = surface.image.dtype;
    match dtype {
        ChannelType::F32 | ChannelType::U32 | ChannelType::I32 => value,
        ChannelType::F16 => float_to_half(value).into(),
        ChannelType::U8 | ChannelType::I8 | ChannelType::U16 | ChannelType::I16 => {
            match dtype.full_scale().filter(|_| surface.is_fraction) {
                None => value,
                Some(full) => {
                    let least = if dtype.is_signed() { -1.0 } else { 0.0 };
                    let value = f64::from(f32::from_bits(value));
                    // What is no number becomes 0.
                    (value.clamp(least, 1.0) * full).round_ties_even() as i32 as u32
                }
            }
        }
    }
}

/// The address of `size` bytes at coordinates; none where nothing is to be accessed.
fn place(
    access: &SurfaceAccess,
    surface: &Surface,
    coords: &[u64],
    size: u64,
) -> Result<Option<u64>, Fault> {
    let image = &surface.image;
    if !fits(access.geometry, image.shape) {
        return Err(Fault::refused(format!(
            "a surface of geometry `{}` is not accessed by `.{}`",
            image.shape,
            access.geometry.name()
        )));
    }
    let level = image.base();
    let element = i64::from(image.element_bytes());
    let n_indices = access.geometry.n_indices();
    let coord = |n: usize| coords.get(n).map_or(0, |&word| i64::from(word as i32));
    let axis = |d: usize| match d < access.geometry.n_axes() {
        true => coord(n_indices + d),
        false => 0,
    };
    let scale = if access.formatted { element } else { 1 };
    // The index of a layer has no sign.
    let layer = match n_indices {
        0 => 0,
        _ => i64::from(coords[n_indices - 1] as u32),
    };
    let asked = [axis(0) * scale, axis(1), axis(2), layer];
    if !access.formatted && asked[0].rem_euclid(size as i64) != 0 {
        return Err(Fault::refused(format!(
            "byte {} of a row is not a multiple of {size}, the size of the access",
            asked[0]
        )));
    }
    let row = i64::from(level.size[0]) * element;
    let last = [
        row - size as i64,
        i64::from(level.size[1]) - 1,
        i64::from(level.size[2]) - 1,
        i64::from(image.layers) - 1,
    ];
    let mut found = asked;
    for (place, &last) in found.iter_mut().zip(&last) {
        *place = (*place).min(last).max(0);
    }
    if found != asked || last[0] < 0 {
        match access.outside {
            Outside::Trap => return Err(outside(access, image.shape.name(), asked, size, row)),
            Outside::Clamp if last[0] >= 0 => {}
            Outside::Clamp | Outside::Zero => return Ok(None),
        }
    }
    let [x, y, z, layer] = found.map(|place| place as u64);
    let rows = (layer * u64::from(level.size[2]) + z) * u64::from(level.size[1]) + y;
    let addr = level.addr + rows * level.pitch + x;
    Ok(Some(addr))
}

fn outside(access: &SurfaceAccess, shape: &str, asked: [i64; 4], size: u64, row: i64) -> Fault {
    let [x, y, z, layer] = asked;
    let mut coords = format!("byte {x}");
    let n_axes = access.geometry.n_axes();
    for (d, (name, value)) in [("row", y), ("plane", z)].into_iter().enumerate() {
        if d + 1 < n_axes {
            coords += &format!(", {name} {value}");
        }
    }
    if access.geometry.n_indices() > 0 {
        coords += &format!(", layer {layer}");
    }
    Fault::refused(format!(
        "access to {size} bytes outside of the surface: {coords} of a `{shape}` with rows of {row} bytes"
    ))
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
