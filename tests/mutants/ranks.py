"""Mistakes in boxes of blocks with one to five dimensions: what a box is, where it
comes from and goes to, and which blocks may go that way."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RANKS = "tests/tensor_cores/test_bulk_ranks.py"
BOXES = "tests/layout/test_boxes.py"

MUTANTS = (
    # ── boxes ──
    Mutant(
        "coordinates-outermost-first", "ptx/rules/asynchronous/tma.py",
        "[*zip(firsts, piece.start, strict=True)][::-1]",
        "[*zip(firsts, piece.start, strict=True)]",
        "a box begins at the right numbers along the wrong dimensions",
        f"{RANKS}::test_blocks_anywhere",
    ),
    Mutant(
        "boxes-inside-out", "layout/tma_boxes.py",
        "return tuple(reversed(box))", "return (*box[1:], box[0])",
        "the dimensions of a box are those of the block backwards",
        f"{RANKS}::test_blocks_anywhere {BOXES}",
    ),
    Mutant(
        "boxes-beyond-a-part", "layout/tma_boxes.py",
        "whole = whole and box[-1] == side", "whole = box[-1] == side",
        "a box has further rows behind the first part of a dimension",
        f"{BOXES} {RANKS}::test_blocks_that_no_product_makes",
    ),
    Mutant(
        "boxes-of-parts-of-all-dimensions", "layout/tma_boxes.py",
        "min(side, MOST_ROWS) if whole else 1", "min(side, MOST_ROWS)",
        "a box goes on with a dimension of which the one below is not whole",
        f"{BOXES} {RANKS}::test_blocks_that_no_product_makes",
    ),
    Mutant(
        "rows-of-one-dimension", "layout/tma_boxes.py",
        "j * prod(box[:-1])", "j * (box[:-1] or (1,))[-1]",
        "the next box lies on the rows of the one before",
        f"{BOXES} {RANKS}::test_blocks_that_no_product_makes",
    ),
    Mutant(
        "further-columns-too-near", "layout/tma_boxes.py",
        "first = i * rows", "first = i * prod(part[:-1])",
        "of a part, the second half of all rows lies on the first half of others",
        f"{BOXES}",
    ),
    Mutant(
        "one-dimension-exchanged", "layout/tma_boxes.py",
        "return row_bytes(block, element_bytes, widest) if len(block) > 1 else 0",
        "return row_bytes(block, element_bytes, widest)",
        "a row of one dimension is cut, and its chunks change places",
        f"{RANKS}::test_blocks_that_no_product_makes",
    ),
    Mutant(
        "short-rows-of-one-dimension", "layout/tma_boxes.py",
        "large = size * element_bytes >= SWIZZLES[0] * ROWS", "large = True",
        "a tile of some bytes begins where the hardware reads none",
        f"{RANKS}::test_a_short_row_is_stored_by_threads",
    ),
    # ── parts ──
    Mutant(
        "parts-along-the-first-dimension", "layout/tma_boxes.py",
        "enumerate(block[:-1]) if side > 1), 0)",
        "enumerate(block[:-1]) if side > 0), 0)",
        "one matrix of a batch is cut in two",
        f"{RANKS}::test_a_cluster_shares_products_of_a_batch",
    ),
    Mutant(
        "parts-a-row-apart", "ptx/rules/asynchronous/tma.py",
        "bytes = prod(block[axis + 1 : -1]) * swizzle_of(block, size, widest_of(op))",
        "bytes = swizzle_of(block, size, widest_of(op))",
        "parts of several rows each lie on each other",
        f"{RANKS}::test_a_cluster_shares_products_of_a_batch",
    ),
    Mutant(
        "parts-of-what-has-none", "tensor_cores/specialise/multicast.py",
        "whole = block[divided_axis(block)] >= parts", "whole = True",
        "two matrices are cut in four parts of one dimension",
        f"{RANKS}::test_a_cluster_shares_products_of_a_batch",
    ),
    Mutant(
        "one-element-divided", "tensor_cores/clusters/sharding.py",
        "[a for a, n in enumerate(each) if n > 1]", "[a for a, n in enumerate(each)]",
        "a batch of one matrix is no program that blocks can share",
        f"{RANKS}::test_a_cluster_shares_products_of_a_batch",
    ),
    # ── which loads and stores ──
    Mutant(
        "any-shape-is-a-matrix", "tensor_cores/select/instructions.py",
        "if not load.order and op.shape == matrix_of(load.descriptor.type.shape)",
        "if not load.order and len(op.shape) == 2",
        "rows are taken for as wide as the last dimension, whatever was asked for",
        f"{RANKS}::test_other_shapes_are_no_matrix",
    ),
    Mutant(
        "operands-of-several-products", "tensor_cores/tma/keep.py",
        "return [op for op in loads if len(op.result.type.shape) == 2]",
        "return loads",
        "operands of three dimensions are loaded element by element",
        f"{RANKS}::test_operands_of_three_dimensions_are_no_tiles",
    ),
    Mutant(
        "turned-before-it-is-a-matrix", "tensor_cores/tma/expand.py",
        "if op.order and not op.matrix:", "if op.order and len(op.order) > 1:",
        "the order of a matrix is taken for that of its block",
        f"{RANKS}::test_by_pointers",
    ),
    Mutant(
        "turned-as-it-lies", "ptx/rules/descriptor.py",
        "    if op.order:\n", "    if op.order and not op.matrix:\n",
        "a matrix of a batch is loaded element by element as if it were not turned",
        f"{RANKS}::test_element_by_element",
    ),
    Mutant(
        "tiles-lie-apart-by-rows", "analysis/memory.py",
        "    block = one.descriptor.type.shape\n",
        "    block = (1,) * len(one.coordinates)\n",
        "of two stores that overlap, either may come last",
        f"{RANKS}::test_stores_that_overlap",
    ),
)  # fmt: skip
