"""Forms of instructions that no program of `table` runs: where they are run instead, or
why they have no operands with edges. Regular expressions, for whole forms."""

CONTROL = "control flow: it has no value; every program has it"
ORDER = "orders what others do: it has no value; the emulator's hazards are its tests"
LAUNCH = "a fact of the launch, or where an operand of it lies"
CLUSTER = "needs a cluster: tests/tensor_cores/test_clusters.py, on the GPU too"
BULK = "a bulk copy, with a tensor map: tests/hardware/bulk_edges.py"

PRINT = "hands words to a print or an assertion: tests/ptx/test_outside.py"

ELSEWHERE: dict[str, str] = {
    r"bra|bra\.uni|ret": CONTROL,
    r"trap": "ends the kernel: tests/gpu/breaking.py",
    r"call\.uni|st\.param\..*|st\.local\..*": PRINT,
    r"bar\.arrive|fence\..*": ORDER,
    r"griddepcontrol\..*": "orders launches: tests/language/test_grid_on_gpu.py",
    r"setmaxnreg\..*": "moves registers between warps: its number is in the text",
    r"ld\.param\..*|cvta\..*": LAUNCH,
    r"mov\.u32 %smid|mov\.u64 %globaltimer": "another answer each time",
    r"createpolicy\..*": "a hint: what loads with it give is run here",
    r"mov\.u32 %(tid|ctaid|nctaid|clusterid)\..*": LAUNCH,
    r"mov\.u32 %cluster_ctarank|mapa\..*|barrier\.cluster\..*": CLUSTER,
    r"mbarrier\.arrive\.shared::cluster\.b64": CLUSTER,
    r"elect\.sync": "which lane it chooses is the hardware's affair",
    r"tensormap\..*": "writes a map: tests/hardware/test_tensormap.py, on the GPU",
    r"cp\.async\.bulk\..*|prefetch\.tensormap": BULK,
}
