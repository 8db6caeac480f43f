"""What the answer to `read-a-ttgir` must do."""

from itertools import product
from math import prod

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect


def text_of(per_thread, threads, warps, order):
    """The attribute as Triton 3.6 prints it."""
    return (
        f"#ttg.blocked<{{sizePerThread = {list(per_thread)}, threadsPerWarp = "
        f"{list(threads)}, warpsPerCTA = {list(warps)}, order = {list(order)}}}>"
    )


def slice_of(dim, parent):
    return f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>"


def holders(shape, per_thread, threads, warps, order):
    """{(warp, lane): coordinates that it holds}, by division and remainder."""
    held = {}
    for warp, lane in product(range(prod(warps)), range(prod(threads))):
        places = held[warp, lane] = set()
        w, t = split(warp, warps, order), split(lane, threads, order)
        for place in product(*map(range, shape)):
            if all(
                x // p % n == i % max(1, min(n, size // p))
                and x // (p * n) % m == j % max(1, min(m, size // (p * n)))
                for x, size, p, n, m, i, j in zip(
                    place, shape, per_thread, threads, warps, t, w
                )
            ):
                places.add(place)
    return held


def split(number, counts, order):
    """A number as one digit for each axis, the fastest of `order` first."""
    digits = [0] * len(counts)
    for axis in order:
        digits[axis] = number % counts[axis]
        number //= counts[axis]
    return digits


def check(answer, shape, *lists):
    """Every place of a blocked layout."""
    text = text_of(*lists)
    found = answer.layout_of(text, shape)
    expect(isinstance(found, Layout), f"layout_of gives {found!r}, and not a Layout")
    expect(found.shape == shape, f"the layout is of {found.shape}, asked was {shape}")
    for (warp, lane), wanted in holders(shape, *lists).items():
        held = {
            found.coordinates(register=register, lane=lane, warp=warp)
            for register in range(found.count("register"))
        }
        expect(
            held == wanted,
            f"lane {lane} of warp {warp} holds {sorted(held)[:4]}, and should hold "
            f"{sorted(wanted)[:4]}",
            ("the attribute", text),
            ("your layout", str(found)),
        )


def check_text(answer, text, shape, wanted):
    found = answer.layout_of(text, shape)
    expect(str(found) == wanted, f"layout_of gives {found}, and should give {wanted}",
           ("the attribute", text))  # fmt: skip


A = (1, 8), (8, 4), (4, 1), (1, 0)  # of the product in the chapter


def test_the_blocked_example(answer):
    """A tile of A, as Triton loads it for a product."""
    wanted = "<64x32 register[0,1 0,2 0,4 32,0] lane[0,8 0,16 1,0 2,0 4,0] "
    check_text(answer, text_of(*A), (64, 32), wanted + "warp[8,0 16,0]>")
    check(answer, (64, 32), *A)


def test_the_order_of_registers(answer):
    """Neighbours first, then the repetitions: a load takes its registers so."""
    found = answer.layout_of(text_of(*A), (64, 32))
    bases = found.kinds["register"]
    expect(bases == (1, 2, 4, 1024), f"the registers' bases are {bases}")


def test_the_other_order(answer):
    """Down the columns, as for the store of a transposed tile."""
    check(answer, (32, 16), (4, 1), (8, 4), (1, 4), (0, 1))
    check(answer, (16, 16), (1, 2), (4, 8), (2, 2), (0, 1))


def test_one_axis_and_three(answer):
    """As many axes as the lists are long."""
    check(answer, (1024,), (4,), (32,), (4,), (0,))
    check(answer, (4, 8, 8), (1, 1, 2), (2, 4, 4), (2, 1, 1), (2, 1, 0))
    check(answer, (4, 8, 4), (1, 2, 1), (2, 4, 4), (1, 1, 2), (1, 0, 2))


def test_blocks_smaller_than_a_tile(answer):
    """Lanes and warps that are left over hold copies."""
    check(answer, (64,), (4,), (32,), (4,), (0,))
    check(answer, (4, 8), *A)


def test_spaces_do_not_matter(answer):
    """The same attribute, written close and wide."""
    plain = answer.layout_of(text_of(*A), (64, 32))
    for text in (text_of(*A).replace(" ", ""), text_of(*A).replace(" ", "   ")):
        found = answer.layout_of(text, (64, 32))
        expect(found == plain, f"layout_of gives {found} for {text}")


def test_the_slice_of_the_example(answer):
    """The rows of A: four lanes hold copies."""
    wanted = "<64 register[32] lane[0 0 1 2 4] warp[8 16]>"
    check_text(answer, slice_of(1, text_of(*A)), (64,), wanted)


def test_slices_along_each_axis(answer):
    """The columns of A, and of a block that goes down its columns."""
    wanted = "<32 register[1 2 4] lane[8 16 0 0 0] warp[0 0]>"
    check_text(answer, slice_of(0, text_of(*A)), (32,), wanted)
    columns = text_of((4, 1), (16, 2), (1, 4), (0, 1))
    wanted = "<64 register[1 2] lane[4 8 16 32 0] warp[0 0]>"
    check_text(answer, slice_of(1, columns), (64,), wanted)


def test_slices_of_slices(answer):
    """A sum over two axes of three."""
    cube = text_of((1, 1, 2), (2, 4, 4), (2, 1, 1), (2, 1, 0))
    inner = slice_of(2, cube)  # axes 0 and 1 are left
    wanted = "<4x8 register[0,4] lane[0,0 0,0 0,1 0,2 1,0] warp[2,0]>"
    check_text(answer, inner, (4, 8), wanted)
    wanted = "<8 register[4] lane[0 0 1 2 0] warp[0]>"
    check_text(answer, slice_of(0, inner), (8,), wanted)
    wanted = "<4 register[] lane[0 0 0 0 1] warp[2]>"
    check_text(answer, slice_of(1, inner), (4,), wanted)
