"""A guard that is broken on purpose: a patched copy of its source, compiled as the real one is.

Engines find it because it stands under the real one's name in a cache directory of its own. For proving that
what should notice a broken guard does.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from bailiwick.engines.jars import (
    compile_jar,
    ensure_jars,
    guard_resources,
    guard_sources,
    pinned,
    pyspark_jars,
)
from bailiwick.engines.java import find_java


@dataclass(frozen=True, slots=True)
class Patch:
    """In the source `file`, `new` in the place of `old`, which must stand there once."""

    file: str
    old: str
    new: str


def weak_cache(directory: Path, *patches: Patch) -> Path:
    """A cache directory whose guard has these patches. Give it as BAILIWICK_CACHE."""
    sources = _patched(directory / "src", patches)
    return _cache_with(directory, sources)


def cache_without_guard(directory: Path) -> Path:
    """A cache directory whose jar has everything but the guard's own class, as if it had not been built."""
    sources = _patched(directory / "src", ())
    return _cache_with(directory, [source for source in sources if source.name != "Guard.java"])


def _patched(target: Path, patches: tuple[Patch, ...]) -> list[Path]:
    target.mkdir(parents=True)
    for source in guard_sources():
        shutil.copy(source, target / source.name)
    for patch in patches:
        file = target / patch.file
        text = file.read_text()
        if text.count(patch.old) != 1:
            raise LookupError(f"{patch.file} does not say once what is to be patched: {patch.old}")
        file.write_text(text.replace(patch.old, patch.new))
    return sorted(target.glob("*.java"))


def _cache_with(directory: Path, sources: list[Path]) -> Path:
    java = find_java()
    real = ensure_jars(java)
    jars = directory / "cache" / "jars"
    jars.mkdir(parents=True)
    (jars / real.iceberg.name).symlink_to(real.iceberg)
    compiler = real.guard.parent / pinned()["ecj"].file_name
    class_path = f"{pyspark_jars()}/*{os.pathsep}{real.iceberg}"
    compile_jar(java, compiler, sources, class_path, jars / real.guard.name, resources=guard_resources())
    return directory / "cache"
