"""Where bytes live: places here and elsewhere, files that are whole or absent, locks, memory, threads."""

# CRC-32 of files
from gamlp.io.checksums import checksum

# Files past the page cache
from gamlp.io.direct import DirectReader, DirectWriter

# Files that appear whole or not at all; .npy files
from gamlp.io.files import (
    DiskFull,
    GrowingArray,
    atomic_file,
    atomic_folder,
    create_array,
    disk_full_as_error,
    map_array,
    npy_header,
    refuse_taken,
    remove_empty,
    remove_partial,
    save_array,
    share_file,
    write_json,
    write_text,
)

# Folders of unfinished work that go with their process
from gamlp.io.held import temporary_folder, work_folder

# One writer at a time
from gamlp.io.locks import LOCK, locked, one_of_several, sole_writer

# How much memory there is, was used, and is kept
from gamlp.io.memory import PeakMemory, anonymous_memory, available_memory, keep_freed_memory, memory_ended

# A folder behind a URL as one on this machine
from gamlp.io.mirror import folder_here, seen_by_all

# Threads, and tasks that somebody else runs
from gamlp.io.parallel import (
    Tasks,
    Workers,
    even_ranges,
    ordered_map,
    parallel_map,
    read_ahead,
    run_here,
    usable_cores,
)

# A folder, a file or a URL
from gamlp.io.place import Place, is_url, scratch_folder

# What other packages bring, through entry points
from gamlp.io.plugins import find_plugins, load_plugin

# What is asked for where some rows of a file elsewhere are wanted
from gamlp.io.ranges import AT_ONCE, GAP, LONGEST, expected_read

# Rows in .npy files, here or elsewhere
from gamlp.io.row_arrays import (
    RemoteRows,
    RowShards,
    RowSource,
    mapped_rows,
    npy_buffer,
    npy_size,
    open_rows,
    put_rows,
)

# Rows of mapped files that are not in memory
from gamlp.io.scattered import FileRows, read_scattered

# JSON that knows its own digest
from gamlp.io.sealing import digest, sealed, unsealed

# Bytes as people write them
from gamlp.io.sizes import format_size, parse_size

# .npy files from front to back past the page cache, summed on the way
from gamlp.io.streamed import StreamedArray

# Rows of files that no cache holds
from gamlp.io.streamed_rows import ReadBuffers, StreamedRows, StreamedShards, stream_rows, streamable

# Counts over ranges of rows that add up
from gamlp.io.tallies import (
    Ranges,
    RangeWork,
    State,
    TakeTally,
    named_under,
    part_under,
    row_ranges,
    tally_by_tasks,
    tally_here,
)

# Code and addresses that a file names, and a person must name too
from gamlp.io.trust import Trust, Untrusted, check_trusted, names_of

# Files whose bytes are those that were written
from gamlp.io.verified import verify

__all__ = [
    "AT_ONCE",
    "GAP",
    "LOCK",
    "LONGEST",
    "DirectReader",
    "DirectWriter",
    "DiskFull",
    "FileRows",
    "GrowingArray",
    "PeakMemory",
    "Place",
    "RangeWork",
    "Ranges",
    "ReadBuffers",
    "RemoteRows",
    "RowShards",
    "RowSource",
    "State",
    "StreamedArray",
    "StreamedRows",
    "StreamedShards",
    "TakeTally",
    "Tasks",
    "Trust",
    "Untrusted",
    "Workers",
    "anonymous_memory",
    "atomic_file",
    "atomic_folder",
    "available_memory",
    "check_trusted",
    "checksum",
    "create_array",
    "digest",
    "disk_full_as_error",
    "even_ranges",
    "expected_read",
    "find_plugins",
    "folder_here",
    "format_size",
    "is_url",
    "keep_freed_memory",
    "load_plugin",
    "locked",
    "map_array",
    "mapped_rows",
    "memory_ended",
    "named_under",
    "names_of",
    "npy_buffer",
    "npy_header",
    "npy_size",
    "one_of_several",
    "open_rows",
    "ordered_map",
    "parallel_map",
    "parse_size",
    "part_under",
    "put_rows",
    "read_ahead",
    "read_scattered",
    "refuse_taken",
    "remove_empty",
    "remove_partial",
    "row_ranges",
    "run_here",
    "save_array",
    "scratch_folder",
    "sealed",
    "seen_by_all",
    "share_file",
    "sole_writer",
    "stream_rows",
    "streamable",
    "tally_by_tasks",
    "tally_here",
    "temporary_folder",
    "unsealed",
    "usable_cores",
    "verify",
    "work_folder",
    "write_json",
    "write_text",
]
