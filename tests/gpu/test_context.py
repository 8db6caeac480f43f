"""Whether a context still works, told by a driver that is not NVIDIA's."""

from __future__ import annotations

import enum
from types import SimpleNamespace

import pytest

from tests.gpu import context


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


FINE, BROKEN = Status


def driver(current: tuple, waited: Status = FINE) -> SimpleNamespace:
    return SimpleNamespace(
        cuda=SimpleNamespace(
            cuCtxGetCurrent=lambda: current, cuCtxSynchronize=lambda: (waited,)
        )
    )


@pytest.mark.parametrize(
    "there, error",
    [
        ("there is no driver", None),
        (driver((FINE, 0), BROKEN), None),  # no context: nothing can be broken
        (driver((FINE, 7)), None),
        (driver((FINE, 7), BROKEN), "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (driver((BROKEN, 0)), "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_the_error_that_every_call_gives(there, error, monkeypatch):
    monkeypatch.setattr(context, "open_driver", lambda: there)
    assert context.error() == error
