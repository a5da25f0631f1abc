"""Delete blocks of versions 1 and 2, which Hudi wrote before 0.14: arrays of Java objects by Kryo (SerializationUtils).

This is no deserialiser: it knows two classes, the arrays of them and the values by which records are ordered, and
refuses everything else. Names of classes are compared, never looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from struct import Struct
from typing import Any, TypeVar

import pyarrow as pa

from pudi.errors import NotSupportedError

_MODELS = "org.apache.hudi.common.model."
_KEY, _RECORD = f"{_MODELS}HoodieKey", f"{_MODELS}DeleteRecord"
_ARRAYS = {1: f"[L{_KEY};", 2: f"[L{_RECORD};"}
"""The array that a block of a version holds."""

_NULL, _BY_NAME, _IDS_FROM = 0, 1, 2
"""Markers of a class: null, a class by name, or the number of a registered class from this value on."""
_NEW, _SEEN_FROM = 1, 2
"""Markers of an object: a new one, or the number of an earlier object from this value on."""
_UTF8_IDS = frozenset({10, 27, 44})
"""Numbers under which org.apache.avro.util.Utf8 is registered: until Hudi 0.12, in 0.13, and since 1.0."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_SHORT, _FLOAT, _DOUBLE = Struct(">h"), Struct(">f"), Struct(">d")
_MOST_DIGITS = 76
"""Most digits that a decimal column can have."""
_MOST_BYTES = 32
"""Most bytes of its unscaled number: to make a decimal of a million bytes takes minutes."""
_EXACT = Context(prec=80)
"""Keeps all digits of such a number; Python's default context rounds to 28."""


_Moment = TypeVar("_Moment", date, datetime)


class BadKryo(ValueError):
    """Bytes that aren't an array of deletes."""


@dataclass(frozen=True, slots=True)
class JavaDelete:
    """One delete.

    Attributes:
        key: the record key.
        partition: the partition path; None where the block doesn't say.
        order: the ordering value; None without one. A Java int 0 stands for none, see `is_default`.
        is_default: whether it has no ordering value, or Java's default, an int 0.
    """

    key: str
    partition: str | None
    order: Any = None
    is_default: bool = True


def read_java_deletes(payload: memoryview, version: int) -> list[JavaDelete]:
    """Return the deletes of a block's content.

    Args:
        payload: what follows version and length.
        version: 1, an array of keys; or 2, of keys with ordering values.

    Raises:
        BadKryo: it isn't such an array, or is cut off.
        NotSupportedError: an ordering value of a class that is none of those that Hudi orders records by.
    """
    reader = _Reader(bytes(payload))
    if reader.read_class() != _ARRAYS[version] or reader.read_reference() != _NEW:
        raise BadKryo(f"it isn't an array {_ARRAYS[version]}")
    reader.seen.append(None)
    count = reader.read_varint() - 1
    if not 0 <= count <= len(reader.data) - reader.at:
        raise BadKryo(f"{count} deletes are implausible")
    read: Callable[[], JavaDelete] = reader.read_key if version == 1 else reader.read_record
    found = [read() for _ in range(count)]  # each says where the next one begins
    if reader.at != len(reader.data):
        raise BadKryo("unexpected bytes follow the deletes")
    return found


def ordering_values(deletes: Sequence[JavaDelete], kind: pa.DataType) -> pa.Array:
    """Return the ordering values of deletes in the type of the table's ordering field; null where one has none.

    Raises:
        BadKryo: one doesn't fit the type.
    """
    values = [None if each.is_default else each.order for each in deletes]
    try:
        return _typed(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise BadKryo(f"an ordering value is no {kind}: {error}") from error


def _typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    types = pa.types
    if not any(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return pa.array(values, kind)
    # Avro's numbers of dates and times: in the unit of the column
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if types.is_timestamp(kind) or types.is_time64(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


@dataclass(slots=True)
class _Reader:
    """Reads Kryo's bytes; `names` and `seen` are the classes and objects that were met, by number."""

    data: bytes
    at: int = 0
    names: list[str] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def read_record(self) -> JavaDelete:
        """Read a DeleteRecord: its key and its ordering value."""
        found = self._object(_RECORD, self._record_fields)
        assert isinstance(found, JavaDelete)
        return found

    def read_key(self) -> JavaDelete:
        """Read a HoodieKey."""
        found = self._object(_KEY, self._key_fields)
        assert isinstance(found, JavaDelete)
        return found

    def read_class(self) -> str | int | None:
        """Read which class comes: its name, the number of a registered one, or None for a null."""
        kind = self.read_varint()
        if kind == _NULL:
            return None
        if kind != _BY_NAME:
            return kind - _IDS_FROM
        number = self.read_varint()
        if number == len(self.names):
            self.names.append(self._text())
        if number >= len(self.names):
            raise BadKryo(f"there's no class {number}")
        return self.names[number]

    def read_reference(self) -> int:
        """Read whether an object is new, or which one it is."""
        return self.read_varint()

    def read_varint(self) -> int:
        """Read a number of at most 64 bits that isn't negative; the ninth byte has eight bits."""
        value = 0
        for place in range(9):
            byte = self._take(1)[0]
            value |= (byte if place == 8 else byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        return value

    def _object(self, name: str, read: Callable[[], Any]) -> Any:
        """Read an object of one class, or that it's one that came before."""
        found = self.read_class()
        if found != name:
            raise BadKryo(f"there's a {found or 'null'} in the place of a {name}")
        return self._referenced(read, kind=JavaDelete)

    def _referenced(self, read: Callable[[], Any], *, kind: type | tuple[type, ...]) -> Any:
        reference = self.read_reference()
        if reference == _NEW:
            number = len(self.seen)
            self.seen.append(None)
            self.seen[number] = read()
            return self.seen[number]
        if not _SEEN_FROM <= reference < _SEEN_FROM + len(self.seen):
            raise BadKryo(f"there's no object {reference}")
        found = self.seen[reference - _SEEN_FROM]
        if not isinstance(found, kind):
            raise BadKryo("an object stands in the place of one of another class")
        return found

    def _key_fields(self) -> JavaDelete:
        partition, key = self._nullable_text(), self._nullable_text()
        if key is None:
            raise BadKryo("a delete has no record key")
        return JavaDelete(key, partition)

    def _record_fields(self) -> JavaDelete:
        key = self.read_key()
        kind = self.read_class()
        order = None if kind is None else self._order(kind)
        is_default = order is None or (kind == _INT and order == 0)
        return JavaDelete(key.key, key.partition, order, is_default)

    def _order(self, kind: str | int) -> Any:
        """Read an ordering value."""
        if isinstance(kind, int) and kind in _PLAIN:
            return _PLAIN[kind](self)
        read = _Reader._read_utf8 if kind in _UTF8_IDS else _OBJECTS.get(kind)
        if read is None:
            raise NotSupportedError(
                f"a delete block that orders records by {kind if isinstance(kind, str) else f'the Java class {kind}'}: "
                "have Apache Hudi compact the table once"
            )
        return self._referenced(lambda: read(self), kind=_ORDERS)

    def _nullable_text(self) -> str | None:
        reference = self.data[self.at : self.at + 1]
        if reference == b"\0":
            self.at += 1
            return None
        found = self._referenced(self._text, kind=str)
        assert isinstance(found, str)
        return found

    def _read_utf8(self) -> str:
        length = self.read_varint() - 1
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise BadKryo(f"a text is no UTF-8: {error}") from error

    def _text(self) -> str:
        """Read a text: ASCII up to a byte with the highest bit, or a number of UTF-16 units, each in 1 to 3 bytes."""
        first = self._take(1)[0]
        self.at -= 1
        if first < 0x80:
            end = next((at for at in range(self.at, len(self.data)) if self.data[at] >= 0x80), None)
            if end is None:
                raise BadKryo("a text has no end")
            raw = self._take(end - self.at + 1)
            return (raw[:-1] + bytes([raw[-1] & 0x7F])).decode("ascii")
        units = self._text_length() - 1
        if not 0 <= units <= len(self.data) - self.at:
            raise BadKryo(f"a text of {units} characters is cut off")
        return "".join(map(chr, self._units(units))).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _text_length(self) -> int:
        byte = self._take(1)[0]
        value, shift, more = byte & 0x3F, 6, byte & 0x40
        while more and shift < 34:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift, more = shift + 7, byte & 0x80
        return value

    def _units(self, count: int) -> Iterator[int]:
        for _ in range(count):
            first = self._take(1)[0]
            following = 0 if first < 0x80 else 1 if first >> 5 == 0b110 else 2 if first >> 4 == 0b1110 else -1
            if following < 0:
                raise BadKryo("a text has a byte that begins no character")
            unit = first if not following else first & (0x1F if following == 1 else 0x0F)
            for byte in self._take(following):
                unit = unit << 6 | byte & 0x3F
            yield unit

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self.data) - self.at:
            raise BadKryo("it's cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def signed(self) -> int:
        """Read a number whose lowest bit is the sign."""
        value = self.read_varint()
        return (value >> 1) ^ -(value & 1)

    def fixed(self, layout: Struct) -> Any:
        """Read a value of fixed length."""
        return layout.unpack(self._take(layout.size))[0]

    def integer(self) -> int:
        """Read a BigInteger that a decimal column can hold."""
        length = self.read_varint() - 1
        if length > _MOST_BYTES:
            raise BadKryo(f"a number has {length} bytes")
        return int.from_bytes(self._take(length), "big", signed=True)

    def decimal(self) -> Decimal:
        """Read a BigDecimal."""
        unscaled, scale = self.integer(), self.signed()
        if not 0 <= scale <= _MOST_DIGITS:
            raise BadKryo(f"a decimal has scale {scale}")
        return Decimal(unscaled).scaleb(-scale, _EXACT)

    def day(self) -> date:
        """Read a LocalDate."""
        year, (month, day) = self.read_varint(), self._take(2)
        return _moment(lambda: date(year, month, day))

    def millis(self) -> datetime:
        """Read a Timestamp."""
        millis = self.read_varint()
        return _moment(lambda: _EPOCH + timedelta(milliseconds=millis - (1 << 64 if millis >> 63 else 0)))


def _moment(make: Callable[[], _Moment]) -> _Moment:
    try:
        return make()
    except (ValueError, OverflowError) as error:
        raise BadKryo(f"a date is none: {error}") from error


_INT = 0
_PLAIN: dict[int, Callable[[_Reader], Any]] = {
    _INT: _Reader.signed,
    2: lambda reader: reader.fixed(_FLOAT),
    3: lambda reader: reader._take(1) != b"\0",
    6: lambda reader: reader.fixed(_SHORT),
    7: _Reader.signed,
    8: lambda reader: reader.fixed(_DOUBLE),
}
"""Decoders of Kryo's own classes by their numbers. Their values are no references."""
_OBJECTS: dict[str | int, Callable[[_Reader], Any]] = {
    1: _Reader._text,
    "java.math.BigDecimal": _Reader.decimal,
    "java.sql.Timestamp": _Reader.millis,
    "java.time.LocalDate": _Reader.day,
}
_ORDERS = (str, Decimal, date, datetime)
