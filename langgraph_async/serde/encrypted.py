"""A serializer around another one, whose bytes only those who have the key can read, or make.

Every row is bound to its place. It can be opened only as what it was stored as: on that thread, in that namespace, for
that channel, and a write also for that checkpoint, task and position. What is bound goes into the cipher as associated
data: `_ROW`, the type tag and `RowPlace.fixed`, each as UTF-8 with its length in front, ``3:abc``.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from typing import Any, Final, Self

from langgraph_async.errors import ConfigError, EncryptionError
from langgraph_async.serde.aes import AesCipher, keys_from
from langgraph_async.serde.base import (
    CipherProtocol,
    RowPlace,
    SerializerProtocol,
    encryption_error,
    plaintext_refused,
)
from langgraph_async.serde.msgpack import JsonPlusSerializer

_ROW: Final = "langgraph_async row 1"
_EAX_MODE: Final = 9
"""The number that pycryptodome has for it."""


class EncryptedSerializer:
    """Encrypts what another serializer writes.

    Give it to a saver as its `serde`. Values, pending writes, interrupts and errors are then encrypted, each bound to
    its row; a row that was changed, moved to another place or put there in the clear raises `EncryptionError`.

    What stays readable is needed to find things: thread ids, namespaces (which name nodes), checkpoint and task ids,
    channel names and versions, whether a write is None, and all metadata, that is also what you put into a run's
    ``metadata`` and ``configurable``. Somebody who can write to the database can still delete rows, or put back an
    older form of a row; with PostgreSQL also change which version of a value a checkpoint names.

    Args:
        cipher: Encrypts and decrypts bytes, with associated data: `AesCipher`, or one of yours.
        serde: Serializes values; by default a `JsonPlusSerializer`.
        allow_plaintext: Read rows that are not encrypted, too: for threads that were there before. What is stored is
            encrypted all the same. As long as this is on, whoever can write to the database can put values there.
        allow_unbound: Read rows that are encrypted but not bound to their place, too: those of LangGraph.

    Raises:
        ConfigError: The cipher takes no associated data, so that it could not bind rows to their place.

    Example:
        >>> serde = EncryptedSerializer.from_keys(b"0123456789abcdef0123456789abcdef")
        >>> tag, stored = serde.dumps_typed({"card": "4111"})
        >>> tag, b"4111" in stored, serde.loads_typed((tag, stored))
        ('msgpack+aesgcm', False, {'card': '4111'})
    """

    def __init__(
        self,
        cipher: CipherProtocol,
        serde: SerializerProtocol | None = None,
        *,
        allow_plaintext: bool = False,
        allow_unbound: bool = False,
    ) -> None:
        for method in (cipher.encrypt, cipher.decrypt):
            _check_binds(method, cipher)
        self.cipher = cipher
        self.serde: SerializerProtocol = JsonPlusSerializer() if serde is None else serde
        self.allow_plaintext = allow_plaintext
        self.allow_unbound = allow_unbound
        self._unbound_names: frozenset[str] = frozenset(getattr(cipher, "unbound", ()))

    @classmethod
    def from_keys(
        cls,
        *keys: bytes | str,
        serde: SerializerProtocol | None = None,
        allow_plaintext: bool = False,
        allow_unbound: bool = False,
    ) -> Self:
        """Return a serializer with AES-GCM.

        To change the key, put the new one in front: it encrypts, all of them decrypt. Each row says which one it needs.

        Raises:
            ConfigError: There is no key, one does not have 16, 24 or 32 bytes, or two are the same.
            ImportError: The package `cryptography` is not installed.
        """
        return cls(AesCipher(*keys), serde, allow_plaintext=allow_plaintext, allow_unbound=allow_unbound)

    @classmethod
    def from_pycryptodome_aes(
        cls,
        serde: SerializerProtocol | None = None,
        *,
        key: bytes | str | None = None,
        old_keys: Iterable[bytes | str] = (),
        mode: int | None = None,
        allow_plaintext: bool = False,
        allow_unbound: bool = True,
    ) -> Self:
        """Return a serializer that reads what LangGraph's of this name has written; it writes like `from_keys`.

        It does not need pycryptodome. LangGraph does not bind rows to their place: once its rows are gone, turn
        `allow_unbound` off.

        Args:
            serde: Serializes values.
            key: The key; by default the environment variable ``LANGGRAPH_AES_KEY``.
            old_keys: Keys that only decrypt.
            mode: That of the rows to be read: EAX, which is LangGraph's default.
            allow_plaintext: Read rows that are not encrypted, too.
            allow_unbound: Read the rows of LangGraph.

        Raises:
            ConfigError: There is no key, one does not have 16, 24 or 32 bytes, or the mode is another one.
            ImportError: The package `cryptography` is not installed.
        """
        if mode not in (None, _EAX_MODE):
            raise ConfigError(f"Rows in the AES mode {mode!r} cannot be read, only those in EAX, LangGraph's default.")
        return cls.from_keys(
            *keys_from(key, old_keys), serde=serde, allow_plaintext=allow_plaintext, allow_unbound=allow_unbound
        )

    def with_allowlist(self, types: Iterable[Any]) -> Self:
        """Return this serializer with more types that the inner one stores and reads; itself if nothing changes."""
        extend = getattr(self.serde, "with_allowlist", None)
        inner = self.serde if extend is None else extend(types)
        if inner is self.serde:
            return self
        other = copy.copy(self)
        other.serde = inner
        return other

    def dumps_at(self, obj: Any, place: RowPlace) -> tuple[str, bytes]:
        """Return the tag and the encrypted bytes of `obj`, for one row.

        Raises:
            SerializationError: Some of it would not come back as it is.
        """
        return self._seal(self.serde.dumps_typed(obj), place)

    def loads_at(self, data: tuple[str, bytes], place: RowPlace) -> Any:
        """Return the value that was stored in a row.

        Raises:
            EncryptionError: The row was not stored there with one of the keys.
            SerializationError: The bytes name a type that is not allowed.
        """
        return self.serde.loads_typed(self._open(data, place))

    def moved(self, data: tuple[str, bytes], source: RowPlace, target: RowPlace) -> tuple[str, bytes]:
        """Return, for another row, what was stored in one, encrypted with the present key.

        Raises:
            EncryptionError: The row was not stored there with one of the keys.
        """
        return self._seal(self._open(data, source), target)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the encrypted bytes of `obj`, for no certain place.

        Raises:
            SerializationError: Some of it would not come back as it is.
        """
        return self._seal(self.serde.dumps_typed(obj), None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return what was stored for no certain place.

        Raises:
            EncryptionError: It was not stored like this, or with none of the keys.
            SerializationError: The bytes name a type that is not allowed.
        """
        return self.serde.loads_typed(self._open(data, None))

    def _seal(self, data: tuple[str, bytes], place: RowPlace | None) -> tuple[str, bytes]:
        tag, plaintext = data
        name, sealed = self.cipher.encrypt(plaintext, _bound(tag, place))
        if not name or "+" in name:
            raise ConfigError(f"{type(self.cipher).__name__} calls itself {name!r}; a cipher's name has no '+'.")
        return f"{tag}+{name}", sealed

    def _open(self, data: tuple[str, bytes], place: RowPlace | None) -> tuple[str, bytes]:
        tag, plus, name = data[0].rpartition("+")
        if not plus:
            if not self.allow_plaintext:
                raise plaintext_refused(place)
            return data
        if name in self._unbound_names and not self.allow_unbound:
            raise encryption_error(
                place,
                "unbound",
                "it is encrypted, but not bound to its place, as LangGraph does it. To read such rows: "
                "EncryptedSerializer.from_pycryptodome_aes(...), or allow_unbound=True",
            )
        try:
            return tag, self._opened(tag, name, data[1], place)
        except EncryptionError as fault:
            raise encryption_error(place, fault.reason, str(fault)) from fault.__cause__
        except Exception as fault:
            raise encryption_error(place, "changed", f"decrypting raised {type(fault).__name__}: {fault}") from fault

    def _opened(self, tag: str, name: str, sealed: bytes, place: RowPlace | None) -> bytes:
        try:
            return self.cipher.decrypt(name, sealed, _bound(tag, place))
        except EncryptionError as fault:
            if place is None or not self.allow_unbound or fault.reason != "changed":
                raise
            try:
                return self.cipher.decrypt(name, sealed, _bound(tag, None))
            except EncryptionError:
                raise fault from None


def _bound(tag: str, place: RowPlace | None) -> bytes:
    parts = (_ROW, tag, *(place.fixed if place is not None else ()))
    texts = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join([b"%d:%b" % (len(text), text) for text in texts])


def _check_binds(method: Any, cipher: Any) -> None:
    arguments = (b"", b"") if method.__name__ == "encrypt" else ("", b"", b"")
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        raise ConfigError(
            f"{type(cipher).__name__}.{method.__name__}() takes no associated data, so that rows could be moved "
            'without being noticed. Give it a last parameter associated_data: bytes = b"", and authenticate that, too.'
        ) from None
    except ValueError:  # a method in C tells nothing of its parameters
        return


__all__ = ["AesCipher", "CipherProtocol", "EncryptedSerializer"]
