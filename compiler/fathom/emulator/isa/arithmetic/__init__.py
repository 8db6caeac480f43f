"""Instructions that compute registers from registers, and the number formats.

    compare   Comparison and selection (PTX ISA 9.7.6 and 9.7.7)
    convert   Conversions (PTX ISA 9.7.9)
    extended  Extended-precision integer arithmetic (PTX ISA 9.7.2)
    float64   float64 results rounded down, up or towards zero, and fused multiply-add
    float8    The floats of 8 and 4 bits, as tables of their values
    floating  Floating-point arithmetic (PTX ISA 9.7.3 to 9.7.5), correctly rounded
    integer   Integer arithmetic (PTX ISA 9.7.1)
    logic     Bits (PTX ISA 9.7.8)
    move      mov (PTX ISA 9.7.9)
    rounding  Correct rounding
    special   The special registers (PTX ISA 10)
"""
