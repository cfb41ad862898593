//! Families of instructions that are known by name only. Each has its own chapter file once it is described.

use super::desc::{InstDesc, open};
use super::modifiers::Mod;

pub const TABLE: &[InstDesc] = &[
    open("mma"),
    open("wmma"),
    open("wgmma"),
    open("ldmatrix"),
    open("stmatrix"),
    open("movmatrix"),
    open("tcgen05"),
    open("tex"),
    open("tld4"),
    open("txq"),
    open("istypep"),
    open("suld"),
    open("sust"),
    open("sured"),
    open("suq"),
    open("mbarrier"),
    open("multimem"),
    open("tensormap"),
    open("clusterlaunchcontrol"),
    open("cp").with(&[Mod::Async, Mod::Bulk]),
    open("cp").with(&[Mod::Reduce, Mod::Async, Mod::Bulk]),
    open("cp").with(&[Mod::Async, Mod::Mbarrier, Mod::Arrive]),
];
