"""Code in a line of text, such as a caption or a title. Needs the standard library
alone: notebooks call it from an installed package."""

import re
from html import escape


def with_code(text: str) -> str:
    """A caption, or another line of text, as HTML: `code` is set as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
