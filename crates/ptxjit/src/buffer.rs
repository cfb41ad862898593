//! Device memory that the host owns.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ptxjit_runtime::{Arena, Pattern};

use crate::device::{Device, memory};
use crate::texture::Keep;
use crate::{Element, Error, Shortage, UsageRule};

/// An array in device memory. Cheap to clone; all clones are the same memory, which is freed with
/// the last one.
///
/// Reading and writing copy. What a copy sees or leaves while a kernel uses the same bytes is
/// unspecified, as on a GPU.
pub struct Buffer<T: Element> {
    block: Arc<Block>,
    count: usize,
    element: PhantomData<fn() -> T>,
}

/// An allocation; what is passed to a launch keeps it alive.
#[derive(Debug)]
pub(crate) struct Block {
    arena: Arc<Arena>,
    address: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        // Only the device could object, if it did not know the block, and it made it.
        let _ = self.arena.free(self.address);
    }
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(device: &Device, count: usize) -> Result<Buffer<T>, Error> {
        let size = count
            .checked_mul(T::SIZE)
            .and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or_else(|| {
            let message = format!("{count} elements of {} bytes asked for", T::SIZE);
            Error::OutOfMemory {
                shortage: Shortage::Device,
                message,
            }
        })?;
        // An empty buffer still has an address of its own.
        let address = device
            .arena
            .alloc(device.part(), size.max(1), 256)
            .map_err(memory)?;
        let block = Arc::new(Block {
            arena: device.arena.clone(),
            address,
        });
        Ok(Buffer {
            block,
            count,
            element: PhantomData,
        })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The device pointer to the first element.
    pub fn address(&self) -> u64 {
        self.block.address
    }

    /// Copies all elements to the host.
    pub fn read(&self) -> Result<Vec<T>, Error> {
        self.read_range(0, self.count)
    }

    /// Copies `count` elements from `start` on to the host.
    pub fn read_range(&self, start: usize, count: usize) -> Result<Vec<T>, Error> {
        self.check(start, count)?;
        let mut values = bytemuck::zeroed_vec(count);
        self.block
            .arena
            .read(self.byte(start), bytemuck::cast_slice_mut(&mut values))
            .map_err(memory)?;
        Ok(values)
    }

    /// Overwrites the first elements with `values`, of which there may not be more than the buffer
    /// holds.
    pub fn write(&self, values: &[T]) -> Result<(), Error> {
        self.write_at(0, values)
    }

    /// Overwrites elements from `start` on.
    pub fn write_at(&self, start: usize, values: &[T]) -> Result<(), Error> {
        self.check(start, values.len())?;
        self.block
            .arena
            .write(self.byte(start), bytemuck::cast_slice(values))
            .map_err(memory)
    }

    /// Sets every byte.
    pub fn fill_bytes(&self, byte: u8) -> Result<(), Error> {
        self.block
            .arena
            .fill(
                self.address(),
                Pattern::U8(byte),
                (self.count * T::SIZE) as u64,
            )
            .map_err(memory)
    }

    fn byte(&self, start: usize) -> u64 {
        self.address() + (start * T::SIZE) as u64
    }

    fn check(&self, start: usize, count: usize) -> Result<(), Error> {
        let fits = start <= self.count && count <= self.count - start;
        let text = || {
            format!(
                "{count} elements from {start} on are not inside a buffer of {}",
                self.count
            )
        };
        if fits {
            Ok(())
        } else {
            Err(Error::usage(UsageRule::Range, text()))
        }
    }

    pub(crate) fn keep(&self) -> Keep {
        self.block.clone()
    }
}

impl<T: Element> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Buffer {
            block: self.block.clone(),
            count: self.count,
            element: PhantomData,
        }
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(
            f,
            "Buffer<{name}> of {} at {:#x}",
            self.count,
            self.address()
        )
    }
}
