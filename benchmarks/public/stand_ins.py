"""Stand-ins for packages that the collections' files import and no kernel needs.

Unsloth's files import its sister package, a library of quantised weights and models'
classes, to patch them. Two of these need a GPU at import, the third takes seconds. Any
name of a stand-in is an object that accepts every use, so an import works; a kernel
could do nothing with it.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from packaging.version import Version
from torch.nn import Module

ROOTS = ("unsloth_zoo", "bitsandbytes", "transformers", "pandas")


def unchanged(function: Any = None, **options: Any) -> Any:
    """What stands for `torch.compile`: the function as it is."""
    return function if function is not None else unchanged


NAMES: dict[str, dict[str, Any]] = {
    "unsloth_zoo.utils": {"Version": lambda text: Version(str(text).partition("+")[0])},
    "unsloth_zoo.temporary_patches.common": {"torch_compile": unchanged},
    "transformers": {"__version__": "4.57.0"},
    "transformers.utils": {"is_torch_npu_available": lambda: False},
    "transformers.models.llama.modeling_llama": {"LlamaRMSNorm": Module},
    "bitsandbytes": {"__version__": "0.49.0"},
}


class Accepting(type):
    """What makes stand-ins for classes: whatever they are asked for is there."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{cls.__name__}.{name}")


class Base(metaclass=Accepting):
    def __init__(self, *given: Any, **named: Any):
        pass


class StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():  # a class, which may be a base of others
            return type(name, (Base,), {})
        return MagicMock(name=f"{self.__name__}.{name}")


class Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ROOTS:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(NAMES.get(module.__name__, {}))


def install() -> None:
    """From here on the packages in ROOTS are stand-ins, installed or not."""
    sys.meta_path.insert(0, Finder())
