#!/usr/bin/env python3
"""until-mark.py MARK: copies standard input to standard output, up to MARK or the end."""

import os
import sys


def main():
    mark = sys.argv[1].encode()
    held = b""
    while chunk := os.read(0, 1 << 16):
        held += chunk
        end = held.find(mark)
        if end >= 0:
            return give(held[:end])
        # What may be the beginning of the mark waits for the rest of it.
        begun = next((n for n in range(min(len(mark) - 1, len(held)), 0, -1) if mark.startswith(held[-n:])), 0)
        give(held[: len(held) - begun])
        held = held[len(held) - begun :]
    return give(held)


def give(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


main()
