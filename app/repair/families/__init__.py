"""Mutation families, one small class per module; a family is registered by lying here."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from ..family import Family


@cache
def all_families() -> tuple[Family, ...]:
    """One instance of every family, ordered by name."""
    found: dict[str, Family] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, each in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(each, Family)
                and not inspect.isabstract(each)
                and each.__module__ == module.__name__
            ):
                if each.name in found:
                    raise TypeError(f"two families are named {each.name}")
                found[each.name] = each()
    return tuple(found[name] for name in sorted(found))
