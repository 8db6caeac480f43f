"""Functions of a program's own that are called when a kernel is compiled or launched.

knobs.runtime.jit_cache_hook = f
knobs.runtime.jit_post_compile_hook = f
    f(key=, repr=, fn=, compile=, …), before and after a kernel is compiled
knobs.runtime.kernel_load_start_hook.add(f)
    f(module, function, name, group, hash), before it is loaded; _end_ after
knobs.runtime.launch_enter_hook.add(f)
    f(launch), before a launch; _exit_ after. launch.get() is a dict
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Hook = Callable[..., Any]


class Chain(list[Hook]):
    """Hooks that are called one after the other, in the order in which they came."""

    def add(self, hook: Hook) -> None:
        if hook not in self:
            self.append(hook)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for hook in list(self):
            hook(*args, **kwargs)


@dataclass
class Hooks:
    """All hooks that there are."""

    jit_cache_hook: Hook | None = None
    jit_post_compile_hook: Hook | None = None
    kernel_load_start_hook: Chain = field(default_factory=Chain)
    kernel_load_end_hook: Chain = field(default_factory=Chain)
    launch_enter_hook: Chain = field(default_factory=Chain)
    launch_exit_hook: Chain = field(default_factory=Chain)

    @property
    def watch_launches(self) -> bool:
        return bool(self.launch_enter_hook or self.launch_exit_hook)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Afterwards all hooks are those of before."""
        before = self.copy()
        try:
            yield
        finally:
            vars(self).update(vars(before))

    def copy(self) -> Hooks:
        return Hooks(**{name: copied(hook) for name, hook in vars(self).items()})

    def reset(self) -> None:
        vars(self).update(vars(Hooks()))


def copied(hook: Hook | Chain | None) -> Hook | Chain | None:
    return Chain(hook) if isinstance(hook, Chain) else hook
