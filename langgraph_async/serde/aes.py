"""AES: what is written with it, and what LangGraph wrote with it.

Written is AES-GCM under the name ``aesgcm``: one byte 1, the key's id (4 bytes), the nonce (12 bytes, random), the
encrypted bytes with their authentication tag (16 bytes) at the end. Read is also LangGraph's ``aes``, which is AES-EAX:
nonce (16 bytes), tag (16 bytes), the encrypted bytes.

Source: NIST SP 800-38D (GCM); Bellare, Rogaway, Wagner, "The EAX Mode of Operation", 2004.
"""

from __future__ import annotations

import hmac
import importlib
import os
from collections.abc import Iterable
from typing import Any, Final

from langgraph_async.errors import ConfigError, EncryptionError

GCM_NAME: Final = "aesgcm"
EAX_NAME: Final = "aes"
KEY_SIZES: Final = (16, 24, 32)

_FORM: Final = b"\x01"
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_HEAD_BYTES: Final = len(_FORM) + _ID_BYTES
_EAX_NONCE_BYTES: Final = 16
_CUT_OFF: Final = "it is cut off, or was not written by this serializer"
_CHANGED: Final = (
    "the key does not open it: its bytes or its type were changed, it was moved here from another place, or it was "
    "written with another key"
)


class AesCipher:
    """AES-GCM with a random nonce for each value.

    One key is good for about four thousand million values; give a new one long before.

    Args:
        keys: Keys of 16, 24 or 32 bytes, or texts whose UTF-8 has that length. The first one encrypts, the others
            only decrypt. They should be random bytes: ``secrets.token_bytes(32)``.

    Raises:
        ConfigError: There is no key, one has another length, or two are the same.
        ImportError: The package `cryptography` is not installed.
    """

    unbound: Final = frozenset({EAX_NAME})

    def __init__(self, *keys: bytes | str) -> None:
        if not keys:
            raise ConfigError("Encryption needs a key of 16, 24 or 32 bytes, but none was given.")
        self._keys = {key_id(key): key for key in map(_checked, keys)}
        if len(self._keys) < len(keys):
            raise ConfigError(f"{len(keys)} keys were given, but only {len(self._keys)} different ones.")
        aes_gcm = _library("ciphers.aead").AESGCM
        self._ciphers: dict[bytes, Any] = {id: aes_gcm(key) for id, key in self._keys.items()}
        id = next(iter(self._keys))
        self._head = _FORM + id
        self._writer = self._ciphers[id]

    def encrypt(self, plaintext: bytes, associated_data: bytes = b"") -> tuple[str, bytes]:
        """Return the cipher's name and the encrypted bytes."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._writer.encrypt(nonce, plaintext, self._head + associated_data)
        return GCM_NAME, self._head + nonce + sealed

    def decrypt(self, ciphername: str, ciphertext: bytes, associated_data: bytes = b"") -> bytes:
        """Return the bytes that were encrypted; what LangGraph encrypted has no associated data.

        Raises:
            EncryptionError: They were not encrypted like this, or with another key.
        """
        if ciphername == EAX_NAME:
            return self._open_eax(bytes(ciphertext))
        if ciphername != GCM_NAME:
            raise EncryptionError(f"it was encrypted with {ciphername!r}, not with AES", reason="malformed")
        return self._open(bytes(ciphertext), associated_data)

    def _open(self, data: bytes, associated_data: bytes) -> bytes:
        if len(data) < _HEAD_BYTES + _NONCE_BYTES + _TAG_BYTES or not data.startswith(_FORM):
            raise EncryptionError(_CUT_OFF, reason="malformed")
        head, nonce, sealed = data[:_HEAD_BYTES], data[_HEAD_BYTES:][:_NONCE_BYTES], data[_HEAD_BYTES + _NONCE_BYTES :]
        cipher = self._ciphers.get(head[len(_FORM) :])
        if cipher is None:
            known = ", ".join(id.hex() for id in self._keys)
            raise EncryptionError(
                f"it was encrypted with the key {head[len(_FORM) :].hex()}, which was not given (given: {known}). "
                "Give old keys, too, after the present one",
                reason="unknown_key",
            )
        try:
            opened: bytes = cipher.decrypt(nonce, sealed, head + associated_data)
        except _library("exceptions").InvalidTag:
            raise EncryptionError(_CHANGED, reason="changed") from None
        return opened

    def _open_eax(self, data: bytes) -> bytes:
        if len(data) < _EAX_NONCE_BYTES + _TAG_BYTES:
            raise EncryptionError(_CUT_OFF, reason="malformed")
        nonce, tag, sealed = data[:_EAX_NONCE_BYTES], data[_EAX_NONCE_BYTES:][:_TAG_BYTES], data[32:]
        for key in self._keys.values():
            opened = open_eax(key, nonce, tag, sealed)
            if opened is not None:
                return opened
        raise EncryptionError(_CHANGED, reason="changed")


def key_id(key: bytes) -> bytes:
    """Return what a row says of the key that it was encrypted with; it does not tell the key."""
    return hmac.digest(key, b"langgraph_async key id", "sha256")[:_ID_BYTES]


def keys_from(key: bytes | str | None, old_keys: Iterable[bytes | str]) -> tuple[bytes | str, ...]:
    """Return the keys, the present one from the environment variable ``LANGGRAPH_AES_KEY`` if it is not given.

    Raises:
        ConfigError: There is none.
    """
    present = key if key is not None else os.environ.get("LANGGRAPH_AES_KEY")
    if not present:
        raise ConfigError(
            "Encryption needs a key: pass key=..., or set the environment variable LANGGRAPH_AES_KEY to a text of 16, "
            "24 or 32 bytes."
        )
    return (present, *old_keys)


def open_eax(key: bytes, nonce: bytes, tag: bytes, sealed: bytes) -> bytes | None:
    """Return the bytes that AES-EAX encrypted without associated data, or None if the tag does not fit them."""
    start = _omac(key, 0, nonce)
    expected = bytes(a ^ b ^ c for a, b, c in zip(start, _omac(key, 1, b""), _omac(key, 2, sealed), strict=True))
    if not hmac.compare_digest(expected, tag):
        return None
    ciphers = _library("ciphers")
    aes = _library("ciphers.algorithms").AES(key)
    decryptor = ciphers.Cipher(aes, _library("ciphers.modes").CTR(start)).decryptor()
    opened: bytes = decryptor.update(sealed) + decryptor.finalize()
    return opened


def _omac(key: bytes, number: int, data: bytes) -> bytes:
    mac = _library("cmac").CMAC(_library("ciphers.algorithms").AES(key))
    mac.update(number.to_bytes(16, "big") + data)
    found: bytes = mac.finalize()
    return found


def _checked(key: bytes | str) -> bytes:
    raw = key.encode() if isinstance(key, str) else bytes(key)
    if len(raw) not in KEY_SIZES:
        raise ConfigError(f"An AES key has 16, 24 or 32 bytes; the one given has {len(raw)}.")
    return raw


def _library(name: str) -> Any:
    """Return a module of the optional package `cryptography`."""
    path = f"cryptography.{name}" if name == "exceptions" else f"cryptography.hazmat.primitives.{name}"
    try:
        return importlib.import_module(path)
    except ImportError as error:
        raise ImportError(
            "Encryption needs the package cryptography, which is not installed. "
            "Install it with: pip install 'langgraph-async[encryption]'"
        ) from error


__all__ = ["EAX_NAME", "GCM_NAME", "AesCipher", "key_id", "keys_from", "open_eax"]
