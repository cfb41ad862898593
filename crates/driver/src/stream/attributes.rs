//! Attributes of streams: they are kept, and none but the priority makes a difference here.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::types::{
    CUlaunchAttributeValue, CUlaunchMemSyncDomain, CUlaunchMemSyncDomainMap, CUresult, CUstream,
    CUstreamAttrID, CUsynchronizationPolicy, Raw, Union,
};

use super::PRIORITIES;

/// What a stream keeps.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Attributes {
    window: CUlaunchAttributeValue,
    policy: CUsynchronizationPolicy,
    domain_map: CUlaunchMemSyncDomainMap,
    domain: CUlaunchMemSyncDomain,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            window: CUlaunchAttributeValue::default(),
            policy: CUsynchronizationPolicy::AUTO,
            // The default domain is number 0, the remote one number 1.
            domain_map: CUlaunchMemSyncDomainMap {
                default_: 0,
                remote: 1,
            },
            domain: CUlaunchMemSyncDomain::DEFAULT,
        }
    }
}

fn of<T: Raw>(value: T) -> CUlaunchAttributeValue {
    CUlaunchAttributeValue {
        bytes: Union::of(value),
    }
}

/// `cuStreamGetAttribute`.
pub fn get(stream: CUstream, id: CUstreamAttrID) -> Result<CUlaunchAttributeValue> {
    let stream = super::get(stream)?;
    let attributes = stream.attributes.lock();
    match id {
        CUstreamAttrID::ACCESS_POLICY_WINDOW => Ok(attributes.window),
        CUstreamAttrID::SYNCHRONIZATION_POLICY => Ok(of(attributes.policy.0)),
        CUstreamAttrID::PRIORITY => Ok(of(stream.priority.load(Ordering::Relaxed))),
        CUstreamAttrID::MEM_SYNC_DOMAIN_MAP => Ok(of(attributes.domain_map)),
        CUstreamAttrID::MEM_SYNC_DOMAIN => Ok(of(attributes.domain.0)),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuStreamSetAttribute`.
pub fn set(stream: CUstream, id: CUstreamAttrID, value: &CUlaunchAttributeValue) -> Result<()> {
    let stream = super::get(stream)?;
    let mut attributes = stream.attributes.lock();
    match id {
        CUstreamAttrID::ACCESS_POLICY_WINDOW => {
            let window = value.access_policy_window();
            // A part, at most all; a number that is no number is none of it.
            if !(0.0..=1.0).contains(&window.hitRatio) || window.hitProp.0 > 2 {
                return Err(CUresult::INVALID_VALUE);
            }
            attributes.window = of(window);
        }
        CUstreamAttrID::SYNCHRONIZATION_POLICY => {
            let policy = CUsynchronizationPolicy(value.number() as u32);
            if policy.c_name().is_none() {
                return Err(CUresult::INVALID_VALUE);
            }
            attributes.policy = policy;
        }
        CUstreamAttrID::PRIORITY => {
            let priority = value.number();
            if !(PRIORITIES.0..=PRIORITIES.1).contains(&priority) {
                return Err(CUresult::INVALID_VALUE);
            }
            stream.priority.store(priority, Ordering::Relaxed);
        }
        CUstreamAttrID::MEM_SYNC_DOMAIN_MAP => attributes.domain_map = value.mem_sync_domain_map(),
        CUstreamAttrID::MEM_SYNC_DOMAIN => {
            let domain = CUlaunchMemSyncDomain(value.number() as u32);
            if domain.c_name().is_none() {
                return Err(CUresult::INVALID_VALUE);
            }
            attributes.domain = domain;
        }
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}

/// `cuStreamCopyAttributes`, between streams of one context.
pub fn copy(to: CUstream, from: CUstream) -> Result<()> {
    let (to, from) = (super::get(to)?, super::get(from)?);
    if to.context != from.context {
        return Err(CUresult::INVALID_VALUE);
    }
    let attributes = *from.attributes.lock();
    *to.attributes.lock() = attributes;
    let priority = from.priority.load(Ordering::Relaxed);
    to.priority.store(priority, Ordering::Relaxed);
    Ok(())
}
