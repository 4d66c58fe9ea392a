"""Arrays of a folder that are verified when they are first asked for: nobody computes with bytes that were not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

C = TypeVar("C")


@dataclass(frozen=True)
class Unread:
    """Stands where an array will be: shape and type are known, the content was not looked at. `read` gives it."""

    shape: tuple[int, ...]
    dtype: Any
    read: Callable[[], Any]

    def __len__(self) -> int:
        return self.shape[0]


class _Field:
    """An attribute that becomes the array when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            raise AttributeError(self._name)
        value = instance.__dict__[self._name]
        if isinstance(value, Unread):
            value = instance.__dict__[self._name] = value.read()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = value


def reads_when_asked(*names: str) -> Callable[[type[C]], type[C]]:
    """Fields of a dataclass that may be given as `Unread`."""

    def change(cls: type[C]) -> type[C]:
        for name in names:
            setattr(cls, name, _Field(name))
        return cls

    return change


def held(instance: Any, name: str) -> Any:
    """What stands in such a field, an `Unread` where nobody has asked for it yet."""
    return instance.__dict__[name]


def shape_of(instance: Any, name: str) -> tuple[int, ...]:
    """The shape of such a field; its content stays unread."""
    return tuple(instance.__dict__[name].shape)
