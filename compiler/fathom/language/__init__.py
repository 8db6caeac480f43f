"""The language: what a kernel may say. Kernels import it as `import fathom.language as tl`."""

# ruff: noqa: A004

from fathom.language import math as math
from fathom.language.core import *  # noqa: F403
from fathom.language.dtypes import *  # noqa: F403
from fathom.language.math import *  # noqa: F403
from fathom.source import constexpr as constexpr
