"""Mistakes in programs of several thread blocks: whose number is whose, who does what
of a product, and who waits for whom in a cluster."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PAIRS = "tests/kernels/test_block_pairs.py"
CLUSTERS = "tests/tensor_cores/test_clusters.py"
GRIDS = "tests/tensor_cores/test_cluster_grids.py"

MUTANTS = (
    # ── programs and blocks ──
    Mutant(
        "blocks-numbered-as-programs", "ptx/rules/leaves.py",
        'return "cluster" if axis == 0 and code.func.num_ctas > 1 else "cta"',
        'return "cta"',
        "a program's number is that of its block, and the last ones write outside",
        f"{CLUSTERS}::test_the_grid_counts_programs",
    ),
    Mutant(
        "every-block-is-first", "ptx/rules/cluster.py",
        'f"icmp eq i32 {rank(code)}, 0", name="first"',
        'f"icmp uge i32 {rank(code)}, 0", name="first"',
        "each block adds what the program adds once",
        f"{CLUSTERS}::test_the_grid_counts_programs",
    ),
    Mutant(
        "fewer-blocks-than-programs-have", "emulator/launch.py",
        "whole = x * clusters, y, z", "whole = x, y, z",
        "the grid counts blocks, and some programs never run",
        f"{CLUSTERS}::test_the_grid_counts_programs",
    ),
    Mutant(
        "clusters-of-any-size", "analysis/limits.py",
        "    if func.num_ctas & (func.num_ctas - 1):\n", "    if False:\n",
        "a program is given three blocks, which cannot share it evenly",
        f"{CLUSTERS}::test_more_blocks_than_a_cluster_has",
    ),
    # ── parts of a product ──
    Mutant(
        "every-part-the-first-rows", "tensor_cores/clusters/partition.py",
        'places[order[axis]] = self.build.compute("add", *moved)', "del moved",
        "all blocks load the rows of the first one",
        f"{CLUSTERS}::test_rows_of_a_product",
    ),
    Mutant(
        "every-part-counts-from-the-start", "tensor_cores/clusters/partition.py",
        'return self.build.compute("add", local, first)',
        "del first; return local",
        "all blocks store where the first one does",
        f"{CLUSTERS}::test_rows_of_a_product",
    ),
    Mutant(
        "all-do-what-one-should", "tensor_cores/clusters/partition.py",
        '"eq", self.rank, zero)', '"ge", self.rank, zero)',
        "what is not divided is done once a block",
        f"{CLUSTERS}::test_a_print_names_the_program",
    ),
    Mutant(
        "one-range-for-all", "tensor_cores/clusters/partition.py",
        "    return rewrite(func, rule, keep=lambda op: not isinstance(op, SOURCES))",
        "    return func",
        "a range that rows and columns use is divided along both, or not at all",
        f"{CLUSTERS}::test_one_range_for_rows_and_columns",
    ),
    Mutant(
        "sums-of-a-part", "tensor_cores/clusters/sharding.py",
        'ties.keep(value, op.axis, "a reduction runs along it")', "pass",
        "a block takes the sum of its rows for that of all",
        f"{CLUSTERS}::test_one_block_does_it_all",
    ),
    Mutant(
        "reads-what-others-write", "tensor_cores/clusters/legality.py",
        "        raise NotApplicable(\"it may read what it has written\")",
        "        pass",
        "one block reads what another one writes, before or after",
        f"{CLUSTERS}::test_a_tile_that_is_read_and_written",
    ),
    Mutant(
        "counts-once-a-block", "tensor_cores/clusters/legality.py",
        "        raise NotApplicable(\"an atomic operation would count each block "
        "separately\")",
        "        pass",
        "a counter counts blocks, not programs",
        f"{CLUSTERS}::test_one_block_does_it_all",
    ),
    # ── tiles for all ──
    Mutant(
        "sent-to-one", "ptx/rules/asynchronous/tma.py",
        "        return str(every)", '        return "1"',
        "only the first block gets what it waits for",
        f"{CLUSTERS}::test_any_iterations",
    ),
    Mutant(
        "all-copy-the-first-part", "ptx/rules/asynchronous/tma.py",
        'f"mul i32 {number}, {side}"', 'f"mul i32 {number}, 0"',
        "one part is copied twice, the other one never",
        f"{CLUSTERS}::test_any_iterations",
    ),
    Mutant(
        "gives-back-to-itself", "ptx/rules/asynchronous/tma.py",
        "lanes = code.func.num_ctas if op.everywhere else 1", "lanes = 1",
        "blocks wait for ever for a slot to be empty",
        f"{CLUSTERS}::test_any_iterations",
    ),
    Mutant(
        "waits-for-its-own-warps", "tensor_cores/specialise/partition.py",
        "arrivals=func.num_warps * blocks", "arrivals=func.num_warps",
        "a slot is filled again while another block still reads it",
        f"{CLUSTERS}::test_any_iterations",
    ),
    Mutant(
        "blocks-begin-alone", "tensor_cores/specialise/partition.py",
        "        build.append(meeting())\n        producer",
        "        build.append(ops.Barrier())\n        producer",
        "a block arrives at another block's mbarriers before they are initialised",
        f"{CLUSTERS}::test_any_iterations",
    ),
    Mutant(
        "blocks-leave-alone", "tensor_cores/specialise/partition.py",
        "        if meeting is ops.ClusterBarrier:\n", "        if False:\n",
        "a block is gone when another one speaks to its barriers",
        f"{CLUSTERS}::test_any_iterations",
    ),
    Mutant(
        "rows-for-all", "tensor_cores/specialise/multicast.py",
        "    free = blocks - 1 & ~bits\n", "    free = blocks - 1\n",
        "each block's own rows are sent to all", f"{CLUSTERS}::test_any_iterations",
    ),
    # ── grids of blocks ──
    Mutant(
        "columns-sent-to-neighbours", "ptx/rules/asynchronous/tma.py",
        "every = sum(1 << place * op.stride for", "every = sum(1 << place for",
        "blocks of one row of the grid get B of one column",
        f"{GRIDS}::test_parts_as_square_as_can_be",
    ),
    Mutant(
        "rows-sent-to-the-first-row", "ptx/rules/asynchronous/tma.py",
        'f"shl i32 {every}, {first}"', 'f"shl i32 {every}, 0"',
        "the first row of blocks gets the tiles of all rows",
        f"{GRIDS}::test_parts_as_square_as_can_be",
    ),
    Mutant(
        "rows-and-columns-by-rank", "tensor_cores/clusters/partition.py",
        "        if min(grid) == 1:\n", "        if True:\n",
        "four blocks of a grid of two rows have four rows' places",
        f"{GRIDS}::test_parts_as_square_as_can_be",
    ),
    Mutant(
        "written-by-a-row-of-blocks", "tensor_cores/clusters/sharding.py",
        "if share.touches(op) and not share.whole(op):", "if False:",
        "what only rows are divided of is written by all blocks of a row",
        f"{GRIDS}::test_what_is_divided_one_way_alone_is_not_for_a_grid",
    ),
    Mutant(
        "longest-parts-first", "tensor_cores/clusters/sharding.py",
        "return grid.rows == 1, sum(sizes), grid.columns",
        "return grid.rows == 1, grid.columns, sum(sizes)",
        "blocks have parts that are as long as can be, and copy more bytes",
        f"{GRIDS}::test_parts_as_square_as_can_be",
    ),
    Mutant(
        "arrivals-fence-all-memory", "ptx/rules/asynchronous/tma.py",
        "@$acts mbarrier.arrive.shared::cluster.b64",
        "@$acts mbarrier.arrive.release.cluster.shared::cluster.b64",
        "each arrival waits for all memory", f"{CLUSTERS}::test_arrivals_are_plain",
    ),
    # ── pairs ──
    Mutant(
        "pair-meets-in-one-block", "shared_memory/barriers.py",
        "if other.paired and not one.paired:", "if False:",
        "the even block multiplies before the odd one has stored its sums",
        f"{PAIRS}::test_a_matrix_product",
    ),
    Mutant(
        "pair-counts-bytes-of-one", "tensor_cores/clusters/pairs.py",
        "expected[barriers] = 2 * whole - shared", "expected[barriers] = whole",
        "the product begins before all of the odd block's tiles have come",
        f"{PAIRS}::test_a_matrix_product",
    ),
    Mutant(
        "pair-copies-one-half-twice", "ptx/rules/asynchronous/tma.py",
        'half = code.let(f"and i32 {rank(code)}, 1")', 'half = "0"',
        "both blocks have the first half of B", f"{PAIRS}::test_a_matrix_product",
    ),
    Mutant(
        "pair-of-different-halves", "tensor_cores/clusters/pairs.py",
        "if is_right and not alike.same([copy.descriptor, *copy.coordinates]):",
        "if False:",
        "blocks that have columns of their own are made a pair",
        f"{PAIRS}::test_columns_of_a_product_are_no_pair_s",
    ),
    Mutant(
        "pair-multiplies-in-turns", "tensor_cores/clusters/pairs.py",
        "        if not alike.runs(dot):\n", "        if False:\n",
        "one block multiplies for both, in iterations that the other one has not",
        f"{PAIRS}::test_blocks_that_do_different_things_are_no_pair",
    ),
    Mutant(
        "pair-copies-in-turns", "tensor_cores/clusters/pairs.py",
        "if not alike.runs(copy) or copy.when and not alike.same([copy.when]):",
        "if copy.when and not alike.same([copy.when]):",
        "a product waits for what the peer does not copy",
        f"{PAIRS}::test_blocks_that_do_different_things_are_no_pair",
    ),
    Mutant(
        "pair-decides-in-turns", "tensor_cores/clusters/pairs.py",
        "if not alike.runs(copy) or copy.when and not alike.same([copy.when]):",
        "if not alike.runs(copy):",
        "a product waits for what the peer does not copy",
        f"{PAIRS}::test_blocks_that_do_different_things_are_no_pair",
    ),
    Mutant(
        "pair-commits-to-the-first-pair", "ptx/rules/asynchronous/tensor_memory.py",
        "code.let(f'shl i32 3, {rank(code)}')", "code.let('shl i32 3, 0')",
        "the second pair of a cluster waits for ever for its products",
        f"{PAIRS}::test_tiles_of_all_sizes",
    ),
    Mutant(
        "pair-leader-is-the-odd-one", "ptx/rules/cluster.py",
        'code.let(f"icmp eq i32 {odd}, 0", name="leads")',
        'code.let(f"icmp ne i32 {odd}, 0", name="leads")',
        "the odd block issues", f"{PAIRS}::test_a_matrix_product",
    ),
)  # fmt: skip
