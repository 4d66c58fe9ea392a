"""What a living process holds: a lock on a file, and folders of unfinished work that others know by it to be alive.

A lock is the kernel's (flock): it goes with the process, however that ends, so that no process number is ever compared,
and on a shared file system it is seen from other machines. Only who holds a lock removes its file; who then gets a file
that has lost its name tries again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from gamlp.errors import GamlpError

ALIVE = ".alive"  # in a folder of work: the file whose lock says that somebody is at it
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # what file systems without locks answer
_GOING = ".going-"  # a folder that is being removed
_SCRATCH = ".gamlp-work-"


def take_lock(file: Path, *, wait: bool = False, shared: bool = False) -> int | None:
    """A descriptor that holds the lock of `file`, made if need be; None where another one holds it.

    `shared`: together with others who say so.

    No link is followed, nothing but a plain file is taken, and what is in the file stays.
    """
    while True:
        descriptor = _open(file)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is no plain file", str(file))
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
            if _is_named(descriptor, file):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it while this one waited


def let_go(descriptor: int, file: Path) -> None:
    """Remove the file, unless others share it or somebody keeps something in it, and give up its lock."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of a shared lock: no other one is there
        if os.fstat(descriptor).st_size == 0 and _is_named(descriptor, file):
            file.unlink()
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process that was forked has the descriptor too
    os.close(descriptor)


def _open(file: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(file, flags | os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError as error:  # another user's: to lock it, reading is enough
        try:
            return os.open(file, flags | os.O_RDONLY)
        except OSError:
            raise error from None


def _is_named(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except FileNotFoundError:
        return False


@contextmanager
def work_folder(base: Path, *, refused: GamlpError | None = None, keep: bool = False) -> Iterator[Path]:
    """The folder `base`, held while the block lasts, and then removed with all that is in it.

    Where a living process holds it, `refused` is raised, and without that the next free one of `base`-2, `base`-3 … is
    taken. What dead processes left is removed; with `keep` it is still there, to be gone on with, and an interruption
    leaves it too.
    """
    own, descriptor = _first_free(base, refused, keep)
    try:
        _clear(own, _GOING if keep else "")
        _remove_others(base, own)
        yield own
    except KeyboardInterrupt:
        if not keep:
            _clear(own)
        raise
    except BaseException:
        _clear(own)
        raise
    else:
        _clear(own)
    finally:
        _leave(own, descriptor)


def remove_dead_work(folder: Path, pattern: str) -> None:
    """Remove folders of work below `folder` that nobody holds."""
    for found in list(folder.glob(pattern)):
        _remove_if_dead(found)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of its own where temporary files go; what killed processes of the same user left there goes too."""
    where = Path(tempfile.gettempdir())
    remove_dead_work(where, f"{_SCRATCH}*")
    with work_folder(where / f"{_SCRATCH}{uuid.uuid4().hex[:12]}") as own:
        own.chmod(0o700)
        yield own


def _first_free(base: Path, refused: GamlpError | None, keep: bool) -> tuple[Path, int]:
    for number in count(1):
        own = _numbered(base, number)
        foreign = _is_foreign(own, keep)
        try:
            descriptor = None if foreign else _occupy(own)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return _unlocked(base)
        if descriptor is not None:
            return own, descriptor
        if refused is not None:
            raise GamlpError("is in the way", file=own, hint="remove it") if foreign else refused
    raise AssertionError("numbers do not end")


def _unlocked(base: Path) -> tuple[Path, int]:
    """Where the file system has no locks: a folder that nobody else names, and that nobody takes for dead."""
    own = base.with_name(f"{base.name}-{uuid.uuid4().hex[:12]}")
    own.mkdir(parents=True)
    return own, _open(own / ALIVE)


def _numbered(base: Path, number: int) -> Path:
    return base if number == 1 else base.with_name(f"{base.name}-{number}")


def _is_foreign(own: Path, kept: bool = False) -> bool:
    """Whether something has this name that is no folder of work of this user: it is not written to, nor removed.

    The lock's file comes first into a folder of work and goes last; only work that is kept is left without it.
    """
    try:
        found = own.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return True
        names = {path.name for path in own.iterdir()}
    except FileNotFoundError:
        return False
    return bool(names) and ALIVE not in names and not kept


def _occupy(own: Path) -> int | None:
    while True:
        make_folder(own)
        with suppress(FileNotFoundError):  # its last holder removed it between the two
            return take_lock(own / ALIVE)


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there, though others may make and remove it, or those above it, at the same time."""
    while not folder.is_dir():
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # pathlib looks again what it is, and then it may be gone
            if any(_is_no_folder(above) for above in (folder, *folder.parents)):
                raise
        except FileNotFoundError:
            continue


def _is_no_folder(path: Path) -> bool:
    try:
        return not stat.S_ISDIR(path.stat().st_mode)  # looked at once: it may be gone the next moment
    except FileNotFoundError:
        return path.is_symlink()


def _remove_others(base: Path, own: Path) -> None:
    for number in count(1):
        other = _numbered(base, number)
        if other != own:
            if not other.exists():
                return
            _remove_if_dead(other)


def _remove_if_dead(own: Path) -> None:
    with suppress(OSError):  # gone by now, or of a file system that does not say whether it is alive
        if not _is_foreign(own) and (descriptor := take_lock(own / ALIVE)) is not None:
            _clear(own)
            _leave(own, descriptor)


def _clear(own: Path, prefix: str = "") -> None:
    """Remove all but the lock. A folder gets another name first: a kill on the way leaves nothing that looks whole."""
    for path in list(own.iterdir()):
        if path.name == ALIVE or not path.name.startswith(prefix):
            continue
        if path.is_dir() and not path.is_symlink():
            going = path if path.name.startswith(_GOING) else path.with_name(f"{_GOING}{uuid.uuid4().hex[:8]}")
            path.rename(going)
            shutil.rmtree(going, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _leave(own: Path, descriptor: int) -> None:
    let_go(descriptor, own / ALIVE)
    with suppress(OSError):  # kept work, or the next is there already
        own.rmdir()
