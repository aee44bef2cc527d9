"""What is encrypted: only with the key, only at its place, and only as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async.errors import ConfigError, EncryptionError, SerializationError
from langgraph_async.serde.base import PlacedSerializer, RowPlace, SerializerProtocol
from langgraph_async.serde.encrypted import AesCipher, EncryptedSerializer
from langgraph_async.serde.jsonplus import Codec, JsonPlusSerializer

pytest.importorskip("cryptography")

OLD, NEW, OTHER = b"o" * 32, b"n" * 16, b"x" * 24
PLACE = RowPlace("write", "thread", "ns", "channel", "checkpoint", ("task", "0"))
VALUE = RowPlace("value", "thread", "ns", "channel", "checkpoint", ("1.5",))

# key, value, tag, bytes: printed by LangGraph's EncryptedSerializer.from_pycryptodome_aes
GOLDEN: list[tuple[str, Any, str, str]] = [
    (
        "0123456789abcdef",
        {"a": 1},
        "msgpack+aes",
        "1db964f9ead53c5649e1cc0bc71f98ed3f1f9f09595e3205f88cfaafe89cbd5c13ecc434",
    ),
    (
        "0123456789abcdef",
        None,
        "null+aes",
        "ffa02edbb4ce4f99fd130fcb585c97e7bcbb13bb57eb19c49cf78747d2c39f73",
    ),
    (
        "0123456789abcdef",
        b"",
        "bytes+aes",
        "821a6c1373c58a1cf8ee9bc95df9d625a5375cdcf78b8c30cab20dcdbffdcb01",
    ),
    (
        "0123456789abcdef",
        "é" * 40,
        "msgpack+aes",
        "f60d360bcf60b8a7cd3669b8cd4643b9ec1d028bb83160632380be58acae25ddb6e004c134475aef0f70b6c639dbcf212d4b"
        "bba5a4d1f599811221a0c8ae18d6f51e09a0f4a985c41d384a6b2d90d9db01cbffb6bde1531e6fee354455fef963f113be58"
        "13fbf50ca7d0354708cede8be227",
    ),
    (
        "0123456789abcdef01234567",
        b"x" * 100,
        "bytes+aes",
        "d1394b91e2386701f0eecd00fe3647ed194021fc6e16aad9aaa35b8e4a259866a3183d854ad55dad6bef2ba80c21f430fc50"
        "e0c683f6f22774949f835f752f25eeb239d1bfb37cbd73de12a78928379876403661e524d41e07c4009cf5d0cd6e3b05fb36"
        "e174309f2a3ca191477144f129930ac5c39da3cf0a373fd163bc230291cd3072",
    ),
    (
        "0123456789abcdef0123456789abcdef",
        {"a": 1},
        "msgpack+aes",
        "9d787d2f680da529309fda6c0c9aaad085bb83d008f9916fdfe5d543d815eafe4ea6b092",
    ),
    (
        "0123456789abcdef0123456789abcdef",
        [1, 2, 3] * 30,
        "msgpack+aes",
        "19577ae495fe80d2959327baaa6195274d7a5d17a0705519696be67ee9258d4d0af57164e99883e7ab7ca417bcf625f6d14c"
        "6779b4ebada805c0fe6d5d638399e6a2f426db025c32206789c29f1c7c0e85ce9baac6c9c72e5902cbb93eae3e482f7944e0"
        "2ca0a855577e71508d64fd965e6136fc05c9caf08e9ceb053b",
    ),
]


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


@pytest.fixture
def serde() -> EncryptedSerializer:
    return EncryptedSerializer.from_keys(NEW)


def refused(load: Callable[[], Any]) -> EncryptionError:
    with pytest.raises(EncryptionError) as caught:
        load()
    assert caught.value.code == "ENCRYPTION"
    assert "docs/errors/ENCRYPTION.md" in str(caught.value)
    return caught.value


@given(st.one_of(st.none(), st.binary(), st.text(), st.lists(st.integers())))
def test_what_is_stored_comes_back(value: Any) -> None:
    serde = EncryptedSerializer.from_keys(NEW)

    assert serde.loads_at(serde.dumps_at(value, PLACE), PLACE) == value
    assert serde.loads_typed(serde.dumps_typed(value)) == value


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_have_the_three_sizes_of_aes(size: int) -> None:
    serde = EncryptedSerializer.from_keys(os.urandom(size))

    assert serde.loads_typed(serde.dumps_typed([1])) == [1]


@pytest.mark.parametrize("keys", [(), (b"",), (b"k" * 15,), ("é" * 9,), (OLD, OLD)])
def test_keys_that_cannot_be_used_are_refused(keys: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match=r"key"):
        EncryptedSerializer.from_keys(*keys)


def test_an_error_about_a_key_does_not_show_it() -> None:
    with pytest.raises(ConfigError) as caught:
        EncryptedSerializer.from_keys("secret")

    assert "secret" not in str(caught.value)


def test_equal_values_have_different_bytes(serde: EncryptedSerializer) -> None:
    assert len({serde.dumps_at("same", PLACE) for _ in range(100)}) == 100


def test_the_bytes_do_not_tell_the_value(serde: EncryptedSerializer) -> None:
    tag, stored = serde.dumps_at({"card": "4111"}, PLACE)

    assert tag == "msgpack+aesgcm"
    assert b"card" not in stored
    assert b"4111" not in stored


@pytest.mark.parametrize(
    "elsewhere",
    [
        PLACE._replace(kind="value", slot=("0",)),
        PLACE._replace(thread_id="thread2"),
        PLACE._replace(checkpoint_ns=""),
        PLACE._replace(channel="channel2"),
        PLACE._replace(checkpoint_id="checkpoint2"),
        PLACE._replace(slot=("task2", "0")),
        PLACE._replace(slot=("task", "1")),
        PLACE._replace(thread_id="threadns", checkpoint_ns=""),
        PLACE._replace(thread_id="thre", checkpoint_ns="adns"),
    ],
)
def test_a_row_can_be_read_only_at_its_place(serde: EncryptedSerializer, elsewhere: RowPlace) -> None:
    stored = serde.dumps_at("secret", PLACE)
    fault = refused(lambda: serde.loads_at(stored, elsewhere))

    assert fault.reason == "changed"
    assert fault.where["thread_id"] == elsewhere.thread_id
    assert repr(elsewhere.channel) in str(fault)


def test_checkpoints_share_the_value_that_a_version_has(serde: EncryptedSerializer) -> None:
    stored = serde.dumps_at("shared", VALUE)

    assert serde.loads_at(stored, VALUE._replace(checkpoint_id="later")) == "shared"
    assert refused(lambda: serde.loads_at(stored, VALUE._replace(slot=("2.5",)))).reason == "changed"


def test_no_bit_of_a_row_can_be_changed(serde: EncryptedSerializer) -> None:
    tag, stored = serde.dumps_at("secret", PLACE)

    for number in range(len(stored) * 8):
        bits = int.from_bytes(stored, "big") ^ (1 << number)
        fault = refused(lambda: serde.loads_at((tag, bits.to_bytes(len(stored), "big")), PLACE))  # noqa: B023
        assert fault.reason in ("changed", "unknown_key", "malformed")


def test_no_part_of_a_row_is_enough(serde: EncryptedSerializer) -> None:
    tag, stored = serde.dumps_at("secret", PLACE)

    for size in range(len(stored)):
        assert refused(lambda: serde.loads_at((tag, stored[:size]), PLACE)).reason in ("changed", "malformed")  # noqa: B023


@pytest.mark.parametrize("tag", ["bytes+aesgcm", "null+aesgcm", "pickle+aesgcm", "+aesgcm", "msgpack+kms", "msgpack+"])
def test_the_type_of_a_row_cannot_be_changed(serde: EncryptedSerializer, tag: str) -> None:
    stored = serde.dumps_at([1], PLACE)[1]

    refused(lambda: serde.loads_at((tag, stored), PLACE))


def test_a_row_of_another_key_says_which_one_it_needs(serde: EncryptedSerializer) -> None:
    fault = refused(lambda: serde.loads_at(EncryptedSerializer.from_keys(OTHER).dumps_at([1], PLACE), PLACE))

    assert fault.reason == "unknown_key"
    assert "which was not given" in str(fault)


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    before, both = EncryptedSerializer.from_keys(OLD), EncryptedSerializer.from_keys(NEW, OLD)

    assert both.loads_at(before.dumps_at(1, PLACE), PLACE) == 1
    assert EncryptedSerializer.from_keys(NEW).loads_at(both.dumps_at(2, PLACE), PLACE) == 2


def test_moving_a_row_encrypts_it_for_its_new_place_with_the_present_key() -> None:
    before, both = EncryptedSerializer.from_keys(OLD), EncryptedSerializer.from_keys(NEW, OLD)
    moved = both.moved(before.dumps_at([1], PLACE), PLACE, VALUE)

    assert EncryptedSerializer.from_keys(NEW).loads_at(moved, VALUE) == [1]
    refused(lambda: both.loads_at(moved, PLACE))


@pytest.mark.parametrize("tag", ["msgpack", "json", "bytes", "null", "pickle"])
def test_plaintext_is_refused_with_the_name_of_its_row(serde: EncryptedSerializer, tag: str) -> None:
    fault = refused(lambda: serde.loads_at((tag, b"\xc0"), PLACE))

    assert fault.reason == "plaintext"
    assert fault.path == ("channel",)
    assert fault.where == {
        "kind": "write",
        "thread_id": "thread",
        "checkpoint_ns": "ns",
        "channel": "channel",
        "checkpoint_id": "checkpoint",
        "task_id": "task",
        "position": "0",
    }
    for word in ("thread", "ns", "channel", "checkpoint", "task", "allow_plaintext=True"):
        assert word in str(fault)


def test_plaintext_is_let_in_for_a_migration_but_not_written() -> None:
    serde = EncryptedSerializer.from_keys(NEW, allow_plaintext=True)

    assert serde.loads_at(JsonPlusSerializer().dumps_typed([1]), PLACE) == [1]
    assert serde.dumps_at([1], PLACE)[0] == "msgpack+aesgcm"
    assert serde.moved(JsonPlusSerializer().dumps_typed([1]), PLACE, PLACE)[0] == "msgpack+aesgcm"


def test_what_has_no_place_cannot_be_put_into_a_row(serde: EncryptedSerializer) -> None:
    lax = EncryptedSerializer.from_keys(NEW, allow_unbound=True)

    refused(lambda: serde.loads_at(serde.dumps_typed([1]), PLACE))
    refused(lambda: serde.loads_typed(serde.dumps_at([1], PLACE)))
    assert lax.loads_at(serde.dumps_typed([1]), PLACE) == [1]


@pytest.mark.parametrize(("key", "value", "tag", "stored"), GOLDEN)
def test_rows_of_langgraph_can_be_read(key: str, value: Any, tag: str, stored: str) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=key)

    assert serde.loads_at((tag, bytes.fromhex(stored)), PLACE) == value
    assert (
        EncryptedSerializer.from_keys(NEW, key, allow_unbound=True).loads_typed((tag, bytes.fromhex(stored))) == value
    )


def test_no_bit_of_a_row_of_langgraph_can_be_changed() -> None:
    key, _, tag, text = GOLDEN[0]
    serde, stored = EncryptedSerializer.from_pycryptodome_aes(key=key), bytes.fromhex(text)

    for number in range(len(stored) * 8):
        bits = int.from_bytes(stored, "big") ^ (1 << number)
        refused(lambda: serde.loads_at((tag, bits.to_bytes(len(stored), "big")), PLACE))  # noqa: B023
    for size in range(len(stored)):
        refused(lambda: serde.loads_at((tag, stored[:size]), PLACE))  # noqa: B023


def test_rows_of_langgraph_are_refused_where_rows_must_be_bound() -> None:
    key, _, tag, stored = GOLDEN[0]

    assert refused(lambda: EncryptedSerializer.from_keys(key).loads_at((tag, bytes.fromhex(stored)), PLACE)).reason == (
        "unbound"
    )


def test_the_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    key, value, tag, stored = GOLDEN[0]
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)

    assert EncryptedSerializer.from_pycryptodome_aes().loads_typed((tag, bytes.fromhex(stored))) == value
    monkeypatch.delenv("LANGGRAPH_AES_KEY")
    with pytest.raises(ConfigError, match="LANGGRAPH_AES_KEY"):
        EncryptedSerializer.from_pycryptodome_aes()


def test_another_mode_than_langgraphs_default_is_refused() -> None:
    assert EncryptedSerializer.from_pycryptodome_aes(key=NEW, mode=9).allow_unbound
    with pytest.raises(ConfigError, match="EAX"):
        EncryptedSerializer.from_pycryptodome_aes(key=NEW, mode=2)


def test_a_cipher_that_does_not_bind_is_refused() -> None:
    class Theirs:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "xor", plaintext

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return ciphertext

    with pytest.raises(ConfigError, match="associated_data"):
        EncryptedSerializer(Theirs())  # type: ignore[arg-type]


def test_whatever_a_cipher_raises_names_the_row() -> None:
    class Broken(AesCipher):
        def decrypt(self, ciphername: str, ciphertext: bytes, associated_data: bytes = b"") -> bytes:
            raise ConnectionError("the key server is away")

    serde = EncryptedSerializer(Broken(NEW))

    assert "'channel'" in str(refused(lambda: serde.loads_at(serde.dumps_at(1, PLACE), PLACE)))


def test_the_allow_list_and_codecs_are_those_of_the_inner_serializer(serde: EncryptedSerializer) -> None:
    codec = Codec(Point, lambda point: (point.x,))
    inner = EncryptedSerializer.from_keys(NEW, serde=JsonPlusSerializer(codecs=[codec]))
    wider = serde.with_allowlist([KeyError, Colour])

    assert inner.loads_at(inner.dumps_at(Point(3), PLACE), PLACE).x == 3
    assert serde.with_allowlist([]) is serde
    assert wider.loads_at(wider.dumps_at(Colour("red"), PLACE), PLACE) == Colour("red")
    with pytest.raises(SerializationError, match="Colour"):
        serde.dumps_at(Colour("red"), PLACE)


class Colour(str):
    __slots__ = ()


def test_it_is_a_serializer_and_knows_places(serde: EncryptedSerializer) -> None:
    placed: PlacedSerializer = serde

    assert isinstance(placed, SerializerProtocol)


def test_a_serializer_without_keys_says_that_a_row_is_encrypted(serde: EncryptedSerializer) -> None:
    with pytest.raises(SerializationError, match="EncryptedSerializer"):
        JsonPlusSerializer().loads_typed(serde.dumps_typed([1]))


def test_a_missing_library_is_named_with_the_command_that_installs_it() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from langgraph_async.checkpoint.serde.encrypted import EncryptedSerializer\n"
        "try: EncryptedSerializer.from_keys(b'k' * 16)\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "pip install 'langgraph-async[encryption]'" in done.stdout


def test_importing_it_does_not_load_the_library() -> None:
    code = "import sys, langgraph_async.serde.encrypted\nprint('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
