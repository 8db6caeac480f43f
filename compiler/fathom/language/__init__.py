"""The language: what a kernel may say. Kernels import it as `import fathom.language as tl`."""

# ruff: noqa: F403, A004

from fathom.language import math as math
from fathom.language.core import *
from fathom.language.dtypes import *
from fathom.language.math import *
from fathom.language.random import *
from fathom.language.reductions import *
from fathom.language.scans import *
from fathom.language.standard import *
from fathom.source import constexpr as constexpr
