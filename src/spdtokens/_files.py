"""Files appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside the file; rename it to the file if the block succeeds.

    The temporary name keeps the suffix, which tells many writers the format. A symbolic link stays
    one: the file it points to is written. A file that is replaced keeps its permissions; a new one
    gets those of the umask.

    Raises
    ------
    OSError
        See :func:`output_file`.
    """
    target = output_file(path)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # The stem is cut, since the file's own name may already be as long as the disk allows.
    temporary = target.with_name(f".{target.stem[:40]}-{secrets.token_hex(8)}{target.suffix}")
    # Fails if the name is taken, so that a link planted there is not followed.
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    os.close(os.open(temporary, flags, 0o666 if mode is None else mode))
    try:
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def output_file(path: Path) -> Path:
    """Find the file that writing to ``path`` changes, or say plainly why it cannot be written.

    Call it before long work: what it accepts, :func:`written_whole` can write.

    Returns
    -------
    Path
        The path in full, with symbolic links followed.

    Raises
    ------
    OSError
        If it is a folder, a device, a pipe or a loop of links, if its folder does not exist, or if
        the folder or the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent if path.is_symlink() else path.parent  # as the user has named it
    if target.is_symlink():
        raise OSError(f"{path} must be a file, got a loop of symbolic links. Name another file.")
    if target.is_dir():
        raise IsADirectoryError(f"{path} must be a file, got a folder. Name a file in it.")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} must be a file, got a device or a pipe. Name another file.")
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {target.name} to.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder {folder} cannot be written to. Choose another.")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} is write-protected. Choose another name, or allow writing.")
    return target


def output_folder(path: Path) -> Path:
    """Make a folder to write to, or say plainly why it cannot be.

    Raises
    ------
    OSError
        If the path is a file, or cannot be made or written.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; give a folder to write to.")
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written to; choose another folder with --out.")
    return path
