"""The serializer port: values to typed bytes and back."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from langgraph_async.errors import EncryptionError, ErrorCode, create_error_message


@runtime_checkable
class SerializerProtocol(Protocol):
    """Turns values into a pair of type tag and bytes, and back."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of `obj`.

        Raises:
            SerializationError: `obj` cannot be stored without losing something.
        """
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that was stored.

        Raises:
            SerializationError: The bytes are malformed, or hold a type that is not allowed.
        """


class RowPlace(NamedTuple):
    """Which row of a saver some bytes are for.

    Attributes:
        kind: ``"checkpoint"`` (all of a checkpoint that is stored in one piece), ``"metadata"``, ``"value"`` (of a
            channel, which all checkpoints with that version share) or ``"write"`` (of a task to a channel).
        thread_id: The thread.
        checkpoint_ns: The namespace.
        channel: The channel; for checkpoints and metadata, the kind again.
        checkpoint_id: The checkpoint; of a value, the one for which it is being read or written.
        slot: What else tells the row from others: of a value its version, of a write task id and position.
    """

    kind: str
    thread_id: str
    checkpoint_ns: str
    channel: str
    checkpoint_id: str
    slot: tuple[str, ...] = ()

    @property
    def fixed(self) -> tuple[str, ...]:
        """What stays the same for as long as the row is where it is."""
        shared = self.kind == "value"
        where = (self.kind, self.thread_id, self.checkpoint_ns, self.channel)
        return (*where, *self.slot) if shared else (*where, self.checkpoint_id, *self.slot)

    def __str__(self) -> str:
        namespace = f", namespace {self.checkpoint_ns!r}" if self.checkpoint_ns else ""
        where = f"on thread {self.thread_id!r}{namespace}, checkpoint {self.checkpoint_id}"
        if self.kind == "write":
            return f"what task {self.slot[0]} wrote to {self.channel!r} (position {self.slot[1]}) {where}"
        if self.kind == "value":
            return f"the value of {self.channel!r} (version {self.slot[0]}) {where}"
        return f"the {self.kind} {where}"

    def as_dict(self) -> dict[str, str]:
        """Return the parts by their names."""
        names = {"value": ("version",), "write": ("task_id", "position")}.get(self.kind, ())
        return {**dict(zip(self._fields, self[:5], strict=False)), **dict(zip(names, self.slot, strict=True))}


class PlacedSerializer(SerializerProtocol, Protocol):
    """A serializer whose bytes are good for one row only.

    Savers use these methods where a serializer has them, and then keep no channel value outside of it. Which rows are
    stored, and the metadata, which must be searched, stay readable.
    """

    @property
    def allow_plaintext(self) -> bool:
        """Whether values are let in that were not written by such a serializer."""
        ...

    def dumps_at(self, obj: Any, place: RowPlace) -> tuple[str, bytes]:
        """Return the tag and the bytes of `obj` for one row.

        Raises:
            SerializationError: `obj` cannot be stored without losing something.
        """
        ...

    def loads_at(self, data: tuple[str, bytes], place: RowPlace) -> Any:
        """Return the value that was stored in a row.

        Raises:
            EncryptionError: The row was not written there by such a serializer.
            SerializationError: The value cannot be made.
        """
        ...

    def moved(self, data: tuple[str, bytes], source: RowPlace, target: RowPlace) -> tuple[str, bytes]:
        """Return, for another row, what was stored in one.

        Raises:
            EncryptionError: The row was not written there by such a serializer.
        """
        ...


class CipherProtocol(Protocol):
    """Encrypts bytes so that a change to them, or to what they were encrypted with, is noticed."""

    def encrypt(self, plaintext: bytes, associated_data: bytes = b"") -> tuple[str, bytes]:
        """Return the cipher's name, without ``+``, and the encrypted bytes.

        Args:
            plaintext: What is encrypted.
            associated_data: What must be the same again to decrypt it.
        """
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes, associated_data: bytes = b"") -> bytes:
        """Return the bytes that were encrypted.

        Raises:
            EncryptionError: They were not encrypted like this.
        """
        ...


def plaintext_refused(place: RowPlace | None) -> EncryptionError:
    """Return the error for a value that lies in the clear where it must not."""
    return encryption_error(
        place,
        "plaintext",
        "it is not encrypted. If it was stored before encryption was turned on, let it in with "
        "EncryptedSerializer(..., allow_plaintext=True)",
    )


def encryption_error(place: RowPlace | None, reason: str, why: str) -> EncryptionError:
    """Return the error that says which row cannot be read, and why."""
    return EncryptionError(
        create_error_message(
            message=f"Cannot read {place or 'an encrypted value'}: {why}.", error_code=ErrorCode.ENCRYPTION
        ),
        reason=reason,
        path=(place.channel,) if place else (),
        where=place.as_dict() if place else {},
    )
