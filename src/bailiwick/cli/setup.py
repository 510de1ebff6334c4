"""What an installation needs besides Python packages: jars, our Java, Java's class archive.

`make setup` calls it. Engines bring the jars themselves if they must; the archive is made here alone, with a
real catalog beside, so that it knows every class that an engine's start needs.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.canary import PRINCIPAL as CANARY_PRINCIPAL
from bailiwick.engines.class_archive import ClassArchive
from bailiwick.engines.class_training import CANARY_HANDLE, make_archive
from bailiwick.engines.jars import Jars, cache_directory, ensure_jars
from bailiwick.engines.java import Java, find_java
from bailiwick.engines.launch import new_token
from bailiwick.errors import BailiwickError
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.ids import LeaseId
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY
from bailiwick.policy.stamp import StampKey

_TRAINER: Final = Access(Principal("bailiwick-training", frozenset({ADMIN})), EMPTY)
_CANARY: Final = Access(CANARY_PRINCIPAL, EMPTY)


class _AnyLease:
    """The training's engine is alone with its catalog."""

    def holder(self, session_handle: str, lease_id: LeaseId) -> Access | None:
        del lease_id
        return _CANARY if session_handle == CANARY_HANDLE else _TRAINER


def main() -> int:
    try:
        java = find_java()
        _say(f"using Java {java.release}")
        jars = ensure_jars(java, report=_say)
    except BailiwickError as error:
        _say(error.message)
        return 1
    _say(f"jars ready: {jars.iceberg.name}, {jars.guard.name}")
    _say(_archive(java, jars))
    return 0


def _archive(java: Java, jars: Jars) -> str:
    archive = ClassArchive.fitting(java, jars, cache_directory())
    if archive.is_supported and not archive.is_made:
        _say("teaching Java its classes, so that engines start quickly (once, half a minute)")
        with tempfile.TemporaryDirectory(prefix="bailiwick-training-") as scratch:
            _train(archive, Path(scratch))
    return "class archive ready" if archive.is_made else "no class archive: engines start a little slower"


def _train(archive: ClassArchive, scratch: Path) -> None:
    credential = new_token()
    catalog = CatalogService(MemoryBackend(), scratch / "warehouse")
    stamp_key = StampKey.new()
    facade = FacadeServer(catalog, _AnyLease(), credential, stamp_key=lambda: stamp_key)
    port = facade.start()
    try:
        asyncio.run(make_archive(archive, f"http://127.0.0.1:{port}/iceberg", credential, stamp_key))
    finally:
        facade.stop()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
