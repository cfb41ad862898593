//! Families of instructions that are known by name only. Each has its own chapter file once it is described.

use super::desc::{InstDesc, open};

pub const TABLE: &[InstDesc] = &[
    open("wgmma"),
    open("ldmatrix"),
    open("stmatrix"),
    open("movmatrix"),
    open("tcgen05"),
];
