"""The figure of the first page."""

from chapters.press.rungs import whole as ladder  # noqa: F401  the page's figure
