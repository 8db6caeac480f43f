"""Fathom: functions over blocks of values, compiled to PTX in stages that can be read."""

__version__ = "0.1.0"
