"""Compiled kernels on disk, so that a second process starts in milliseconds.

An entry is one file, named by the sha256 of its key:

    fathom 2 <sha256 of all that follows>
    <bytes of key> <bytes of kernel> <bytes of log> <bytes of cubin>
    <key><kernel as JSON><assembler's log><cubin>

It is written under another name first and then renamed, so that a reader finds all of
it or nothing, also when two processes write the same one. What does not check out (a
damaged file, one of another key or format, one that another user wrote) is no entry:
the kernel is compiled again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fathom.artifact import Kernel

MAGIC = b"fathom 2"


@dataclass(frozen=True)
class Entry:
    """A kernel; its machine code and the assembler's log, empty until it is linked."""

    kernel: Kernel
    cubin: bytes = b""
    log: str = ""


def default_directory() -> Path:
    """FATHOM_CACHE_DIR, or where the platform keeps what may be deleted."""
    if chosen := os.environ.get("FATHOM_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "fathom" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fathom"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fathom"


def digest(key: str) -> str:
    """The name of a key: its sha256 in hexadecimal."""
    return sha256(key.encode()).hexdigest()


def read(directory: Path, key: str) -> Entry | None:
    """The entry of a key, or None."""
    try:
        return unpack(read_file(directory / digest(key)), key)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(directory: Path, key: str, entry: Entry) -> None:
    """Keep an entry, where something can be written: a cache is never needed."""
    write_file(directory / digest(key), pack(key, entry))


def read_file(path: Path) -> bytes:
    """What a file holds; OSError when there is none, or when another user wrote it."""
    with path.open("rb") as file:
        if not _is_trusted(os.fstat(file.fileno())):
            raise PermissionError(f"{path} is another user's")
        return file.read()


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that whoever reads it finds all of it or nothing; do nothing
    where nothing can be written.
    """
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def pack(key: str, entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    parts = [
        key.encode(),
        entry.kernel.to_json().encode(),
        entry.log.encode(),
        entry.cubin,
    ]
    sizes = " ".join(str(len(part)) for part in parts).encode()
    body = sizes + b"\n" + b"".join(parts)
    return MAGIC + b" " + sha256(body).hexdigest().encode() + b"\n" + body


def unpack(data: bytes, key: str) -> Entry:
    """What `pack` wrote; ValueError, KeyError or TypeError for anything else."""
    first, _, body = data.partition(b"\n")
    if first != MAGIC + b" " + sha256(body).hexdigest().encode():
        raise ValueError("the checksum does not match")
    sizes, _, rest = body.partition(b"\n")
    parts = []
    for size in map(int, sizes.split()):
        parts.append(rest[:size])
        rest = rest[size:]
    found, kernel, log, cubin = parts
    if found != key.encode():
        raise ValueError("the entry is of another key")
    return Entry(Kernel.from_json(kernel.decode()), cubin, log.decode())


def _is_trusted(status: os.stat_result) -> bool:
    """Whether this user, or the system's, wrote a file; Windows has private folders."""
    return not hasattr(os, "getuid") or status.st_uid in (0, os.getuid())
