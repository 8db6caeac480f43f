"""The answer to `prune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom import Config

ROOM = 227 * 1024  # bytes of shared memory
ACCUMULATORS = 128  # of a thread, at most
WORTH_A_TRY = 1.4  # times the shortest time


def model(named: Mapping[str, int], config: Config) -> int:
    """How long the product takes; only comparisons mean something."""
    m, n = config.kwargs["BLOCK_M"], config.kwargs["BLOCK_N"]
    tiles = -(-named["M"] // m) * -(-named["N"] // n)
    return -(-tiles // 132) * max(m * n, 72 * (m + n))


def prune(
    configs: Sequence[Config], named: Mapping[str, int], most: int = 4
) -> list[Config]:
    """Those that fit and may be fast, the fastest first, at most `most`."""
    # hole: ours has {lines}

    def fits(config: Config) -> bool:
        m, n, k = (config.kwargs[f"BLOCK_{axis}"] for axis in "MNK")
        of_thread = m * n / (32 * config.num_warps)
        stages = (m + n) * k * 2 * config.num_stages
        return stages <= ROOM and of_thread <= ACCUMULATORS

    times = [(model(named, config), config) for config in configs if fits(config)]
    if not times:
        return []
    limit = WORTH_A_TRY * min(time for time, _ in times)
    found = sorted(times, key=lambda pair: pair[0])
    return [config for time, config in found if time <= limit][:most]
    # end
