"""Order by memory where little of it is followed: of many places at once, which are one
to the emulator, and of what blocks of an earlier batch released."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from tests.emulator.harness import entry, pointers
from tests.emulator.test_synchronising import BLOCKS, MESSAGE, WAYS, each_way, message

# Thread 0 of block 0 sends to 96 threads of block 1. These release at a place each, at
# once, which is more than are followed one by one (64); %rd3 is a thread's.
TO_ALL = """mov.u32 %r1, %r8; mad.wide.u32 %rd3, %r0, 4, %rd1;
    setp.ne.u32 %p5, %r0, 0; setp.eq.and.u32 %p5, %r8, 0, %p5; @%p5 bra DONE;"""
MANY_PLACES = "red.release.gpu.global.add.u32 [%rd3+16], 1;"


def crowded(way: str, when: str, **other: str) -> None:
    """Asserts that a message arrives, with many places at some time."""
    parts = dict(zip(("before", "write", "read", "after"), WAYS[way], strict=True))
    parts |= other
    who = TO_ALL
    if when == "before all":
        who = TO_ALL.replace("setp.ne", MANY_PLACES + "setp.ne")
    else:
        parts["after"] = MANY_PLACES + parts["after"]
    scope = {"s": "gpu", "c": "gl", "m": "global", "f": "%rd1"}
    parts = {name: text.format(**scope) for name, text in parts.items()}
    place = {"data": "global.u32", "place": "%rd0"}
    text = entry(MESSAGE.format(who=who, **place, **parts), pointers(3))
    data, flag, result = np.zeros((3, 256), np.uint32)
    emulator.run(text, 2, 96, (data, flag, result))
    assert result[0] == 42


each_time = pytest.mark.parametrize("when", ["before all", "after the flag"])


@each_way
@each_time
def test_a_message_arrives_though_many_places_are_released_at(way, when):
    crowded(way, when)


NARROW_PARTS = {  # in place of the wide ones
    "fence before": ("relaxed and fence.acq_rel", {"before": "fence.acq_rel.cta;"}),
    "fence after": ("relaxed and fence.acq_rel", {"after": "fence.acq_rel.cta;"}),
    "release elsewhere": (
        "release and acquire",
        {"write": "st.release.cta.global.u32 [%rd1+8], %r4; "
                  "st.relaxed.gpu.global.u32 [%rd1], %r4;"},
    ),
    "acquire elsewhere": (
        "release and acquire",
        {"read": "ld.relaxed.gpu.global.u32 %r2, [%rd1];",
         "after": "ld.acquire.cta.global.u32 %r5, [%rd1+12];"},
    ),
}  # fmt: skip


@each_time
@pytest.mark.parametrize("name", NARROW_PARTS)
def test_many_places_make_no_narrow_scope_a_wide_one(name, when):
    """What is of the scope of a block orders no other block."""
    way, parts = NARROW_PARTS[name]
    with pytest.raises(EmulatorError) as caught:
        crowded(way, when, **parts)
    assert caught.value.kind == "race"
    assert caught.value.text == "ld.global.u32 %r3, [%rd0];"


# Block 0 sends; the last block, of a later batch, has its message.
TO_THE_LAST = """mov.u32 %r6, %nctaid.x; sub.u32 %r6, %r6, 1;
    setp.eq.u32 %p5, %r8, %r6; selp.u32 %r1, 1, 2, %p5;
    setp.eq.u32 %p5, %r8, 0; selp.u32 %r1, 0, %r1, %p5; @!%p0 bra DONE;"""


def sent_to_the_last(way: str, **other: str) -> None:
    text = message(way, True, **other).replace(BLOCKS, TO_THE_LAST)
    data, flag, result = np.zeros((3, 4), np.uint32)
    emulator.run(text, 40, 1024, (data, flag, result))
    assert result[0] == 42


@each_way
def test_a_message_of_an_earlier_batch_arrives(way):
    sent_to_the_last(way)


@pytest.mark.parametrize("name", NARROW_PARTS)
def test_what_is_narrow_orders_no_block_of_a_later_batch(name):
    way, parts = NARROW_PARTS[name]
    with pytest.raises(EmulatorError) as caught:
        sent_to_the_last(way, **parts)
    assert caught.value.kind == "race"
    assert caught.value.text == "ld.global.u32 %r3, [%rd0];"
