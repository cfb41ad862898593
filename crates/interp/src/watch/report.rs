//! Findings in words.

use ptxjit_ir::Space;

use super::clock::Agent;
use super::finding::{Access, AccessOp, Finding, FindingKind, Object, Reason, Severity, Site};
use super::history::{Event, Race};
use super::order::Place;
use super::{Watch, Who};

/// A state space as reports name it.
pub(super) fn space_name(space: Space) -> &'static str {
    match space {
        Space::Shared | Space::SharedCluster => "shared memory",
        Space::Global => "global memory",
        Space::Local => "local memory",
        Space::Const => "constant memory",
        Space::Param => "parameters",
        Space::Generic => "a register",
    }
}

fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

/// An access by a thread, where it is.
pub(super) fn access(sites: &[Site], who: &Who, op: AccessOp) -> Access {
    Access {
        op,
        ctaid: who.ctaid,
        tid: who.tid,
        site: sites[who.site as usize].clone(),
        threads: 1,
    }
}

impl Watch {
    /// The variable at an offset in shared memory, or at an address.
    pub(crate) fn object(
        &self,
        is_shared: bool,
        addr: u64,
        allocation: Option<(u64, u64)>,
    ) -> Option<Object> {
        let list = match is_shared {
            true => &self.names.shared,
            false => &self.names.globals,
        };
        let inside = |&&(start, size, _): &&(u64, u64, String)| {
            addr >= start && (addr - start < size || size == 0)
        };
        if let Some((start, size, name)) = list.iter().filter(inside).max_by_key(|var| var.0) {
            return Some(Object {
                name: name.clone(),
                offset: (addr - start) as i64,
                size: *size,
            });
        }
        let (start, size) = allocation?;
        let params = self.names.params.iter();
        let mut pointing = params.filter(|(value, _)| *value >= start && *value <= start + size);
        let name = pointing
            .next()
            .map_or(String::new(), |(_, name)| name.clone());
        Some(Object {
            name,
            offset: addr.wrapping_sub(start) as i64,
            size,
        })
    }

    pub(crate) fn access_of(&self, who: &Who, op: AccessOp) -> Access {
        access(&self.sites, who, op)
    }

    pub(crate) fn by(&self, who: &Who) -> String {
        format!("thread {} of CTA {}", triple(who.tid), triple(who.ctaid))
    }

    fn ids(&self, agent: Agent) -> ([u32; 3], [u32; 3]) {
        let split = |n: u32, [x, y, _]: [u32; 3]| [n % x, n / x % y, n / x / y];
        (split(agent.cta, self.grid), split(agent.idx, self.block))
    }

    fn event_access(&self, event: &Event) -> Access {
        let (ctaid, tid) = self.ids(event.by);
        Access {
            op: event.op,
            ctaid,
            tid,
            site: self.sites[event.site as usize].clone(),
            threads: 1,
        }
    }

    pub(super) fn report_race(&mut self, who: Who, place: Place, race: Race) {
        let Race {
            old,
            new,
            hazard,
            reason,
        } = race;
        let is_shared = matches!(place, Place::Shared(_));
        let addr = new.addr.max(old.addr);
        let end = (new.addr + u64::from(new.size)).min(old.addr + u64::from(old.size));
        let keeps = if new.is_write { new.keeps } else { old.keeps };
        let severity = match keeps && reason != Reason::Proxy && !self.checks.same_value {
            true => Severity::Info,
            false => Severity::Error,
        };
        let verb = |event: &Event| match (event.op, event.is_write) {
            (AccessOp::Copy, true) => "copies to",
            (AccessOp::Copy, false) => "copies from",
            (AccessOp::Free, _) => "frees",
            (AccessOp::Atomic, _) => "updates",
            (_, true) => "writes",
            (_, false) => "reads",
        };
        let (ctaid, tid) = self.ids(old.by);
        let other = match (old.by.cta == who.cta, old.by.idx == who.thread) {
            (true, true) => "the same thread".to_owned(),
            (true, false) => format!("thread {} of the same CTA", triple(tid)),
            (false, _) => format!("thread {} of CTA {}", triple(tid), triple(ctaid)),
        };
        let space = if is_shared {
            Space::Shared
        } else {
            Space::Global
        };
        let why = match reason {
            Reason::Order => "and nothing orders the two",
            Reason::Scope => "and their scopes do not include each other",
            Reason::Async => "and the copy was not waited for",
            Reason::Proxy if new.agent.is_bulk() => {
                "and no `fence.proxy.async` lies between the two"
            }
            Reason::Proxy => "though `ld.global.nc` reads what no thread of the launch may write",
            Reason::MixedSize => "and the two overlap in part only",
        };
        let message = format!(
            "thread {} {} {} bytes of {} that {other} {}, {why}",
            triple(who.tid),
            verb(&new),
            end - addr,
            space_name(space),
            verb(&old),
        );
        let object = self.object(is_shared, addr, None);
        let accesses = vec![self.event_access(&new), self.event_access(&old)];
        let mut finding = Finding::new(FindingKind::Race, severity, message, accesses);
        finding.space = Some(space);
        finding.hazard = Some(hazard);
        finding.reason = Some(reason);
        finding.address = Some(addr);
        finding.bytes = Some(end - addr);
        if let Some(object) = &object {
            let (name, offset, size) = (&object.name, object.offset, object.size);
            finding
                .notes
                .push(format!("`{name}` + {offset} of {size} bytes"));
        }
        if keeps {
            let text = "the write stores the value that is there already";
            finding.notes.push(text.to_owned());
        }
        finding.object = object;
        self.findings.add(finding);
    }
}
