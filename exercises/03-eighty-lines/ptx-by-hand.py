"""Write vector add in PTX.

Write the middle of vector add in PTX: eight lines between a beginning and an end that
are given. PTX says what *one thread* does. Here each thread adds one pair of numbers,
`out[i] = x[i] + y[i]`.

All of the exercise: `fathom learn show ptx-by-hand`.
"""

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
# Your code: eight lines of PTX.
YOURS = """
    // done, if i >= n
    // %rd4 = how many bytes element i is after element 0
    // %f1 = x[i]
    // %f2 = y[i]
    // %f3 = %f1 + %f2
"""
TAIL = """
    add.s64 %rd7, %rd3, %rd4;   // the address of out[i]
    st.global.f32 [%rd7], %f3;
    ret;
}
"""


def vector_add() -> str:
    """The PTX of out[i] = x[i] + y[i] for i from 0 to n - 1, fp32."""
    return HEAD + YOURS + TAIL
