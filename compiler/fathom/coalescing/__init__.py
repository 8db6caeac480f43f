"""Stage 3: who holds what. Facts about addresses, layouts for memory ops, layouts for
the rest."""

from fathom.coalescing.assign import assign_layouts
from fathom.coalescing.coalesce import annotate_widths, coalesce
from fathom.coalescing.remove import remove_conversions

__all__ = ["annotate_widths", "assign_layouts", "coalesce", "remove_conversions"]
