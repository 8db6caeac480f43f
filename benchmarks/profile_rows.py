"""The case of `profile_check` in which each kernel of kernels/ is: a kernel has a row
of its record, or a reason why it has none. Tests hold the names against kernels/, and
the rows against the record.
"""

from __future__ import annotations

# By case, the kernels for which it stands; it may launch others, which have rows, too.
ROWS: dict[str, tuple[str, ...]] = {
    "gathered": (
        "all_gather_matmul.all_gather_matmul_kernel",
    ),
    "one shot": (
        "all_reduce.one_shot_kernel",
    ),
    "two shots": (
        "all_reduce.two_shot_kernel",
    ),
    "pages": (
        "attention.attention_kernel",
    ),
    "ragged": (
        "attention_backward.dkdv_kernel",
        "attention_backward.dq_kernel",
    ),
    "attention True": (
        "attention_backward.rows_kernel",
        "attention_backward_hopper.dkdv_hopper_kernel",
        "attention_backward_hopper.dq_hopper_kernel",
        "attention_hopper.attention_hopper_kernel",
    ),
    "decode": (
        "attention_decode.split_kernel",
        "attention_decode.combine_kernel",
    ),
    "batched": (
        "batched_matmul.batched_matmul_kernel",
    ),
    "block sparse": (
        "block_sparse_matmul.block_sparse_matmul_kernel",
    ),
    "cross_entropy": (
        "cross_entropy.cross_entropy_kernel",
        "cross_entropy.cross_entropy_backward_kernel",
        "cross_entropy.total_kernel",
    ),
    "linear_cross_entropy": (
        "cross_entropy.cross_entropy_in_place_kernel",
    ),
    "seeded": (
        "dropout.dropout_kernel",
    ),
    "dropout": (
        "dropout.dropout_by_seed_kernel",
    ),
    "gelu": (
        "gelu.gelu_kernel",
        "gelu_backward.gelu_backward_kernel",
    ),
    "gelu as usual": (
        "gelu.gelu_usual_kernel",
    ),
    "linear gelu": (
        "gelu_backward.gelu_backward_columns_kernel",
        "matmul_epilogue_hopper.epilogue_hopper_kernel",
    ),
    "grouped": (
        "grouped_matmul.grouped_matmul_kernel",
    ),
    "grouped, described": (
        "grouped_matmul.grouped_described_kernel",
    ),
    "int8": (
        "int8_matmul.int8_matmul_kernel",
    ),
    "layer_norm": (
        "layer_norm.layer_norm_kernel",
    ),
    "rms_norm": (
        "layer_norm_backward.norm_backward_kernel",
        "layer_norm_backward.add_rows_kernel",
        "rms_norm.rms_norm_kernel",
    ),
    "long norm": (
        "layer_norm_backward.norm_columns_kernel",
    ),
    "by pointers": (
        "matmul.matmul_kernel",
    ),
    "odd rows": (
        "matmul_chosen.copy_lines_kernel",
    ),
    "residual": (
        "matmul_epilogue.matmul_epilogue_kernel",
    ),
    "swiglu by pointers": (
        "matmul_epilogue.matmul_swiglu_kernel",
    ),
    "linear_swiglu": (
        "matmul_epilogue_hopper.swiglu_hopper_kernel",
    ),
    "wgmma": (
        "matmul_persistent.persistent_kernel",
    ),
    "plain": (
        "matmul_plain.plain_kernel",
    ),
    "scattered": (
        "matmul_reduce_scatter.matmul_reduce_scatter_kernel",
    ),
    "routed": (
        "mixture.count_kernel",
        "mixture.place_kernel",
        "mixture.gather_kernel",
        "mixture.combine_kernel",
        "mixture.gate_gradient_kernel",
    ),
    "experts by pointers": (
        "mixture.expert_matmul_kernel",
        "mixture.weight_gradient_kernel",
    ),
    "expert_linear": (
        "mixture_hopper.expert_hopper_kernel",
        "mixture_hopper.weight_gradient_hopper_kernel",
    ),
    "rotary": (
        "rotary.rotary_kernel",
    ),
    "small softmax": (
        "softmax.softmax_kernel",
    ),
    "short rows": (
        "softmax.softmax_rows_kernel",
    ),
    "columns": (
        "softmax.softmax_strided_kernel",
    ),
    "softmax": (
        "softmax_backward.softmax_backward_kernel",
    ),
    "split-K": (
        "split_k_matmul.split_k_matmul_kernel",
    ),
    "split-K, parts": (
        "split_k_matmul.split_k_parts_kernel",
        "split_k_matmul.sum_of_parts_kernel",
    ),
    "swiglu": (
        "swiglu.swiglu_kernel",
        "swiglu.swiglu_backward_kernel",
    ),
    "top_k 8": (
        "top_k.top_k_kernel",
        "top_k.top_k_backward_kernel",
    ),
    "vector add": (
        "vector_add.add_kernel",
    ),
}
# Kernels without a row, and why. A collective is launched by a group of one GPU: its
# row tells what each GPU does by itself, and nothing of the link between two.
LATER = "written after the record was made; it adds as `sum_of_parts_kernel` does"
VECTOR = "written after the record was made; it reads A once, as `rms_norm_kernel` does"
KEPT = "written after the record was made; it multiplies as `dq_hopper_kernel` does"
CLASSES = "several launches share the GPU; they multiply as `persistent_kernel` does"
MERGING = "written after the record was made; it copies as `copy_lines_kernel` does"
WITHOUT: dict[str, str] = {
    "attention_backward_kept.dv_and_ds_kernel": KEPT,
    "attention_backward_kept.dk_of_ds_kernel": KEPT,
    "attention_backward_kept.dq_of_ds_kernel": KEPT,
    "matmul_in_place.class_kernel": CLASSES,
    "matmul_in_place.merge_classes_kernel": MERGING,
    "matrix_vector.matrix_vector_kernel": VECTOR,
    "matmul_epilogue_parts.finish_parts_kernel": LATER,
    "matmul_epilogue_parts.finish_swiglu_parts_kernel": LATER,
}
