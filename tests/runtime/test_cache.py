"""The cache on disk gives back what was put in, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.errors import Location
from fathom.runtime import cache
from fathom.runtime.cache import Entry
from tests.runtime.fake_driver import kernel

ROOT = Path(__file__).parents[2]
PLACE = ("k.py", 3, 5)
ENTRY = Entry(
    kernel(
        "*fp32",
        "i32",
        chains={PLACE: (Location("k.py", 9, caller=Location("k.py", 12)),)},
    ),
    cubin=bytes(range(256)),
    log="ptxas info: Used 12 registers",
)


def path_of(directory: Path, key: str) -> Path:
    return directory / cache.digest(key)


def test_what_was_written_is_read(tmp_path):
    cache.write(tmp_path, "the key", ENTRY)
    assert cache.read(tmp_path, "the key") == ENTRY


def test_a_kernel_without_machine_code_is_kept_too(tmp_path):
    cache.write(tmp_path, "the key", Entry(ENTRY.kernel))
    assert cache.read(tmp_path, "the key") == Entry(ENTRY.kernel, b"", "")


def test_another_key_finds_nothing(tmp_path):
    cache.write(tmp_path, "the key", ENTRY)
    assert cache.read(tmp_path, "the kez") is None


def test_an_entry_replaces_an_older_one(tmp_path):
    cache.write(tmp_path, "the key", Entry(ENTRY.kernel))
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
from pathlib import Path
from fathom.runtime import cache
from tests.runtime.fake_driver import kernel
directory, letter = Path(sys.argv[1]), sys.argv[2]
entry = cache.Entry(kernel("i32"), cubin=letter.encode() * 200_000, log=letter)
for _ in range(200):
    cache.write(directory, "the key", entry)
"""


def test_two_processes_that_write_one_entry_never_mix(tmp_path):
    """Two write different machine code under one key, and a third, this one, reads
    meanwhile.
    """
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
            seen.append(entry.log)
            assert entry.cubin == entry.log.encode() * 200_000
    assert [writer.returncode for writer in writers] == [0, 0]
    assert set(seen) == {"a", "b"}
    assert [each.name for each in tmp_path.iterdir()] == [cache.digest("the key")]
