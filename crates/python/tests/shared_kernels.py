"""Kernels that the tests share."""

SAXPY = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p;
    .reg .u32 %n, %i, %b, %t;
    .reg .f32 %a, %u, %v;
    .reg .u64 %x, %y, %o;
    ld.param.u32 %n, [n];
    ld.param.f32 %a, [a];
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    mov.u32 %b, %ctaid.x;
    mov.u32 %i, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %b, %i, %t;
    setp.ge.u32 %p, %i, %n;
    @%p ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %x, %x, %o;
    add.u64 %y, %y, %o;
    ld.global.f32 %u, [%x];
    ld.global.f32 %v, [%y];
    fma.rn.f32 %v, %a, %u, %v;
    st.global.f32 [%y], %v;
    ret;
}
"""

# Stores 7 where a pointer leads.
STORE = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 p)
{
    .reg .u64 %p;
    ld.param.u64 %p, [p];
    st.global.u32 [%p], 7;
    ret;
}
"""
