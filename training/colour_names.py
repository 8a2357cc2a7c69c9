"""The basic colour words of English, and colours that each is the word for."""

from __future__ import annotations

# B. Berlin, P. Kay, "Basic Color Terms", 1969.
COLOUR_NAMES = (
    "black", "gray", "white", "red", "orange", "yellow",
    "green", "blue", "purple", "pink", "brown",
)  # fmt: skip

# Picked by eye, several for a word: a word covers an odd-shaped part of the colour space.
_COLOURS = {
    "black": "000000 0e0e0e 1c1c1c 0a0c18 0a140a",
    "gray": "3c3c3c 505050 6e6e6e 8c8c8c a9a9a9 c4c4c4 96a0aa",
    "white": "e0e0e0 ffffff f5e6d2 e0f5f0 dcc8aa",
    "red": "ff0000 c81e1e 8f1010 e04444 500a0a 8c2832",
    "orange": "ff8c00 f2762e d9731a f7a54a c85a1e c3692d",
    "yellow": "ffff00 f2dc2e c8b81e f5ec8c d8cc6a a09420",
    "green": "00ff00 1e9a3c 0c5a1e 5ccc5c 8cb43c a8e6a0 7ab08a "
    "4c6e3a 2ec8a0 14785a 0a280f 32402d 5a5f28 8ce6be",
    "blue": "0000ff 1e50c8 0f1446 4696e6 a0c8f0 6478aa 28c8e6 146e8c 8ce6f0 a5c3e1 28374b 0f2d37",
    "purple": "8000a0 6428c8 461464 a064dc 785a8c c8a0e6 9a3c9a 281e37 6e5ac8",
    "pink": "ff69b4 ffb6c8 e62e8c dc8ca0 f050dc f5a0e6 c84e82 f08c78 aa0078 b45a91",
    "brown": "8c4a1e 5a3214 a06e46 785a3c 46280f b48c5a 503228 6e4b00",
}
# A word and the colour's red, green and blue in hexadecimal.
PROTOTYPES = tuple((name, rgb) for name in COLOUR_NAMES for rgb in _COLOURS[name].split())
