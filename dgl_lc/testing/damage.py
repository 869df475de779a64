"""Damaging files at random, to see that nothing but an error comes of it."""

import gzip
import io
import random
import zipfile

_WAYS = (
    "bit", "byte", "cut", "zeros", "grow", "swap", "insert", "digits", "empty"
)  # fmt: skip


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes, more often at the beginning, where headers are."""
    content = bytearray(data)
    if not content:
        return bytes(rng.randrange(1, 60))
    way = rng.choice(_WAYS)
    reach = len(content) if rng.random() < 0.5 else min(len(content), 130)
    place = rng.randrange(reach)
    if way == "bit":
        content[place] ^= 1 << rng.randrange(8)
    elif way == "byte":
        content[place] = rng.randrange(256)
    elif way == "cut":
        del content[place:]
    elif way == "zeros":
        content[place : place + 40] = bytes(len(content[place : place + 40]))
    elif way == "grow":
        content += bytes(rng.randrange(1, 60))
    elif way == "swap":
        other = rng.randrange(len(content))
        one, two = content[place : place + 8], content[other : other + 8]
        content[place : place + 8] = two
        content[other : other + 8] = one
    elif way == "insert":
        content[place:place] = rng.randbytes(rng.randrange(1, 9))
    elif way == "digits":
        _change_digits(content, place, rng)
    else:
        content.clear()
    return bytes(content)


def _change_digits(content: bytearray, place: int, rng: random.Random) -> None:
    """Make the next number of a text another one, perhaps a long one."""
    digits = b"0123456789"
    while place < len(content) and content[place] not in digits:
        place += 1
    other = rng.choice(
        [b"-1", b"0", b"1e9", b"1.5", b"nan", b"True", b"9" * 30]
    )
    content[place : place + 1] = other


def damage_packed(name: str, data: bytes, rng: random.Random) -> bytes:
    """Damage what a compressed file holds, and pack it again.

    A checksum then agrees with what was damaged.
    """
    if name.endswith(".gz"):
        return gzip.compress(damage(gzip.decompress(data), rng), 1)
    if not name.endswith(".npz"):
        return damage(data, rng)
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(file, "w") as new,
    ):
        chosen = rng.choice(old.namelist())
        for member in old.namelist():
            content = old.read(member)
            if member == chosen:
                content = damage(content, rng)
            how = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            new.writestr(member, content, how)
    return file.getvalue()
