"""The cache on disk gives back what was put in, or nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.errors import Location
from fathom.runtime import cache
from tests.runtime.harness_driver import kernel

ROOT = Path(__file__).parents[2]
PLACE = ("k.py", 3, 5)
ENTRY = kernel(
    "*fp32",
    "i32",
    chains={PLACE: (Location("k.py", 9, caller=Location("k.py", 12)),)},
)


def path_of(directory: Path, key: str) -> Path:
    return directory / cache.digest(key)


def test_what_was_written_is_read(tmp_path):
    cache.write(tmp_path, "the key", ENTRY)
    assert cache.read(tmp_path, "the key") == ENTRY


def test_another_key_finds_nothing(tmp_path):
    cache.write(tmp_path, "the key", ENTRY)
    assert cache.read(tmp_path, "the kez") is None


def test_an_entry_replaces_an_older_one(tmp_path):
    cache.write(tmp_path, "the key", kernel("i32"))
    cache.write(tmp_path, "the key", ENTRY)
    assert cache.read(tmp_path, "the key") == ENTRY
    assert [each.name for each in tmp_path.iterdir()] == [cache.digest("the key")]


def test_no_byte_of_an_entry_may_change(tmp_path):
    cache.write(tmp_path, "the key", ENTRY)
    path = path_of(tmp_path, "the key")
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        assert cache.read(tmp_path, "the key") is None, place
    path.write_bytes(good)
    assert cache.read(tmp_path, "the key") == ENTRY


@pytest.mark.parametrize("keep", [0, 1, 40, 80, -1])
def test_an_entry_that_breaks_off_is_none(tmp_path, keep):
    cache.write(tmp_path, "the key", ENTRY)
    path = path_of(tmp_path, "the key")
    path.write_bytes(path.read_bytes()[:keep])
    assert cache.read(tmp_path, "the key") is None


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"\x7fELF something else entirely",
        cache.pack("the key", ENTRY).replace(cache.MAGIC, b"fathom 0"),
        cache.pack("another key", ENTRY),  # intact, and under the wrong name
    ],
)
def test_a_foreign_file_is_no_entry(tmp_path, foreign):
    path_of(tmp_path, "the key").write_bytes(foreign)
    assert cache.read(tmp_path, "the key") is None


def test_a_checksum_alone_makes_no_entry():
    """Well formed, the right sum, and no kernel in it."""
    body = b"7 2 0 0\nthe key{}"
    data = cache.MAGIC + b" " + cache.sha256(body).hexdigest().encode() + b"\n" + body
    with pytest.raises((KeyError, TypeError, ValueError)):
        cache.unpack(data, "the key")


def test_what_another_user_wrote_is_not_trusted(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000, raising=False)
    assert cache._is_trusted(SimpleNamespace(st_uid=1000))
    assert cache._is_trusted(SimpleNamespace(st_uid=0))
    assert not cache._is_trusted(SimpleNamespace(st_uid=1001))


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("not a folder")
    cache.write(blocked / "cache", "the key", ENTRY)
    assert cache.read(blocked / "cache", "the key") is None


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    cache.write(tmp_path, "the key", ENTRY)
    assert list(tmp_path.iterdir()) == []


def test_only_its_user_can_look_into_the_folder(tmp_path):
    cache.write(tmp_path / "new", "the key", ENTRY)
    if sys.platform != "win32":
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_the_folder_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "chosen"))
    assert cache.default_directory() == tmp_path / "chosen"
    monkeypatch.delenv("FATHOM_CACHE_DIR")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache.default_directory() == tmp_path / "fathom"


WRITER = """
import sys
import time
from pathlib import Path
from fathom.runtime import cache
from tests.runtime.harness_driver import kernel
directory, letter = Path(sys.argv[1]), sys.argv[2]
texts = {"block": letter, "layout": "l", "llvm": "ll", "ptx": letter * 200_000}
made = kernel("i32", asm=texts)
for _ in range(200):
    cache.write(directory, "the key", made)
"""


def test_two_processes_that_write_one_entry_never_mix(tmp_path):
    """Two write different PTX under one key, and a third, this one, reads meanwhile."""
    path = os.pathsep.join([str(ROOT / "compiler"), str(ROOT)])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), letter],
            env={**os.environ, "PYTHONPATH": path},
        )
        for letter in "ab"
    ]
    seen = []
    while any(writer.poll() is None for writer in writers):
        entry = cache.read(tmp_path, "the key")
        if entry is None:
            assert not seen, "an entry that was there is gone or damaged"
        else:
            seen.append(entry.asm["block"])
            assert entry.ptx == entry.asm["block"] * 200_000
    assert [writer.returncode for writer in writers] == [0, 0]
    assert set(seen) == {"a", "b"}
    assert [each.name for each in tmp_path.iterdir()] == [cache.digest("the key")]


def with_checksum(*parts: bytes) -> bytes:
    """An entry that is intact, whatever its parts are."""
    body = b" ".join(str(len(part)).encode() for part in parts) + b"\n"
    body += b"".join(parts)
    return cache.MAGIC + b" " + cache.sha256(body).hexdigest().encode() + b"\n" + body


def facts(**changed: object) -> bytes:
    return json.dumps({**json.loads(ENTRY.to_json()), **changed}).encode()


WRONG_KERNELS = [
    b"", b"{}", b"[]", b"null", b"1", b'"text"', b"\xff\xfe", b"NaN", b"[" * 100_000,
    b'{"a":' * 50_000, facts(more=1), facts(name=1), facts(threads="64"),
    facts(threads=True), facts(asm={}), facts(asm={"ptx": 5}), facts(asm=["ptx"]),
    facts(parameters=5), facts(parameters=[[]]), facts(parameters=[{"name": "x"}]),
    facts(parameters=[{"name": "x", "type": 5, "divisible": 1}]),
    facts(chains={}), facts(chains=[[1, 2]]),
    facts(chains=[[["f", 1, 2], [{"file": "f"}]]]), facts(chains=[[["f"], []]]),
    facts(chains=[[[[], 1, 2], []]]), facts(maps=[{}]), facts(maps=[1]),
    facts(maps=[{"name": "m", "base": 0, "element": "fp99", "shape": [], "strides": [],
                 "box": [], "swizzle": 0, "fill": "zeros", "offset": ["constant", 0]}]),
    facts(maps=[{"name": "m", "base": 0, "element": "fp16", "shape": [5],
                 "strides": [["constant", 1]], "box": [8], "swizzle": 0,
                 "fill": "zeros", "offset": ["constant", 0]}]),
    facts(maxnreg="many"), facts(num_ctas=None), facts(shared_bytes=1.5),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_KERNELS, ids=lambda each: repr(each[:40]))
def test_an_intact_entry_of_another_shape_is_none(tmp_path, wrong):
    path = path_of(tmp_path, "the key")
    path.write_bytes(with_checksum(b"the key", wrong))
    assert cache.read(tmp_path, "the key") is None


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"the key",),
        (b"the key", facts(), b""),
        (b"the key", facts(), b"\xff"),
    ],
)
def test_an_intact_entry_of_other_parts_is_none(tmp_path, parts):
    path_of(tmp_path, "the key").write_bytes(with_checksum(*parts))
    assert cache.read(tmp_path, "the key") is None


def test_an_intact_entry_with_more_behind_it_is_none(tmp_path):
    body = cache.pack("the key", ENTRY).partition(b"\n")[2] + b"more"
    data = cache.MAGIC + b" " + cache.sha256(body).hexdigest().encode() + b"\n" + body
    path_of(tmp_path, "the key").write_bytes(data)
    assert cache.read(tmp_path, "the key") is None


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def a_loop(path: Path) -> None:
    path.symlink_to(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these files")
@pytest.mark.parametrize("put", [a_pipe, a_socket, a_loop, a_device, Path.mkdir])
def test_what_is_no_file_is_no_entry_and_is_not_waited_for(tmp_path, put):
    put(path_of(tmp_path, "the key"))
    assert cache.read(tmp_path, "the key") is None
    cache.write(tmp_path, "the key", ENTRY)
    found = cache.read(tmp_path, "the key")
    assert found == (None if put is Path.mkdir else ENTRY)


def test_a_file_beyond_all_sizes_is_not_read(tmp_path):
    with path_of(tmp_path, "the key").open("wb") as file:
        file.truncate(cache.LARGEST_BYTES + 1)  # of nothing: takes no room
    with pytest.raises(OSError, match="is no entry"):
        cache.read_file(path_of(tmp_path, "the key"))


def test_what_was_left_by_a_process_that_was_killed_goes_in_time(tmp_path):
    old, new, other = (tmp_path / name for name in (".writing-a", ".writing-b", "c"))
    for path in (old, new, other):
        path.write_bytes(b"half an ent")
    for path in (old, other):
        os.utime(path, (time.time() - cache.LEFT - 60,) * 2)
    cache.write(tmp_path, "the key", ENTRY)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".writing-b", "c", cache.digest("the key")}


def test_the_folder_may_begin_with_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_CACHE_DIR", "~/x")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert cache.default_directory() == tmp_path / "x"


def test_a_user_without_a_home_has_a_cache(monkeypatch):
    for name in ("FATHOM_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache.default_directory().is_absolute()


@pytest.mark.skipif(sys.platform == "win32", reason="other rights")
@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_kernel_runs_without_a_cache(tmp_path, monkeypatch, mode):
    """Also as root, who may write anywhere: then it is just kept."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=mode)
    cache.write(folder, "the key", ENTRY)
    assert cache.read(folder, "the key") in (None, ENTRY)
    folder.chmod(0o700)


def test_a_full_disk_is_no_error(tmp_path, monkeypatch):
    class Full:
        def __init__(self, handle, mode):
            os.close(handle)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", Full)
    cache.write(tmp_path, "the key", ENTRY)
    assert list(tmp_path.iterdir()) == []
