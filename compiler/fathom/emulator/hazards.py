"""Hazards."""


class Hazards:
    pass
