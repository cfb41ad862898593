//! Exact bounds of variables: where they are asked for, an access must lie in one variable of its
//! window.

use ptxjit_ir::{CTA_SHIFT, SharedLayout};

use crate::access::{Place, SHARED_BASE, WINDOW, place};
use crate::launch::Machine;
use crate::memory::MemFault;
use crate::thread::Thread;

/// Start and end of the variables in shared memory, where they are kept apart; else none.
pub(crate) fn shared_objects(layout: &SharedLayout, dynamic: u32) -> Vec<(u64, u64)> {
    if layout.padding == 0 {
        return Vec::new();
    }
    let sized = layout.objects.iter();
    let mut objects: Vec<(u64, u64)> = sized
        .map(|&(at, size)| (at.into(), u64::from(at) + u64::from(size)))
        .collect();
    let start = u64::from(layout.static_size);
    objects.push((start, start + u64::from(dynamic)));
    objects
}

impl Machine<'_, '_> {
    pub(crate) fn check_object(
        &self,
        thread: &Thread<'_>,
        addr: u64,
        len: u64,
    ) -> Result<(), MemFault> {
        if !self.checks().mem {
            return Ok(());
        }
        match place(addr) {
            Place::Param => Ok(()),
            Place::Memory if self.is_const(addr) => self.check_constant(addr, len),
            Place::Memory => Ok(()),
            Place::Local => {
                let offset = addr.wrapping_sub(self.local_base);
                if offset.wrapping_add(WINDOW) >= 2 * WINDOW {
                    return Err(MemFault::ForeignLocal);
                }
                // Most accesses are to variables of the innermost call.
                let objects = thread.objects.iter().rev();
                check_in("local", objects, (offset, len))
            }
            Place::Shared if self.shared_objects.is_empty() => Ok(()),
            Place::Shared => {
                let offset = addr.wrapping_sub(SHARED_BASE) & ((1 << CTA_SHIFT) - 1);
                let objects = self.shared_objects.iter().rev();
                check_in("shared", objects, (offset, len))
            }
        }
    }

    fn check_constant(&self, addr: u64, len: u64) -> Result<(), MemFault> {
        let vars = self.launch.const_vars;
        let below = vars.partition_point(|var| var.start <= addr);
        let Some(var) = below.checked_sub(1).map(|idx| &vars[idx]) else {
            return Ok(());
        };
        match addr + len <= var.end {
            true => Ok(()),
            false => Err(outside("constant", (var.start, var.end), (addr, len))),
        }
    }
}

/// Looks for the object that an access lies in; `objects` begin with the last.
fn check_in<'a>(
    name: &str,
    mut objects: impl Iterator<Item = &'a (u64, u64)> + Clone,
    (offset, len): (u64, u64),
) -> Result<(), MemFault> {
    let mut all = objects.clone();
    if objects.any(|&(start, end)| offset >= start && offset.saturating_add(len) <= end) {
        return Ok(());
    }
    Err(match all.find(|&&(start, _)| offset >= start) {
        Some(&object) => outside(name, object, (offset, len)),
        None => MemFault::Forbidden(format!(
            "{len} bytes at offset {} of {name} memory, where no variable is",
            offset as i64
        )),
    })
}

fn outside(name: &str, (start, end): (u64, u64), (at, len): (u64, u64)) -> MemFault {
    MemFault::Forbidden(format!(
        "{len} bytes at byte {} of a {name} variable that has {} bytes",
        at - start,
        end - start
    ))
}
