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
pub(super) fn apply(attributes: &[CUlaunchAttribute], shape: &mut Shape) -> Result<()> {
    attributes
        .iter()
        .try_for_each(|attribute| shape.apply(attribute))?;
    // All zero is what a node has that never got a size.
    shape.cluster = shape.cluster.filter(|cluster| *cluster != [0; 3]);
    Ok(())
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
    let mut attributes = kernel.attributes.clone();
    attributes.retain(|known| known.id != id);
    attributes.push(attribute);
    put(node, kernel.with_attributes(attributes)?)
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
    put(to, kernel.with_attributes(from.attributes)?)
}
