"""Read the files of the settings: never a pipe, which would block, and never more than a limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular_file(path: Path, *, limit_bytes: int) -> bytes:
    """Return the content of a file. Raises `OSError`, whose `strerror` is the reason."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes} bytes")
    return content
