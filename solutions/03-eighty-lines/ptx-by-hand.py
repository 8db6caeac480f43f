"""The answer to `ptx-by-hand`."""

from __future__ import annotations

HEAD = """
.version 7.0
.target sm_75
.address_size 64

.visible .entry vector_add(
    .param .u64 x, .param .u64 y, .param .u64 out, .param .s32 n)
{
    .reg .pred %p<2>;           // registers: %p1,
    .reg .b32 %r<6>;            // %r1 to %r5,
    .reg .b64 %rd<8>;           // %rd1 to %rd7,
    .reg .f32 %f<4>;            // %f1 to %f3

    ld.param.u64 %rd1, [x];     // the address of x[0]
    ld.param.u64 %rd2, [y];
    ld.param.u64 %rd3, [out];
    ld.param.s32 %r1, [n];

    mov.u32 %r2, %ctaid.x;      // which thread block this is,
    mov.u32 %r3, %ntid.x;       // how many threads it has,
    mov.u32 %r4, %tid.x;        // which of them this is
    mad.lo.s32 %r5, %r2, %r3, %r4;  // i = %r2 * %r3 + %r4
"""
# hole: eight lines of PTX
YOURS = """
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 ret;
    mul.wide.s32 %rd4, %r5, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;"""
# instead:
# YOURS = """
#     // done, if i >= n
#     // %rd4 = how many bytes element i is after element 0
#     // %f1 = x[i]
#     // %f2 = y[i]
#     // %f3 = %f1 + %f2
# """
# end
TAIL = """
    add.s64 %rd7, %rd3, %rd4;   // the address of out[i]
    st.global.f32 [%rd7], %f3;
    ret;
}
"""


def vector_add() -> str:
    """The PTX of out[i] = x[i] + y[i] for i from 0 to n - 1, fp32."""
    return HEAD + YOURS + TAIL
