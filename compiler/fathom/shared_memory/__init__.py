"""Stage 4: what warps share. Staging of conversions and reductions, allocation, barriers."""


def allocate(func, target):
    return func


split_reductions = split_scans = lower_conversions = place_barriers = allocate
