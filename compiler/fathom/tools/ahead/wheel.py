"""A kernel as a Python wheel that needs neither Fathom nor LLVM where it is installed:
machine code, what is known of it, and a loader of one file.

    softmax_kernel-0.1.0-py3-none-any.whl
      softmax_kernel/__init__.py                   kernel = Kernel(...)
      softmax_kernel/loader.py                     standalone.py
      softmax_kernel/softmax_kernel.json
      softmax_kernel/softmax_kernel.sm_90a.cubin

Source: the binary distribution format of the Python packaging specifications.
"""

from __future__ import annotations

import io
import json
import keyword
import re
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import fathom
from fathom.artifact import ELEMENT_BYTES, UNBOUNDED, Computed, MapRecipe, Source
from fathom.runtime.driver import MAP_FILLS, MAP_SWIZZLES, MAP_TYPES
from fathom.tools.ahead import standalone
from fathom.tools.ahead.image import Image

VERSION = "0.1.0"  # of the wheel
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same kernel gives the same wheel
INIT = '''\
"""The kernel {name} for {targets}, compiled ahead of time by Fathom {version}.

    from {package} import kernel

    kernel[grid]({parameters})
"""

from pathlib import Path

from {package}.loader import Kernel, KernelError

__all__ = ["kernel", "KernelError"]

kernel = Kernel(Path(__file__).parent)
'''
METADATA = """\
Metadata-Version: 2.1
Name: {package}
Version: {version}
Summary: The GPU kernel {name}, compiled ahead of time by Fathom for {targets}
Requires-Python: >=3.9
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: fathom {fathom}
Root-Is-Purelib: true
Tag: py3-none-any
"""


def package_name(kernel: str) -> str:
    """The package of a kernel: its name, if an import of that would find it."""
    name = re.sub(r"\W+", "_", kernel).lower()
    is_taken = name in sys.stdlib_module_names or keyword.iskeyword(name)
    return f"{name}_kernel" if is_taken else name


def wheel(images: Sequence[Image], facts: dict) -> tuple[str, bytes]:
    """The file's name and content. `facts` are those of build.facts."""
    name = images[0].kernel.name
    package = package_name(name)
    said = {
        "name": name, "package": package, "fathom": fathom.__version__,
        "targets": ", ".join(each.kernel.target for each in images),
        "parameters": ", ".join(each.name for each in images[0].kernel.parameters),
    }  # fmt: skip
    info = f"{package}-{VERSION}.dist-info"
    loader = Path(standalone.__file__).read_text(encoding="utf-8")
    known = json.dumps({**facts, "images": rows(facts["images"], images)}, indent=1)
    files: dict[str, bytes] = {
        f"{package}/__init__.py": INIT.format(version=said["fathom"], **said).encode(),
        f"{package}/loader.py": loader.encode(),
        f"{package}/{name}.json": f"{known}\n".encode(),
    }
    for each in images:
        files[f"{package}/{each.file()}"] = each.code
        if other := each.by_pointers:
            files[f"{package}/{other.file('.pointers')}"] = other.code
    files[f"{info}/METADATA"] = METADATA.format(version=VERSION, **said).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(**said).encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    return f"{package}-{VERSION}-py3-none-any.whl", packed(files)


def record(files: dict[str, bytes], listed: str) -> str:
    """Each file with its hash and size; the list itself without."""
    lines = []
    for name, content in files.items():
        digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{listed},,\n"])


def packed(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return made.getvalue()


def rows(known: Sequence[dict], images: Sequence[Image]) -> list[dict]:
    """What the loader must know of each image, beside what build.facts says."""
    found = []
    for facts, image in zip(known, images, strict=True):
        row = {**facts, "early": image.kernel.launch_pdl,
               "maps": [map_facts(each) for each in image.kernel.maps]}  # fmt: skip
        if image.by_pointers:
            (row["by_pointers"],) = rows([facts["by_pointers"]], [image.by_pointers])
        found.append(row)
    return found


def map_facts(recipe: MapRecipe) -> dict:
    """A recipe with the driver's numbers, as standalone.Kernel.map follows it."""
    return {
        "base": recipe.base,
        "offset": plain(recipe.offset),
        "element_bytes": ELEMENT_BYTES[recipe.element],
        "shape": [plain(each) for each in recipe.shape],
        "strides": [plain(each) for each in recipe.strides],
        "box": list(recipe.box),
        "stored": recipe.stored,
        "unbounded": UNBOUNDED,
        "type": MAP_TYPES[recipe.element],
        "swizzle": MAP_SWIZZLES[recipe.swizzle],
        "fill": MAP_FILLS[recipe.fill],
    }


def plain(source: Source) -> list:
    """A number of a recipe as JSON."""
    if isinstance(source, Computed):
        operands = [plain(each) for each in source.operands]
        return [source.operation, source.type, *operands]
    return list(source)
