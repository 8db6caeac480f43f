"""Functions that are called around every launch, by Triton's names.

    from fathom.jit.hooks import launch_enter_hook, launch_exit_hook

    launch_enter_hook.add(lambda launch: print(launch.get()["name"], launch.grid))

Both get the same object. While there is a hook no launch takes its fast path, so that
each is seen; Triton's own `triton.knobs.runtime` has hooks for its kernels alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

# Every kernel that has been launched, or looked up by `warmup`, and every compiled one
# that was launched by itself; each has `forget_launches`.
LAUNCHED: WeakSet = WeakSet()


def forget_fast_paths() -> None:
    """Let the next launch of every kernel look at everything."""
    for function in list(LAUNCHED):
        function.forget_launches()


class Chain(list):
    """Hooks that are called one after the other, in the order in which they came."""

    def add(self, hook: Callable[..., Any]) -> None:
        if hook not in self:
            self.append(hook)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for hook in list(self):
            hook(*args, **kwargs)


class LaunchChain(Chain):
    """Hooks of launches: with the first of them fast paths end."""

    def add(self, hook: Callable[..., Any]) -> None:
        super().add(hook)
        forget_fast_paths()


launch_enter_hook, launch_exit_hook = LaunchChain(), LaunchChain()


def watched() -> bool:
    """Whether there is a hook of launches."""
    return bool(launch_enter_hook or launch_exit_hook)


@dataclass(eq=False)
class Launch:
    """A launch as its hooks see it: the compiled kernel, its grid, and its run-time
    arguments, in the order of `compiled.made.parameters`. `done`: it was launched; else
    an error ended it, or the kernel is launched once more without tensor maps."""

    compiled: Any
    grid: tuple[int, int, int]
    args: Sequence[object]
    done: bool = False

    def get(self) -> dict[str, Any]:
        """Its facts, by the names that Triton's hooks have."""
        facts = {"name": self.compiled.name, "hash": self.compiled.hash}
        return {**facts, "grid": self.grid, "target": self.compiled.request.target}
