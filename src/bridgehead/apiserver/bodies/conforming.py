"""Check of a value against its shape: in C for most values, by `shapes` for the others.

msgspec converts a value to a type that accepts less than the shape does: no nulls, no values that are stored in another
form, no zero values that are left out. If the result equals the value, the value has no unknown fields either, and it
conforms as it is. For every other value, `shapes` finds out what is different, or the text of the error.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import msgspec

from bridgehead.apiserver import shapes
from bridgehead.apiserver.go_json import check_depth
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import (
    AmountShape,
    BoolShape,
    IntOrStringShape,
    IntShape,
    JsonShape,
    ListShape,
    MapShape,
    NumberShape,
    QuantityShape,
    Shape,
    StringShape,
    StructShape,
    TimeShape,
)

from .duplicates import is_encoding

# A kind's type is compiled when so many of its objects have been checked: it has up to some 100 KiB, and a server gets
# objects of most kinds hardly ever.
_USES_BEFORE_COMPILATION = 8

_typed_dict: Any = TypedDict  # of fields that are known only here
_NOTHING = Annotated[str, msgspec.Meta(min_length=1, max_length=0)]
_ANYTHING = dict[Any, Any] | list[Any] | str | int | float | bool
# Some of the times and quantities that are valid and stored as they are: 29 February is not among them.
_DAY = "(02-(0[1-9]|1[0-9]|2[0-8])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))"
_SECONDS = rf"\A[1-9][0-9]{{3}}-{_DAY}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_TIME = Annotated[str, msgspec.Meta(pattern=rf"{_SECONDS}Z\Z")]
_MICRO_TIME = Annotated[str, msgspec.Meta(pattern=rf"{_SECONDS}\.[0-9]{{6}}Z\Z")]
_QUANTITY = r"\A[1-9][0-9]{0,2}(m|Ki|Mi|Gi)?\Z"


class _OnlyTrue(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return instance is True


class _True(metaclass=_OnlyTrue):
    """The type of `true`: a boolean whose zero value is not stored."""


_SCALARS: dict[type[Shape], Any] = {
    Shape: _ANYTHING,
    JsonShape: _ANYTHING,
    BoolShape: bool,
    NumberShape: int,  # whole floats are stored in another form
    IntOrStringShape: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | str,
    QuantityShape: Annotated[str, msgspec.Meta(pattern=_QUANTITY)],
    AmountShape: Annotated[str, msgspec.Meta(pattern=_QUANTITY)],
}


def conform(value: JsonObject, shape: Shape) -> tuple[JsonObject, list[str]]:
    """Return `value` without nulls and unknown fields, and the paths of the unknown ones. Raises `SchemaMismatch`."""
    if isinstance(shape, StructShape):
        if shape.decoder is None:
            shape.uses += 1
            if shape.uses > _USES_BEFORE_COMPILATION:
                shape.decoder = msgspec.json.Decoder(exact_type(shape), dec_hook=decode_true)
        else:
            try:
                kept = msgspec.convert(value, shape.exact, dec_hook=decode_true)
                if kept == value:
                    return kept, []
            except (msgspec.ValidationError, RecursionError):
                pass
    return shapes.conform(value, shape)


def decode_true(type: type, value: Any) -> Any:
    """Return a value that msgspec has found in the place of a type that it does not know. Raises ValueError."""
    if type is _True and value is True:
        return value
    raise ValueError("not true")


def decode_exact(body: bytes, shape: Shape) -> JsonObject | None:
    """Return the object of a JSON body that conforms as it is and has each field once, None for any other body.

    This is known of bodies that equal their own encoding but for white space, as those of most programs do.
    """
    if not isinstance(shape, StructShape) or shape.decoder is None:
        return None
    try:
        check_depth(body)
        value: JsonObject = shape.decoder.decode(body)
        return value if is_encoding(body, value) else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def exact_type(shape: StructShape, within: frozenset[StructShape] = frozenset()) -> Any:
    """Return a type whose values conform to a shape as they are; not all values that do are of this type.

    `within` are the structs around the shape. Structs that contain themselves are left to `shapes`. A type is stored
    when it is complete, since other threads may compile at the same time.
    """
    if shape in within:
        return _NOTHING
    if shape.exact is None:
        inner = within | {shape}
        fields = {key: _exact(one, inner, is_omitted=key in shape.omitted) for key, one in shape.fields.items()}
        shape.exact = _typed_dict(shape.name, fields, total=False)
    return shape.exact


def _exact(shape: Shape, within: frozenset[StructShape], *, is_omitted: bool = False) -> Any:
    """Return a shape's type. `is_omitted`: zero values are not stored."""
    least = msgspec.Meta(min_length=int(is_omitted))
    match shape:
        case StructShape():
            return exact_type(shape, within)
        case ListShape():
            return Annotated[list[_exact(shape.items, within)], least]  # type: ignore[misc]
        case MapShape():
            return Annotated[dict[str, _exact(shape.values, within)], least]  # type: ignore[misc]
        case IntShape():
            lowest, highest = shape.range
            return Annotated[int, msgspec.Meta(ge=1 if is_omitted else lowest, le=highest)]
        case TimeShape():
            return _MICRO_TIME if shape.is_micro else _TIME
        case BoolShape() if is_omitted:
            return _True
    return Annotated[str, least] if type(shape) is StringShape else _SCALARS.get(type(shape), _NOTHING)
