//! Attributes of pointers.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::host;
use crate::types::{
    CU_DEVICE_INVALID, CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS, CUdeviceptr, CUmemorytype,
    CUpointer_attribute as Attribute, CUresult,
};

use super::value::Value;
use super::{Allocation, REGISTRY, Sort};

/// An attribute of a pointer that the driver knows; none if it does not apply to such memory.
fn of(allocation: &Allocation, addr: u64, attribute: Attribute) -> Result<Option<Value>> {
    let is_host = allocation.is_host();
    let is_managed = allocation.is_managed();
    Ok(Some(match attribute {
        Attribute::CONTEXT => Value::Long(allocation.context),
        Attribute::MEMORY_TYPE if is_host => Value::Int(CUmemorytype::HOST.0 as i32),
        Attribute::MEMORY_TYPE => Value::Int(CUmemorytype::DEVICE.0 as i32),
        Attribute::DEVICE_POINTER => Value::Long(addr),
        Attribute::HOST_POINTER if is_host || is_managed => Value::Long(addr),
        Attribute::HOST_POINTER => return Ok(None),
        Attribute::P2P_TOKENS if is_host => return Ok(None),
        Attribute::P2P_TOKENS => Value::Tokens(allocation.id, allocation.device as u32),
        Attribute::SYNC_MEMOPS => Value::Bool(allocation.sync_memops.load(Ordering::Relaxed)),
        Attribute::BUFFER_ID | Attribute::MEMORY_BLOCK_ID => Value::Long(allocation.id),
        // An `unsigned int`, unlike the other answers of yes or no.
        Attribute::IS_MANAGED => Value::Int(i32::from(is_managed)),
        Attribute::DEVICE_ORDINAL => Value::Int(allocation.device),
        Attribute::IS_LEGACY_CUDA_IPC_CAPABLE
        | Attribute::IS_GPU_DIRECT_RDMA_CAPABLE
        | Attribute::IS_HW_DECOMPRESS_CAPABLE => Value::Bool(false),
        Attribute::RANGE_START_ADDR | Attribute::MAPPING_BASE_ADDR => Value::Long(allocation.base),
        Attribute::RANGE_SIZE | Attribute::MAPPING_SIZE => Value::Long(allocation.size),
        Attribute::MAPPED => Value::Bool(true),
        Attribute::ALLOWED_HANDLE_TYPES => Value::Long(0),
        Attribute::ACCESS_FLAGS => {
            Value::Int(CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS::READWRITE.0 as i32)
        }
        Attribute::MEMPOOL_HANDLE => Value::Long(match allocation.sort {
            Sort::Pool(pool) => pool,
            Sort::Device
            | Sort::Managed
            | Sort::Pinned(_)
            | Sort::Registered(_)
            | Sort::Global
            | Sort::ManagedGlobal
            | Sort::Virtual
            | Sort::Graph => 0,
        }),
        _ => return Err(CUresult::INVALID_VALUE),
    }))
}

/// What stands for an attribute where there is none.
fn nothing(attribute: Attribute) -> Result<Value> {
    Ok(match attribute {
        Attribute::DEVICE_ORDINAL => Value::Int(CU_DEVICE_INVALID),
        Attribute::MEMORY_TYPE | Attribute::ACCESS_FLAGS | Attribute::IS_MANAGED => Value::Int(0),
        Attribute::SYNC_MEMOPS
        | Attribute::IS_LEGACY_CUDA_IPC_CAPABLE
        | Attribute::MAPPED
        | Attribute::IS_GPU_DIRECT_RDMA_CAPABLE
        | Attribute::IS_HW_DECOMPRESS_CAPABLE => Value::Bool(false),
        Attribute::P2P_TOKENS => Value::Tokens(0, 0),
        Attribute::CONTEXT
        | Attribute::DEVICE_POINTER
        | Attribute::HOST_POINTER
        | Attribute::BUFFER_ID
        | Attribute::RANGE_START_ADDR
        | Attribute::RANGE_SIZE
        | Attribute::ALLOWED_HANDLE_TYPES
        | Attribute::MEMPOOL_HANDLE
        | Attribute::MAPPING_SIZE
        | Attribute::MAPPING_BASE_ADDR
        | Attribute::MEMORY_BLOCK_ID => Value::Long(0),
        _ => return Err(CUresult::INVALID_VALUE),
    })
}

/// `cuPointerGetAttribute`. Memory that the driver does not know has none.
pub fn attribute(attribute: Attribute, addr: CUdeviceptr) -> Result<Value> {
    let allocation = REGISTRY.find(addr).ok_or(CUresult::INVALID_VALUE)?;
    of(&allocation, addr, attribute)?.ok_or(CUresult::INVALID_VALUE)
}

/// `cuPointerGetAttributes`. What does not apply, or everything for unknown memory, is null.
pub fn attributes(attributes: &[Attribute], addr: CUdeviceptr) -> Result<Vec<Value>> {
    if attributes.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    let allocation = REGISTRY.find(addr);
    let value = |&attribute| {
        let known = match &allocation {
            Some(allocation) => of(allocation, addr, attribute)?,
            None => None,
        };
        known.map_or_else(|| nothing(attribute), Ok)
    };
    attributes.iter().map(value).collect()
}

/// `cuPointerSetAttribute`; the value is an address of the client.
pub fn set_attribute(value: u64, attribute: Attribute, addr: CUdeviceptr) -> Result<()> {
    let allocation = REGISTRY.find(addr).ok_or(CUresult::INVALID_VALUE)?;
    if attribute != Attribute::SYNC_MEMOPS {
        return Err(CUresult::INVALID_VALUE);
    }
    // An `unsigned int`, or a `bool`: the first byte tells.
    let is_on = host::get::<u8>(value)? != 0;
    allocation.sync_memops.store(is_on, Ordering::Relaxed);
    Ok(())
}
