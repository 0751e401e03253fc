"""Records against their types: every field of a dataclass holds what its annotation says, or is refused.

What comes from a file may be anything; what comes from a caller may be a slip. Both get the same sentence.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from clearning.errors import UsageError

LARGEST_WHOLE = 2**31 - 1  # what arrays of 32 bits can count
LARGEST_NUMBER = 3.4028234663852886e38  # the largest of 32 bits
LONGEST_TEXT = 1000
NAME = re.compile(r"[\w ./+:,-]{1,100}")  # has no character that tables or figures would take for markup

T = TypeVar("T")
WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a line of text",
    NoneType: "none",
}


def record_from(kind: type[T], values: Any, what: str) -> T:
    """A dataclass from a JSON object, whose lists are tuples here; a field it lacks keeps its default."""
    if not isinstance(values, Mapping):
        raise UsageError(f"{what} must be a JSON object, not {_shown(values)}.")
    hints = _hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UsageError(f"{what} has an unknown setting {_shown(unknown[0])}; another version wrote it.")
    missing = sorted(_required(kind) - set(values))
    if missing:
        raise UsageError(f"{what} has no {missing[0]}.")
    return kind(**{name: _fitted(value, hints[name], name) for name, value in values.items()})


def check_fields(record: Any) -> None:
    """Refuse a dataclass one of whose fields is not of its type."""
    for name, hint in _hints(type(record)).items():
        _fitted(getattr(record, name), hint, name)


def check_name(name: str, what: str) -> None:
    """Refuse a name that could not be shown as it is."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{what} is named with up to 100 letters, digits, spaces and ./+:,- only: {name!a}.")


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    """The type of each field; of one whose annotation is for the command line alone, names with anything."""
    hints = get_type_hints(kind)
    return {f.name: dict[str, Any] if f.metadata.get("open") else hints[f.name] for f in fields(kind)}


@lru_cache
def _required(kind: Any) -> set[str]:
    return {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}


def _fitted(value: Any, hint: Any, name: str) -> Any:
    """The value, with lists as tuples and objects as the dataclass they stand for, if it is of the type."""
    if hint is Any:
        return value
    if is_dataclass(hint):
        return value if isinstance(value, hint) else record_from(hint, value, name)  # pyright: ignore[reportArgumentType]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kind = next((h for h in inner if _is_of(value, h)), None)
        if kind is not None:
            return _fitted(value, kind, name)
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_fitted(v, inner[0], f"{name}[{i}]") for i, v in enumerate(value))
    elif origin is dict and isinstance(value, Mapping):
        return {_fitted(k, inner[0], name): _fitted(v, inner[1], f"{name}.{k}") for k, v in value.items()}
    elif _is_of(value, hint):
        return value
    raise UsageError(f"Bad setting: {name} must be {_words(hint)}, not {_shown(value)}.")


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a plain value is of a type, and not out of all proportion."""
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and _within(value, LARGEST_WHOLE)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _within(value, LARGEST_NUMBER)
    if hint is str:  # what is not printable could command the terminal that shows it
        return isinstance(value, str) and value.isprintable() and len(value) <= LONGEST_TEXT
    if is_dataclass(hint):
        return isinstance(value, Mapping | hint)  # pyright: ignore[reportArgumentType]
    return get_origin(hint) is None and isinstance(value, hint)


def _within(value: Any, largest: float) -> bool:
    return abs(value) <= largest  # which NaN is not


def _words(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    if origin in (Union, UnionType):
        return " or ".join(_words(h) for h in inner)
    if origin is tuple:
        return f"a list, each of it {_words(inner[0])}"
    if origin is dict:
        return "names with values"
    return WORDS.get(hint, "a JSON object")


def _shown(value: Any) -> str:
    """A value that may be anything, short and printable."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "a huge number"
    text = ascii(value) if isinstance(value, str | int | float | NoneType) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}…"
