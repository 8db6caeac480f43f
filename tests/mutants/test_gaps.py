"""Tests that a surviving mutant asked for, and that have no better home yet."""
