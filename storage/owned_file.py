"""Open the files beside a database, and refuse files that another user may have put there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_owned(path: Path, flags: int) -> int:
    """Open a regular file of this user with a single name, and return its descriptor; raise `OSError` for others."""
    try:
        # O_NONBLOCK: opening a pipe that has no writer would block.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link; remove it", str(path)) from None
        raise
    found = os.fstat(descriptor)
    problem = None
    if not stat.S_ISREG(found.st_mode):
        problem = "it is no regular file"
    elif found.st_uid != os.geteuid():
        problem = f"it belongs to another user (uid {found.st_uid})"
    elif found.st_nlink > 1:
        problem = "it has a second name (a hard link)"
    if problem is not None:
        os.close(descriptor)
        raise OSError(errno.EPERM, f"{problem}; remove it", str(path))
    return descriptor
