"""Anybody's rotary function on trial: what it does, what is wrong with it, and the numbers that show it."""

from .check_rope import check_rope
from .report import RopeReport

__all__ = ["RopeReport", "check_rope"]
