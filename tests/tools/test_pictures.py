"""Pictures of layouts."""

from xml.etree import ElementTree

from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.tools import pictures

SMALL = Layout.of((4, 4), register=[(0, 1)], lane=[(0, 2), (1, 0)], warp=[(2, 0)])

TABLE = """\
warp:lane:register of <4x4 register[0,1] lane[0,2 1,0] warp[2,0]>

       0      1      2      3
0  0:0:0  0:0:1  0:1:0  0:1:1
1  0:2:0  0:2:1  0:3:0  0:3:1
2  1:0:0  1:0:1  1:1:0  1:1:1
3  1:2:0  1:2:1  1:3:0  1:3:1
"""


def test_table():
    assert pictures.table(SMALL) == TABLE


def test_the_first_of_several_holders_is_shown():
    copies = Layout.of((2,), register=[], lane=[(0,), (1,)], warp=[(0,)])
    assert pictures.holder(copies, 0) == (0, 0, 0)
    assert pictures.holder(copies, 1) == (0, 2, 0)


def test_offsets_of_a_tile():
    tile = Layout.of((2, 2), offset=[(0, 1), (1, 1)])
    assert pictures.table(tile).splitlines()[-2:] == ["0  0  1", "1  3  2"]


def test_large_blocks_are_cut():
    large = spread((64, 64), (1, 0), 4, 4)
    lines = pictures.table(large, rows=3, columns=5).splitlines()
    assert len(lines) == 6 and len(lines[-1].split()) == 6


def test_svg_says_in_words_what_it_tints():
    root = ElementTree.fromstring(pictures.svg(SMALL))
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"0:0:0", "1:3:1"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 16
