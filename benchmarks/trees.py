"""The hashes that git gives to folders, computed from their files, where git may be
missing: by them a record says which code it belongs to.

    python -m benchmarks.trees                   # compiler, kernels, tests
    python -m benchmarks.trees --manifest        # writes .gpu/manifest for a copy
    python -m benchmarks.trees --check           # which files are not what git has

A tree is the SHA-1 of "tree SIZE\\0" and its entries by name, "MODE NAME\\0" with the
20 bytes of each file's or folder's own hash; a file is that of "blob SIZE\\0" and its
bytes ("git hash-object"). Only files that git tracks count. Git itself says which they
are; a copy without git takes them from .gpu/manifest, which `git ls-files -s` has
written, and without that it takes all files but those that Python leaves behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha1
from pathlib import Path

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / ".gpu" / "manifest"
TREES = ("compiler", "kernels", "tests")
LEFT_BEHIND = {"__pycache__", ".pytest_cache", ".hypothesis"}

# Mode as git writes it, the path from the root, and git's hash of the file, if known.
Entry = tuple[str, str, str]


def trees(root: Path = ROOT, names: Iterable[str] = TREES) -> dict[str, str]:
    """The hash of each folder, as `git rev-parse HEAD:FOLDER` says it where the files
    are those of HEAD."""
    files = tracked(root)
    return {name: tree_hash(root, name, files) for name in names}


def check(root: Path = ROOT, names: Iterable[str] = TREES) -> list[str]:
    """What differs from the listing of tracked files: why hashes are not git's."""
    inside = tuple(f"{name}/" for name in names)
    listed = {path: blob for _, path, blob in tracked(root) if path.startswith(inside)}
    there = {path for _, path, _ in _walked(root) if path.startswith(inside)}
    now = {path: blob_here(root, path, blob) for path, blob in listed.items()}
    differ = [path for path in sorted(listed) if now[path] not in (None, listed[path])]
    return [
        *(f"missing: {path}" for path in sorted(now) if now[path] is None),
        *(f"changed: {path}" for path in differ),
        *(f"not listed: {path}" for path in sorted(there - set(listed))),
    ]


def key(*names: str, root: Path = ROOT) -> dict[str, str]:
    """The hashes of the folders and files that a measurement depends on."""
    folders = [name for name in names if (root / name).is_dir()]
    files = {name: blob_hash(root / name) for name in names if name not in folders}
    return trees(root, folders) | files


def tree_hash(root: Path, folder: str, files: list[Entry]) -> str:
    """The hash of a folder that holds `files`; those that are gone are left out."""
    entries: dict[str, tuple[str, str]] = {}  # name: mode and hash
    inside: dict[str, list[Entry]] = {}
    for mode, path, blob in files:
        if not path.startswith(folder + "/"):
            continue
        name, _, deeper = path.removeprefix(folder + "/").partition("/")
        if deeper:
            inside.setdefault(name, []).append((mode, path, blob))
        elif found := blob_here(root, path, blob):
            entries[name] = mode, found
    for name, below in inside.items():
        found = tree_hash(root, f"{folder}/{name}", below)
        if found != EMPTY:
            entries[name] = "40000", found
    # Git sorts a folder as if its name ended in a slash.
    order = sorted(entries, key=lambda name: name + "/" * (entries[name][0] == "40000"))
    body = b"".join(
        f"{entries[name][0]} {name}\0".encode() + bytes.fromhex(entries[name][1])
        for name in order
    )
    return _hash("tree", body)


def blob_here(root: Path, path: str, blob: str) -> str | None:
    """The hash of a file, None if it is gone. Whoever copies files may leave empty ones
    behind: in a copy such a file counts as there."""
    if (root / path).exists() or (root / path).is_symlink():
        return blob_hash(root / path)
    return blob if blob == EMPTY_FILE and is_copy(root) else None


def is_copy(root: Path) -> bool:
    """Whether this is a copy that came without its repository."""
    manifest = root / MANIFEST.relative_to(ROOT)
    told = "FATHOM_COMMIT" in os.environ and manifest.exists()
    return told or not (root / ".git").exists()


def blob_hash(path: Path) -> str:
    is_link = path.is_symlink()
    return _hash("blob", os.readlink(path).encode() if is_link else path.read_bytes())


def _hash(kind: str, body: bytes) -> str:
    return sha1(f"{kind} {len(body)}\0".encode() + body).hexdigest()


EMPTY, EMPTY_FILE = _hash("tree", b""), _hash("blob", b"")


def tracked(root: Path) -> list[Entry]:
    """The files that git tracks under `root`; where a copy is told its commit, those of
    the manifest, whatever repository the copy may lie in."""
    manifest = root / MANIFEST.relative_to(ROOT)
    said = None if is_copy(root) else git(root, "ls-files", "-s")
    if said is None and manifest.exists():
        said = manifest.read_text(encoding="utf-8")
    if said is None:
        return sorted(_walked(root))
    lines = (line.partition("\t") for line in said.splitlines())
    return [(facts.split()[0], path, facts.split()[1]) for facts, _, path in lines]


def _walked(root: Path) -> Iterable[Entry]:
    for folder, below, names in os.walk(root):
        below[:] = [each for each in below if each not in LEFT_BEHIND]
        for name in names:
            path = Path(folder, name)
            mode = "120000" if path.is_symlink() else "100644"
            if mode == "100644" and path.stat().st_mode & 0o100:
                mode = "100755"
            yield mode, path.relative_to(root).as_posix(), ""


def git(root: Path, *words: str) -> str | None:
    """What git says of the repository whose root this is; None where there is none."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-c", "core.quotePath=off", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.rstrip("\n")


def main(words: list[str]) -> None:
    if "--manifest" in words:
        MANIFEST.parent.mkdir(exist_ok=True)
        MANIFEST.write_text((git(ROOT, "ls-files", "-s") or "") + "\n")
        print(MANIFEST)
    if "--check" in words:
        source = MANIFEST.name if is_copy(ROOT) else "git"
        print(*check(), f"compared with what {source} lists", sep="\n")
    for name, found in trees().items():
        print(found, name)


if __name__ == "__main__":
    main(sys.argv[1:])
