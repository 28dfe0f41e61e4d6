#!/usr/bin/env python3
"""initramfs.py DIRECTORY: writes the directory as an archive for the kernel (newc) to standard output.

The same names and contents give the same bytes: no times, owners or inode numbers of this machine.
"""

import os
import sys


def entry(name, mode, content, number):
    encoded = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device (two), special device (two), length of the name, check
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return padded(header) + padded(content)


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def main():
    top = sys.argv[1]
    names = []
    for directory, directories, files in os.walk(top):
        names += [os.path.relpath(os.path.join(directory, name), top) for name in directories + files]
    out = sys.stdout.buffer
    number = 0
    for number, name in enumerate(sorted(names), start=1):
        path = os.path.join(top, name)
        if os.path.isdir(path):
            out.write(entry(name, 0o040755, b"", number))
        else:
            with open(path, "rb") as file:
                content = file.read()
            executable = os.stat(path).st_mode & 0o100
            out.write(entry(name, 0o100755 if executable else 0o100644, content, number))
    out.write(entry("TRAILER!!!", 0, b"", number + 1))


main()
