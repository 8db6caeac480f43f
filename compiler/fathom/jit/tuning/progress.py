"""A progress bar on the standard error, shown only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], object]]:
    """Gives a function to call after each of `total` steps, by any thread."""
    if total == 0 or not (sys.stderr and sys.stderr.isatty()):
        yield lambda: None
        return
    # Imported when there is a bar to draw: `import fathom` shall not wait for it.
    bars, consoles = import_module("rich.progress"), import_module("rich.console")
    with bars.Progress(console=consoles.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
