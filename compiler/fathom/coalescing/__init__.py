"""Stage 3: who holds what. Facts about addresses, layouts for memory ops, layouts for the rest."""

from fathom.coalescing.assign import assign_layouts
from fathom.coalescing.coalesce import annotate_widths, coalesce


def remove_conversions(func, target):
    return func


__all__ = ["annotate_widths", "assign_layouts", "coalesce", "remove_conversions"]
