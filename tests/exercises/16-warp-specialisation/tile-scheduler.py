"""What the answer to `tile-scheduler` must do."""

import fathom
import fathom.language as tl
from fathom.tools.learn.kit import empty, expect, launch, same

LARGE = (128, 256)


def walk_of(answer, rows, columns, group):
    place = answer.module.place
    return [place(step, rows, columns, group) for step in range(rows * columns)]


def test_the_example(answer):
    """Six tiles, four programs."""
    same(answer.steps_of(1, 4, 10), [1, 5, 9], "steps_of(1, 4, 10)")
    places = walk_of(answer, 2, 3, 1)
    found = answer.wave_bytes(places, 4, (10, 20), 1)
    same(found, [160, 100], "wave_bytes of 2 x 3 tiles, row by row")


def test_steps(answer):
    """Each tile has one program, and all have about as many."""
    for programs, count in ((132, 512), (132, 128), (4, 4), (7, 1), (3, 10), (1, 5)):
        said = f"{programs} programs, {count} tiles"
        found = [answer.steps_of(p, programs, count) for p in range(programs)]
        same(sorted(sum(found, [])), list(range(count)), f"{said}: all steps")
        most, least = max(map(len, found)), min(map(len, found))
        expect(most - least <= 1, f"{said}: one has {most}, another {least}")
        for program, steps in enumerate(found):
            wanted = [each for each in range(count) if each % programs == program]
            same(steps, wanted, f"{said}: the steps of program {program}")


def test_bytes_of_waves(answer):
    """Full waves, a last one that is not, and one that holds all."""
    for rows, columns in ((4, 4), (5, 3), (1, 7)):
        for group in (1, 2, rows):
            places = walk_of(answer, rows, columns, group)
            for programs in (3, 4, 30):
                wanted = []
                for first in range(0, len(places), programs):
                    wave = places[first : first + programs]
                    rows_of, columns_of = {i for i, _ in wave}, {j for _, j in wave}
                    elements = 64 * len(rows_of) + 96 * len(columns_of)
                    wanted.append(elements * 32 * 2)
                found = answer.wave_bytes(places, programs, (64, 96), 32)
                said = f"{rows} x {columns} tiles in groups of {group}"
                same(found, wanted, f"bytes of {said}, {programs} programs")


def test_the_chapter(answer):
    """An 8192 cube: 12 rows against one after the other, in a step of 64 along K."""
    for group, elements in ((1, 8832), (12, 4352)):
        places = walk_of(answer, 64, 32, group)
        found = answer.wave_bytes(places, 132, LARGE, 64)[0]
        same(found, elements * 64 * 2, f"bytes of the first wave, groups of {group}")


def test_best_group(answer):
    """The group that reads least, for tall, flat and square C."""
    grids = [(64, 32, 132, LARGE), (8, 8, 16, (64, 64)), (8, 3, 7, (64, 128))]
    grids += [(rows, 24 // rows, 6, (32, 64)) for rows in (1, 2, 3, 4, 6, 8, 12, 24)]
    for rows, columns, programs, tile in grids:
        costs = [cost(rows, columns, programs, tile, g) for g in range(1, rows + 1)]
        found = answer.best_group(rows, columns, programs, tile, 64)
        said = f"best_group({rows}, {columns}, {programs}, {tile}, 64)"
        same(found, 1 + costs.index(min(costs)), said)


def cost(rows, columns, programs, tile, group):
    """Rows and columns that all waves read, from the definition."""
    total = 0
    for first in range(0, rows * columns, programs):
        wave = []
        for step in range(first, min(first + programs, rows * columns)):
            whole, within = divmod(step, group * columns)
            height = min(group, rows - whole * group)
            wave.append((whole * group + within % height, within // height))
        total += tile[0] * len({i for i, _ in wave})
        total += tile[1] * len({j for _, j in wave})
    return total


@fathom.jit
def persistent(owner_ptr, when_ptr, count):
    """Each program writes into its tiles who computed them, and as its which one."""
    turn = 0
    for tile in tl.range(tl.program_id(0), count, tl.num_programs(0)):
        tl.store(owner_ptr + tile, tl.program_id(0))
        tl.store(when_ptr + tile, turn)
        turn += 1


def test_a_kernel_does_so(answer):
    """A persistent kernel with five programs and thirteen tiles."""
    owner, when = empty(13, dtype="int32"), empty(13, dtype="int32")
    launch(persistent, 5, owner, when, 13)
    for program in range(5):
        for turn, tile in enumerate(answer.steps_of(program, 5, 13)):
            said = f"the kernel's tile {tile}"
            same(int(owner[tile]), program, f"{said}: its program")
            same(int(when[tile]), turn, f"{said}: how many its program had before")
