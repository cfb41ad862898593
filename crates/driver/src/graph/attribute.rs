//! Attributes of kernel nodes.

use crate::error::Result;
use crate::launch::Shape;
use crate::types::{
    CUgraphNode, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUresult,
};

use super::node;
use super::work::{KernelNode, Work};

/// Whether kernel nodes have an attribute.
fn check(id: CUlaunchAttributeID) -> Result<()> {
    match id {
        CUlaunchAttributeID::ACCESS_POLICY_WINDOW
        | CUlaunchAttributeID::COOPERATIVE
        | CUlaunchAttributeID::CLUSTER_DIMENSION
        | CUlaunchAttributeID::CLUSTER_SCHEDULING_POLICY_PREFERENCE
        | CUlaunchAttributeID::PRIORITY
        | CUlaunchAttributeID::MEM_SYNC_DOMAIN_MAP
        | CUlaunchAttributeID::MEM_SYNC_DOMAIN
        | CUlaunchAttributeID::PREFERRED_CLUSTER_DIMENSION
        | CUlaunchAttributeID::PREFERRED_SHARED_MEMORY_CARVEOUT
        | CUlaunchAttributeID::NVLINK_UTIL_CENTRIC_SCHEDULING
        | CUlaunchAttributeID::PORTABLE_CLUSTER_SIZE_MODE
        | CUlaunchAttributeID::SHARED_MEMORY_MODE => Ok(()),
        // Kernels cannot change nodes.
        CUlaunchAttributeID::DEVICE_UPDATABLE_KERNEL_NODE => Err(CUresult::NOT_SUPPORTED),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// What attributes mean for a launch; all but two only tune.
pub(super) fn apply(attributes: &[CUlaunchAttribute], shape: &mut Shape) {
    for attribute in attributes {
        match attribute.id {
            CUlaunchAttributeID::COOPERATIVE => {
                shape.cooperative = attribute.value.number() != 0;
            }
            CUlaunchAttributeID::CLUSTER_DIMENSION => {
                let size = attribute.value.cluster_dim();
                // All zero is what a node has that never got one.
                let is_set = size.x != 0 || size.y != 0 || size.z != 0;
                shape.cluster = is_set.then_some([size.x, size.y, size.z]);
            }
            _ => {}
        }
    }
}

/// Most blocks in a cluster.
const MAX_CLUSTER: u32 = 8;

/// Checks the value of an attribute.
fn check_value(value: &CUlaunchAttribute, kernel: &KernelNode) -> Result<()> {
    let mut shape = kernel.command.shape;
    apply(std::slice::from_ref(value), &mut shape);
    let Some(cluster) = shape.cluster else {
        return Ok(());
    };
    let n_blocks = cluster
        .iter()
        .try_fold(1_u32, |all, &size| all.checked_mul(size));
    if !n_blocks.is_some_and(|n_blocks| (1..=MAX_CLUSTER).contains(&n_blocks)) {
        return Err(CUresult::INVALID_CLUSTER_SIZE);
    }
    let divides = (0..3).all(|axis| shape.grid[axis].is_multiple_of(cluster[axis]));
    match divides {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

fn kernel_of(handle: CUgraphNode) -> Result<KernelNode> {
    match node(handle)?.work()? {
        Work::Kernel(kernel) => Ok(kernel),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn put(handle: CUgraphNode, kernel: KernelNode) -> Result<()> {
    let node = node(handle)?;
    node.graph.body.lock().node_mut(node.id)?.work = Work::Kernel(kernel);
    Ok(())
}

// --- The interface ---

/// `cuGraphKernelNodeSetAttribute`.
pub fn set_attribute(
    node: CUgraphNode,
    id: CUlaunchAttributeID,
    value: CUlaunchAttributeValue,
) -> Result<()> {
    let kernel = kernel_of(node)?;
    check(id)?;
    let attribute = CUlaunchAttribute {
        id,
        pad: [0; 4],
        value,
    };
    check_value(&attribute, &kernel)?;
    let mut attributes = kernel.attributes.clone();
    attributes.retain(|known| known.id != id);
    attributes.push(attribute);
    put(node, kernel.with_attributes(attributes))
}

/// `cuGraphKernelNodeGetAttribute`; all 0 if it was never set.
pub fn get_attribute(node: CUgraphNode, id: CUlaunchAttributeID) -> Result<CUlaunchAttributeValue> {
    let kernel = kernel_of(node)?;
    check(id)?;
    let known = kernel.attributes.iter().find(|known| known.id == id);
    let mut value = known.map(|known| known.value).unwrap_or_default();
    if known.is_none() && id == CUlaunchAttributeID::COOPERATIVE {
        // A captured launch has it from its call.
        value
            .bytes
            .set(0, i32::from(kernel.command.shape.cooperative));
    }
    Ok(value)
}

/// `cuGraphKernelNodeCopyAttributes`.
pub fn copy_attributes(to: CUgraphNode, from: CUgraphNode) -> Result<()> {
    let (kernel, from) = (kernel_of(to)?, kernel_of(from)?);
    for attribute in &from.attributes {
        check_value(attribute, &kernel)?;
    }
    put(to, kernel.with_attributes(from.attributes))
}
