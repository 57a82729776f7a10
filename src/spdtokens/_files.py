"""Write files atomically, and check that they can be written."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to the file if the block succeeds.

    The temporary name keeps the suffix, from which many writers infer the format. If ``path`` is a
    symbolic link, the file it points to is written. A file that is replaced keeps its permissions;
    a new file has those of the umask.

    Raises
    ------
    OSError
        See :func:`output_file`.
    """
    target = output_file(path)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # The stem is cut, because the name of the file may already have the maximal length.
    temporary = target.with_name(f".{target.stem[:40]}-{secrets.token_hex(8)}{target.suffix}")
    # Fails if the name exists, so that a symbolic link is not followed.
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
    """Return the file that writing to ``path`` would change; raise if it cannot be written.

    Call it before long computations: :func:`written_whole` can write what it accepts.

    Parameters
    ----------
    path : Path
        File to write.

    Returns
    -------
    Path
        Absolute path, with symbolic links resolved.

    Raises
    ------
    OSError
        If it is a folder, a device, a pipe or a cycle of links, if its folder does not exist, or if
        the folder or the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent if path.is_symlink() else path.parent  # as the user wrote it
    if target.is_symlink():
        raise OSError(f"{path} must be a file, got a cycle of symbolic links. Name another file.")
    if target.is_dir():
        raise IsADirectoryError(f"{path} must be a file, got a folder. Name a file in it.")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} must be a file, got a device or a pipe. Name another file.")
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {target.name} to.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder {folder} is not writable. Choose another folder.")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} is write-protected. Choose another name, or chmod u+w.")
    return target


def output_folder(path: Path) -> Path:
    """Create a folder to write to.

    Raises
    ------
    OSError
        If the path is a file, or cannot be created or written.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; name a folder to write to.")
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise PermissionError(f"The folder {path} is not writable. Choose another folder.")
    return path
