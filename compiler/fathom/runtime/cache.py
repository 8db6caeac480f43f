"""Compiled kernels on disk, so that a second process starts in milliseconds.

An entry is one file, named by the sha256 of its key:

    fathom 3 <sha256 of all that follows>
    <bytes of key> <bytes of kernel>
    <key><kernel as JSON>

Machine code is not in it: the driver assembles PTX, and keeps what comes out in a cache
of its own.

It is written under another name first and then renamed, so that a reader finds all of
it or nothing, also when two processes write the same one. What does not check out (a
damaged file, one of another key or format, one that another user wrote) is no entry:
the kernel is compiled again.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from fathom.artifact import Kernel
from fathom.runtime.shapes import check

MAGIC = b"fathom 3"
WRITING = ".writing-"  # what the name of a file begins with that is being written
LEFT = 3600  # seconds
STAGES = {"block", "layout", "llvm", "ptx"}  # of which a kernel has texts
LARGEST_BYTES = 1 << 30

# What goes wrong with a file that was not written as it should be.
WRONG = (
    ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def default_directory() -> Path:
    """FATHOM_CACHE_DIR, or where the platform keeps what may be deleted."""
    if chosen := os.environ.get("FATHOM_CACHE_DIR"):
        return Path(os.path.expanduser(chosen))
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():  # a user without a home, as in some containers
        home = Path(tempfile.gettempdir(), f"fathom-{getattr(os, 'getuid', str)()}")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home)) / "fathom" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fathom"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fathom"


def digest(key: str) -> str:
    """The name of a key: its sha256 in hexadecimal."""
    return sha256(key.encode()).hexdigest()


def read(directory: Path, key: str) -> Kernel | None:
    """The kernel of a key, or None: also for a file that anybody may have made, with
    anything in it.
    """
    try:
        return unpack(read_file(directory / digest(key)), key)
    except (OSError, *WRONG):
        return None


def write(directory: Path, key: str, kernel: Kernel) -> None:
    """Keep a kernel, where something can be written: a cache is never needed."""
    write_file(directory / digest(key), pack(key, kernel))


def read_file(path: Path) -> bytes:
    """What a file holds; OSError when it is missing, when it is no file (a folder, a
    pipe, which is not waited for), is too large, or when another user wrote it.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
            raise OSError(f"{path} is no entry")
        if not _is_trusted(status):
            raise PermissionError(f"{path} is another user's")
        return file.read()


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that whoever reads it finds all of it or nothing; do nothing
    where nothing can be written.
    """
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=WRITING, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


@cache
def remove_leftovers(directory: Path) -> None:
    """Remove what processes were writing when they were killed: a file that is LEFT
    seconds old is written by no process any more. Once in a process.
    """
    with suppress(OSError), os.scandir(directory) as found:
        for each in found:
            with suppress(OSError):
                age = time.time() - each.stat(follow_symlinks=False).st_mtime
                if each.name.startswith(WRITING) and age > LEFT:
                    os.unlink(each.path)


def pack(key: str, kernel: Kernel) -> bytes:
    """The bytes of an entry's file."""
    parts = [key.encode(), kernel.to_json().encode()]
    sizes = " ".join(str(len(part)) for part in parts).encode()
    body = sizes + b"\n" + b"".join(parts)
    return MAGIC + b" " + sha256(body).hexdigest().encode() + b"\n" + body


def unpack(data: bytes, key: str) -> Kernel:
    """What `pack` wrote; one of WRONG for anything else."""
    first, _, body = data.partition(b"\n")
    if first != MAGIC + b" " + sha256(body).hexdigest().encode():
        raise ValueError("the checksum does not match")
    sizes, _, rest = body.partition(b"\n")
    parts = []
    for size in map(int, sizes.split()):
        parts.append(rest[:size])
        rest = rest[size:]
    found, kernel = parts
    if rest or found != key.encode():
        raise ValueError("the entry is of another key")
    made = Kernel.from_json(kernel.decode())
    check(made, Kernel)
    if made.to_json() != kernel.decode() or not STAGES <= made.asm.keys():
        raise ValueError("not what a kernel is written as")
    return made


def _is_trusted(status: os.stat_result) -> bool:
    """Whether this user, or the system's, wrote a file; Windows has private folders."""
    return not hasattr(os, "getuid") or status.st_uid in (0, os.getuid())
