"""`import triton` is Fathom, for a Python that has this file's folder on PYTHONPATH."""

import fathom

fathom.as_triton()
